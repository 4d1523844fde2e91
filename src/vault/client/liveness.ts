/**
 * Whether a server answers at all. The check (`sys/health`) uses no identity. So one identity whose calls hang does not
 * make the server count as down, and a server that is down gets one check at a time from all identities together.
 *
 * State machine:
 *
 * - `up`: calls pass. A call without a usable answer → `checking`.
 * - `checking`: the check is sent; calls wait for its result. Alive → `up`; not → `down`.
 * - `down`: calls are refused. When the wait is over, the next call sends the check and waits for its result; all others are
 *   refused meanwhile. Alive → `up`; not → `down`, with a longer wait.
 *
 * An answer to any call at any time → `up`.
 */
import { orAborted } from '../../runtime/abort.ts';
import { Backoff } from '../../runtime/queue/backoff.ts';
import type { GateOptions, Refusal } from './mount-gates.ts';

export interface LivenessOptions extends GateOptions {
  /** Ceiling of every wait, ms. Default 10,000: so long may a server that answers again stay unused. */
  readonly maxMs?: number | undefined;
  /** Whether the server answers. Never rejects. */
  readonly sendCheck: () => Promise<boolean>;
}

/** After an answer the server counts as alive for this time, ms. */
const TRUSTED_MS = 1_000;
/** Ceiling of the first wait, ms. */
const BASE_MS = 1_000;
/** Retry-After of calls that are refused while the check is sent. */
const CHECK_MS = 500;

export class Liveness {
  readonly #options: LivenessOptions;
  readonly #backoff: Backoff;
  /** While the server is down: no check is sent before this time, monotonic ms. */
  #downUntil: number | undefined;
  #aliveAt = -Infinity;
  /** The check that is being sent. */
  #verdict: PromiseWithResolvers<boolean> | undefined;

  constructor(options: LivenessOptions) {
    this.#options = options;
    this.#backoff = new Backoff({ baseMs: BASE_MS, maxMs: options.maxMs ?? 10_000, random: options.random });
  }

  get state(): 'up' | 'checking' | 'down' {
    if (this.#downUntil !== undefined) return 'down';
    return this.#verdict === undefined ? 'up' : 'checking';
  }

  /** Called before every call. `undefined`: it may be sent. @throws AbortedError */
  async admit(signal: AbortSignal): Promise<Refusal | undefined> {
    const { clock, random = Math.random } = this.#options;
    if (this.#downUntil !== undefined) {
      const left = this.#downUntil - clock.monotonic();
      if (left > 0) return { because: 'failed', retryAfterMs: left };
      if (this.#verdict !== undefined) return { because: 'failed', retryAfterMs: CHECK_MS * (1 + random()) };
    }
    if (this.state !== 'up') await orAborted(this.#sendCheck(), signal, 'checking whether vault answers');
    if (this.#downUntil === undefined) return undefined;
    return { because: 'failed', retryAfterMs: this.#downUntil - clock.monotonic() };
  }

  /** A call had no usable answer. @returns whether the server answers the check. Never rejects. */
  async check(): Promise<boolean> {
    if (this.#downUntil !== undefined) return false;
    if (this.#options.clock.monotonic() < this.#aliveAt + TRUSTED_MS) return true;
    return await this.#sendCheck();
  }

  /** A call was answered. */
  recordAnswer(): void {
    this.#aliveAt = this.#options.clock.monotonic();
    this.#backoff.reset();
    this.#downUntil = undefined;
    this.#verdict?.resolve(true);
    this.#verdict = undefined;
  }

  #sendCheck(): Promise<boolean> {
    if (this.#verdict !== undefined) return this.#verdict.promise;
    const verdict = (this.#verdict = Promise.withResolvers<boolean>());
    void this.#settle(verdict);
    return verdict.promise;
  }

  async #settle(verdict: PromiseWithResolvers<boolean>): Promise<void> {
    const alive = await this.#options.sendCheck();
    // Another call was answered meanwhile.
    if (this.#verdict !== verdict) return;
    if (alive) {
      this.recordAnswer();
      return;
    }
    this.#verdict = undefined;
    this.#downUntil = this.#options.clock.monotonic() + this.#backoff.next();
    verdict.resolve(false);
  }
}
