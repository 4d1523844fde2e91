/**
 * The circuit breaker of one party (an identity at a mount): what does not answer is left alone for a while, and asked again by one
 * call before all others follow. Whether the server as a whole answers is for `Liveness` to say.
 *
 * State machine:
 *
 * - `closed`: calls pass. `threshold` failures in a row → `open`.
 * - `open`: calls are refused until the wait is over. The first call after it becomes the probe → `probing`.
 * - `probing`: the probe is under way, all other calls are refused. It answers → `closed`; it fails → `open`, with a
 *   longer wait; it is given up by its caller → `open`, with no wait.
 *
 * A failure is the lack of a usable answer (no answer in time, 502–504), not an error that Vault answers. Failures of calls that began
 * before the circuit last changed are not counted; a success closes it whenever its call began.
 *
 * Independent of that, `pause` refuses all calls for the time of a Retry-After.
 */
import { KeyedBackoff } from '../runtime/backoff.ts';
import type { Clock } from '../runtime/clock.ts';

export interface CircuitOptions {
  readonly clock: Clock;
  /** 0 ≤ r < 1. Default `Math.random`. */
  readonly random?: (() => number) | undefined;
  /** Failures in a row that open it. Default 5. */
  readonly threshold?: number | undefined;
  /** Ceiling of the first wait, ms. Default 1,000. */
  readonly baseMs?: number | undefined;
  /** Ceiling of every wait, ms. Default 60,000. */
  readonly maxMs?: number | undefined;
}

export type CircuitState = 'closed' | 'open' | 'probing';

/** The right to make one call. Exactly one of the methods is called when it is over. */
export interface Permit {
  readonly refused?: undefined;
  /** The server answered. */
  succeeded(): void;
  failed(): void;
  /** Given up before it showed anything. */
  dropped(): void;
}

export interface Refusal {
  readonly refused: 'open' | 'paused';
  readonly retryAfterMs: number;
}

/** While a probe is under way nobody knows when it ends; others look again after this time. */
export const PROBE_RECHECK_MS = 500;
/** A Retry-After of hours would be obeyed to the letter otherwise. */
const LONGEST_PAUSE_MS = 60_000;
const KEY = 'server';

export class Circuit {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #threshold: number;
  readonly #backoff: KeyedBackoff;
  #state: CircuitState = 'closed';
  /** Counts the changes of `#state`. */
  #epoch = 0;
  #failures = 0;
  #openUntil = 0;
  #pausedUntil = 0;

  /** @throws RangeError naming a bad option */
  constructor(options: CircuitOptions) {
    const { clock, random = Math.random, threshold = 5, baseMs = 1_000, maxMs = 60_000 } = options;
    if (!(Number.isInteger(threshold) && threshold > 0)) {
      throw new RangeError(`threshold must be a positive integer, got ${threshold}`);
    }
    this.#clock = clock;
    this.#random = random;
    this.#threshold = threshold;
    this.#backoff = new KeyedBackoff({ baseMs, maxMs, random });
  }

  get state(): CircuitState {
    return this.#state;
  }

  /** Ask before every call. */
  tryEnter(): Permit | Refusal {
    const now = this.#clock.monotonic();
    if (now < this.#pausedUntil) return { refused: 'paused', retryAfterMs: this.#pausedUntil - now };
    if (this.#state === 'probing') return { refused: 'open', retryAfterMs: PROBE_RECHECK_MS * (1 + this.#random()) };
    if (this.#state === 'open') {
      if (now < this.#openUntil) return { refused: 'open', retryAfterMs: this.#openUntil - now };
      this.#become('probing');
    }
    return this.#permit();
  }

  /** A Retry-After that holds for every call to this server. */
  pause(ms: number): void {
    const until = this.#clock.monotonic() + Math.min(ms, LONGEST_PAUSE_MS);
    this.#pausedUntil = Math.max(this.#pausedUntil, until);
  }

  #permit(): Permit {
    const epoch = this.#epoch;
    const probe = this.#state === 'probing';
    return {
      succeeded: () => {
        this.#failures = 0;
        this.#backoff.reset(KEY);
        if (this.#state !== 'closed') this.#become('closed');
      },
      failed: () => {
        if (epoch !== this.#epoch) return;
        this.#failures++;
        if (probe || this.#failures >= this.#threshold) this.#open(this.#backoff.next(KEY));
      },
      dropped: () => {
        if (probe && epoch === this.#epoch) this.#open(0);
      },
    };
  }

  #open(waitMs: number): void {
    this.#openUntil = this.#clock.monotonic() + waitMs;
    this.#become('open');
  }

  #become(state: CircuitState): void {
    this.#state = state;
    this.#failures = 0;
    this.#epoch++;
  }
}
