/**
 * The circuit breaker of one identity at one mount. After failures no call is sent for a while; then one probe is sent
 * before all other calls. `Liveness` decides whether the server answers at all.
 *
 * State machine:
 *
 * - `closed`: calls pass. `threshold` failures in a row → `open`.
 * - `open`: calls are refused until the wait is over. The first call after it becomes the probe → `probing`.
 * - `probing`: the probe is running, all other calls are refused. It is answered → `closed`; it fails → `open`, with a
 *   longer wait; its caller aborts it → `open`, with no wait.
 *
 * A failure is the lack of a usable answer (no answer in time, 502–504), not an error that Vault answers. Failures of calls that began
 * before the circuit last changed are not counted; a success closes it whenever its call began.
 *
 * Independent of that, `pause` refuses all calls for the time of a Retry-After.
 */
import { Backoff } from '../../runtime/queue/backoff.ts';
import type { Clock } from '../../runtime/clock.ts';

export interface CircuitOptions {
  readonly clock: Clock;
  /** 0 ≤ r < 1. Default `Math.random`. */
  readonly random?: (() => number) | undefined;
  /** Failures in a row that open it. Default 5. */
  readonly threshold?: number | undefined;
  /** Ceiling of every wait, ms. Default 60,000. */
  readonly maxMs?: number | undefined;
}

export type CircuitState = 'closed' | 'open' | 'probing';

/** Permission for one call. The caller calls exactly one of the methods when the call is over. */
export interface Permit {
  readonly refused?: undefined;
  /** The server answered. */
  succeeded(): void;
  failed(): void;
  /** Aborted before its outcome was known. */
  dropped(): void;
}

export interface Refusal {
  readonly refused: 'open' | 'paused';
  readonly retryAfterMs: number;
}

/** Retry-After of calls that are refused while a probe is sent. */
export const PROBE_RECHECK_MS = 500;
/** A longer Retry-After is cut to this. */
const LONGEST_PAUSE_MS = 60_000;
/** Ceiling of the first wait. */
const BASE_MS = 1_000;

export class Circuit {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #threshold: number;
  readonly #backoff: Backoff;
  #state: CircuitState = 'closed';
  /** Counts the changes of `#state`. */
  #epoch = 0;
  #failures = 0;
  #openUntil = 0;
  #pausedUntil = 0;

  /** @throws RangeError naming a bad option */
  constructor(options: CircuitOptions) {
    const { clock, random = Math.random, threshold = 5, maxMs = 60_000 } = options;
    if (!(Number.isInteger(threshold) && threshold > 0)) {
      throw new RangeError(`threshold must be a positive integer, got ${threshold}`);
    }
    this.#clock = clock;
    this.#random = random;
    this.#threshold = threshold;
    this.#backoff = new Backoff({ baseMs: BASE_MS, maxMs, random });
  }

  get state(): CircuitState {
    return this.#state;
  }

  /** Called before every call. */
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

  /** Refuses all calls for the time of a Retry-After. */
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
        this.#backoff.reset();
        if (this.#state !== 'closed') this.#become('closed');
      },
      failed: () => {
        if (epoch !== this.#epoch) return;
        this.#failures++;
        if (probe || this.#failures >= this.#threshold) this.#open(this.#backoff.next());
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
