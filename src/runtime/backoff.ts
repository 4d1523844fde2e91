/**
 * How long to wait before trying again: exponential, with jitter, never shorter than the other side asked for.
 *
 * `KeyedBackoff` counts failures per key and is told about successes. `Backoff` is for one thing that is opened again
 * and again (a watch): it forgets its failures once the thing has been open for `stableMs`, so that a server which
 * accepts and drops at once is still waited for longer and longer.
 */
import { type Clock, systemClock } from './clock.ts';

/** `full`: 0 … ceiling, spreads best. `equal`: half the ceiling … ceiling, where at least some wait is needed. */
export type Jitter = 'full' | 'equal';

export interface BackoffOptions {
  /** Ceiling of the first wait, ms. */
  readonly baseMs: number;
  /** Ceiling of every wait, ms (a floor asked for by the server may exceed it). */
  readonly maxMs: number;
  /** Each ceiling is this times the one before. Default 2. */
  readonly factor?: number;
  /** Default `equal`. */
  readonly jitter?: Jitter;
  /** 0 ≤ r < 1. Default `Math.random`. */
  readonly random?: () => number;
}

/** A Retry-After sends all its readers back at one instant; this share of it is added at random to spread them. */
const FLOOR_SPREAD = 0.1;

/** @throws RangeError naming the option and its value */
function checked(options: BackoffOptions): Required<BackoffOptions> {
  const { baseMs, maxMs, factor = 2, jitter = 'equal', random = Math.random } = options;
  if (!(baseMs > 0 && Number.isFinite(baseMs))) throw new RangeError(`baseMs must be a positive number, got ${baseMs}`);
  if (!(maxMs >= baseMs && Number.isFinite(maxMs)))
    throw new RangeError(`maxMs must be at least baseMs (${baseMs}), got ${maxMs}`);
  if (!(factor >= 1 && Number.isFinite(factor))) throw new RangeError(`factor must be at least 1, got ${factor}`);
  return { baseMs, maxMs, factor, jitter, random };
}

function delay(options: Required<BackoffOptions>, failures: number, floorMs: number): number {
  const ceiling = Math.min(options.maxMs, options.baseMs * options.factor ** failures);
  const random = options.random();
  const wait = options.jitter === 'full' ? random * ceiling : (ceiling * (1 + random)) / 2;
  return wait >= floorMs ? wait : floorMs * (1 + random * FLOOR_SPREAD);
}

export class KeyedBackoff {
  readonly #options: Required<BackoffOptions>;
  readonly #failures = new Map<string, number>();

  /** @throws RangeError naming a bad option */
  constructor(options: BackoffOptions) {
    this.#options = checked(options);
  }

  /** How many keys have failed and not succeeded since. */
  get size(): number {
    return this.#failures.size;
  }

  /**
   * Counts one more failure of `key`.
   * @param floorMs a Retry-After: the answer is at least this
   * @returns ms to wait
   */
  next(key: string, floorMs = 0): number {
    const failures = this.attempts(key);
    this.#failures.set(key, failures + 1);
    return delay(this.#options, failures, floorMs);
  }

  /** Failures of `key` since its last success. */
  attempts(key: string): number {
    return this.#failures.get(key) ?? 0;
  }

  /** `key` succeeded, or nobody will ask for it again. */
  reset(key: string): void {
    this.#failures.delete(key);
  }
}

export interface ReconnectOptions extends BackoffOptions {
  /** Having been open this long, ms, ends a row of failures. */
  readonly stableMs: number;
  readonly clock?: Clock;
}

/** The waits of client-go's reflector (0.8 s → 30 s); a stream that lasted 10 s is taken for a good one. */
export const RECONNECT: ReconnectOptions = { baseMs: 800, maxMs: 30_000, stableMs: 10_000 };

export class Backoff {
  readonly #options: Required<BackoffOptions>;
  readonly #stableMs: number;
  readonly #clock: Clock;
  #failures = 0;
  #openedAt: number | undefined;

  /** @throws RangeError naming a bad option */
  constructor(options: ReconnectOptions = RECONNECT) {
    this.#options = checked(options);
    this.#stableMs = options.stableMs;
    this.#clock = options.clock ?? systemClock;
  }

  /** Failures in a row so far. */
  get attempts(): number {
    return this.#failures;
  }

  /** The stream is open now; whether that was worth something shows when it ends. */
  opened(): void {
    this.#openedAt = this.#clock.monotonic();
  }

  /** It ended or could not be opened: ms to wait before the next try, at least `floorMs`. */
  next(floorMs = 0): number {
    if (this.#openedAt !== undefined && this.#clock.monotonic() - this.#openedAt >= this.#stableMs) this.reset();
    this.#openedAt = undefined;
    return delay(this.#options, this.#failures++, floorMs);
  }

  reset(): void {
    this.#failures = 0;
    this.#openedAt = undefined;
  }
}
