/**
 * How long to wait before the next try: exponential, with jitter, never shorter than a Retry-After.
 *
 * `Backoff` is for one row of tries, or one stream that is opened repeatedly (a watch). It resets only after the stream was open for
 * `stableMs`, so that the wait keeps growing while a server accepts connections and drops them at once.
 */
import { type Clock, systemClock } from '../clock.ts';

export interface BackoffOptions {
  /** Ceiling of the first wait, ms. */
  readonly baseMs: number;
  /** Ceiling of every wait, ms (a Retry-After may exceed it). */
  readonly maxMs: number;
  /** 0 ≤ r < 1. Default `Math.random`. */
  readonly random?: (() => number) | undefined;
}

/** A Retry-After would send all clients back at one instant; up to this share of it is added at random to spread them. */
const FLOOR_SPREAD = 0.1;

/** The wait after a number of failures in a row, ms; at least `floorMs` (a Retry-After). @param mostMs ceiling, where it is lower than `maxMs` */
export type WaitAfter = (failures: number, floorMs: number, mostMs?: number) => number;

/** From half the ceiling to the ceiling, which doubles with each failure. */
export function waitAfter({ baseMs, maxMs, random = Math.random }: BackoffOptions): WaitAfter {
  return (failures, floorMs, mostMs = maxMs) => {
    const ceiling = Math.min(maxMs, mostMs, baseMs * 2 ** (failures - 1));
    const share = random();
    const wait = (ceiling * (1 + share)) / 2;
    return wait >= floorMs ? wait : floorMs * (1 + share * FLOOR_SPREAD);
  };
}

export interface ReconnectOptions extends BackoffOptions {
  /** A stream that was open this long, ms, ends a row of failures. Default: none does. */
  readonly stableMs?: number;
  readonly clock?: Clock;
}

/** The waits of client-go's reflector (0.8 s → 30 s); a stream that lasted 10 s is taken for a good one. */
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

  /** The stream is open now. */
  opened(): void {
    this.#openedAt = this.#clock.monotonic();
  }

  /** The try failed or the stream ended: ms to wait before the next try, at least `floorMs`. */
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
 * Keys that must not be used before a time: the earliest start of a key's next run, or of the next try of a path.
 *
 * Expired entries have no effect. They are swept together from time to time, so that a hold costs one map entry and no timer.
 */
export class Holds {
  readonly #until = new Map<string, number>();
  readonly #sweepEveryMs: number;
  #sweptAt = 0;

  constructor(sweepEveryMs: number) {
    this.#sweepEveryMs = sweepEveryMs;
  }

  /** 0 if nothing holds the key. */
  until(key: string): number {
    return this.#until.get(key) ?? 0;
  }

  /** The later of two holds wins. */
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
