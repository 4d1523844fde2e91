/**
 * Computes the wait before the next try: exponential, with a random part, never shorter than a Retry-After.
 *
 * A `Backoff` counts the failures of one piece of work, or of one stream that is opened repeatedly (a watch). A stream
 * resets the count only after it was open for `stableMs`. So the wait keeps growing if a server accepts connections and
 * drops them at once.
 */
import { type Clock, systemClock } from '../clock.ts';

interface BackoffOptions {
  /** Longest first wait, ms. */
  readonly baseMs: number;
  /** Longest wait, ms. Only a longer Retry-After exceeds this limit. */
  readonly maxMs: number;
}

/** Up to this share is added to a Retry-After at random: otherwise all clients would try at the same instant. */
const FLOOR_SPREAD = 0.1;

/** Returns the wait after `failures` in a row, at least `floorMs` (a Retry-After), ms. @param mostMs a lower `maxMs` */
export type WaitAfter = (failures: number, floorMs: number, mostMs?: number) => number;

/** The wait is random, between half of a ceiling and the ceiling. The ceiling doubles with each failure. */
export function waitAfter({ baseMs, maxMs }: BackoffOptions): WaitAfter {
  return (failures, floorMs, mostMs = maxMs) => {
    const ceiling = Math.min(maxMs, mostMs, baseMs * 2 ** (failures - 1));
    const share = Math.random();
    const wait = (ceiling * (1 + share)) / 2;
    return wait >= floorMs ? wait : floorMs * (1 + share * FLOOR_SPREAD);
  };
}

/** The shortest wait that an error asks for, ms: its `retryAfterMs`, for example from a Retry-After. 0: none. */
export function askedWaitMs(error: unknown): number {
  const { retryAfterMs } = (error ?? {}) as { readonly retryAfterMs?: unknown };
  return typeof retryAfterMs === 'number' ? retryAfterMs : 0;
}

export interface ReconnectOptions extends BackoffOptions {
  /** After a stream was open for this time, ms, the waits start again with the first. Default: never. */
  readonly stableMs?: number;
  readonly clock?: Clock;
}

/** The waits of client-go's reflector, from 0.8 s to 30 s. After a stream was open for 10 s, the waits start again. */
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

  /** Records that the try failed with `error`, or the stream ended. @returns ms to wait before the next try */
  next(error?: unknown): number {
    if (this.#openedAt !== undefined && this.#clock.monotonic() - this.#openedAt >= this.#stableMs) this.reset();
    this.#openedAt = undefined;
    return this.#waitAfter(++this.#failures, askedWaitMs(error));
  }

  reset(): void {
    this.#failures = 0;
    this.#openedAt = undefined;
  }
}

/**
 * Keys that cool down: a key must not be used before the end of its cooldown; for example, a queue must not run it.
 * Expired cooldowns have no effect. They are removed together from time to time, so that none needs a timer.
 */
export class Cooldowns {
  readonly #until = new Map<string, number>();
  readonly #sweepEveryMs: number;
  #sweptAt = 0;

  constructor(sweepEveryMs: number) {
    this.#sweepEveryMs = sweepEveryMs;
  }

  /** The end of the key's cooldown, monotonic ms; 0: it has none. */
  until(key: string): number {
    return this.#until.get(key) ?? 0;
  }

  /** Sets a cooldown. If the key has one already, the later end counts. */
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
