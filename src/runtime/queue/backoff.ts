/**
 * The wait before the next try: exponential, with jitter, never shorter than a Retry-After.
 *
 * A `Backoff` counts the tries of one piece of work, or of one stream that is opened repeatedly (a watch). A stream
 * resets it only after it was open for `stableMs`. So the wait keeps growing if a server accepts connections and drops
 * them at once.
 */
import { type Clock, systemClock } from '../clock.ts';

export interface BackoffOptions {
  /** Longest first wait, ms. */
  readonly baseMs: number;
  /** Longest wait of all, ms, except for a longer Retry-After. */
  readonly maxMs: number;
  /** 0 ≤ r < 1. Default `Math.random`. */
  readonly random?: (() => number) | undefined;
}

/** Random share that is added to a Retry-After: without it, all clients would come back at one instant. */
const FLOOR_SPREAD = 0.1;

/** Ms to wait after `failures` in a row, at least `floorMs` (a Retry-After). @param mostMs a limit below `maxMs` */
export type WaitAfter = (failures: number, floorMs: number, mostMs?: number) => number;

/** The wait is random, from half a ceiling to the ceiling, which doubles with each failure. */
export function waitAfter({ baseMs, maxMs, random = Math.random }: BackoffOptions): WaitAfter {
  return (failures, floorMs, mostMs = maxMs) => {
    const ceiling = Math.min(maxMs, mostMs, baseMs * 2 ** (failures - 1));
    const share = random();
    const wait = (ceiling * (1 + share)) / 2;
    return wait >= floorMs ? wait : floorMs * (1 + share * FLOOR_SPREAD);
  };
}

export interface ReconnectOptions extends BackoffOptions {
  /** A stream that was open this long, ms, resets the wait. Default: no stream does. */
  readonly stableMs?: number;
  readonly clock?: Clock;
}

/** The waits of client-go's reflector (0.8 s → 30 s). A stream that was open for 10 s resets them. */
export const RECONNECT = { baseMs: 800, maxMs: 30_000, stableMs: 10_000 };

export class Backoff {
  readonly #waitAfter: WaitAfter;
  readonly #stableMs: number;
  readonly #clock: Clock;
  #failures = 0;
  #openedAt: number | undefined;

  constructor(options: ReconnectOptions) {
    this.#waitAfter = waitAfter(options);
    this.#stableMs = options.stableMs ?? Infinity;
    this.#clock = options.clock ?? systemClock;
  }

  /** Records that the stream is open now. */
  opened(): void {
    this.#openedAt = this.#clock.monotonic();
  }

  /** Records that the try failed or the stream ended. @returns ms to wait before the next try, at least `floorMs` */
  next(floorMs = 0): number {
    if (this.#openedAt !== undefined && this.#clock.monotonic() - this.#openedAt >= this.#stableMs) this.reset();
    this.#openedAt = undefined;
    return this.#waitAfter(++this.#failures, floorMs);
  }

  reset(): void {
    this.#failures = 0;
    this.#openedAt = undefined;
  }
}

/**
 * Keys on hold: each must not be used before a time (a key of a queue must not run, a path must not be tried). Expired
 * holds have no effect. They are removed together from time to time, so that a hold needs no timer.
 */
export class Holds {
  readonly #until = new Map<string, number>();
  readonly #sweepEveryMs: number;
  #sweptAt = 0;

  constructor(sweepEveryMs: number) {
    this.#sweepEveryMs = sweepEveryMs;
  }

  /** The end of the key's hold, monotonic ms; 0 if it has none. */
  until(key: string): number {
    return this.#until.get(key) ?? 0;
  }

  /** Sets a hold; of two holds of a key the later end counts. */
  extend(key: string, until: number): void {
    if (until > this.until(key)) this.#until.set(key, until);
  }

  delete(key: string): void {
    this.#until.delete(key);
  }

  clear(): void {
    this.#until.clear();
  }

  sweep(now: number): void {
    if (this.#until.size === 0 || now - this.#sweptAt < this.#sweepEveryMs) return;
    this.#sweptAt = now;
    for (const [key, until] of this.#until) if (until <= now) this.#until.delete(key);
  }
}
