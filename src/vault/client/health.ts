/**
 * Finds out whether a server answers at all, by a health check (`sys/health`) without a token. So if calls of one
 * identity hang, the server does not count as down. While it is down, all identities together send one check at a time.
 *
 * State machine:
 * - `up`: calls pass. A call without a usable answer → `checking`.
 * - `checking`: the check is sent; calls wait for its result. The server serves calls → `up`; otherwise → `down`.
 * - `down`: calls are refused. When the wait is over, the next call sends the check, and calls wait for its result. The
 *   server serves calls → `up`; otherwise → `down`, with a longer wait.
 * An answer to any call at any time → `up`.
 */
import { orAborted } from '../../runtime/abort.ts';
import type { Clock } from '../../runtime/clock.ts';
import { Backoff } from '../../runtime/queue/backoff.ts';

interface HealthOptions {
  readonly clock: Clock;
  /** Returns r, 0 ≤ r < 1, to spread waits at random. Default `Math.random`. */
  readonly random?: (() => number) | undefined;
  /** Longest pause between two checks, ms. Default 10,000. A server that is up again may stay unused for this time. */
  readonly maxMs?: number | undefined;
  /** Sends the health check. @returns whether the server serves calls. Never rejects. */
  readonly sendCheck: () => Promise<boolean>;
}

/** Longest pause after the first failed check, ms. The pause grows with each failed check. */
const BASE_MS = 1_000;

export class Health {
  readonly #options: HealthOptions;
  readonly #backoff: Backoff;
  /** No check is sent before this time, monotonic ms; `undefined`: the server is not down. */
  #downUntil: number | undefined;
  /** The result of the check that runs; `undefined`: no check runs. */
  #verdict: PromiseWithResolvers<boolean> | undefined;

  constructor(options: HealthOptions) {
    this.#options = options;
    this.#backoff = new Backoff({ baseMs: BASE_MS, maxMs: options.maxMs ?? 10_000, random: options.random });
  }

  get state(): 'up' | 'checking' | 'down' {
    if (this.#downUntil !== undefined) return 'down';
    return this.#verdict === undefined ? 'up' : 'checking';
  }

  /**
   * Called before every call; waits for a check that runs.
   * @returns the call must not be sent, and may be tried again after this time, ms; `undefined`: it may be sent
   * @throws AbortedError
   */
  async admit(signal: AbortSignal): Promise<number | undefined> {
    const { clock } = this.#options;
    const left = (this.#downUntil ?? -Infinity) - clock.monotonic();
    if (left > 0) return left;
    if (this.state !== 'up') await orAborted(this.#sendCheck(), signal, 'checking whether vault answers');
    return this.#downUntil === undefined ? undefined : this.#downUntil - clock.monotonic();
  }

  /** Called after a call without a usable answer: sends a check, if one is needed. Never rejects. */
  async check(): Promise<void> {
    if (this.#downUntil === undefined) await this.#sendCheck();
  }

  /** Called when any call was answered: the server is up. */
  recordAnswer(): void {
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
    // Meanwhile another call got an answer, which ended this check.
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
