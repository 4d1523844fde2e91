/**
 * Whether a server answers at all. It is asked by a call that belongs to nobody (`sys/health`), so that one identity whose calls hang
 * is not taken for a server that is down, and a server that is down costs one call at a time however many identities use it.
 *
 * State machine:
 *
 * - `up`: calls pass. A call without a usable answer → `doubted`.
 * - `doubted`: the server is being asked; calls wait for the verdict. Alive → `up`; not → `down`.
 * - `down`: calls are refused. When the wait is over, the next call asks the server and waits for the verdict; all others are refused
 *   meanwhile. Alive → `up`; not → `down`, with a longer wait.
 *
 * An answer to any call at any time → `up`.
 */
import { orAborted } from '../runtime/abort.ts';
import { KeyedBackoff } from '../runtime/backoff.ts';
import type { Clock } from '../runtime/clock.ts';
import { PROBE_RECHECK_MS, type Refusal } from './circuit.ts';

export interface LivenessOptions {
  readonly clock: Clock;
  /** 0 ≤ r < 1. Default `Math.random`. */
  readonly random?: (() => number) | undefined;
  /** Ceiling of the first wait, ms. Default 1,000. */
  readonly baseMs?: number | undefined;
  /** Ceiling of every wait, ms. Default 10,000: so much later than the server we are back at most. */
  readonly maxMs?: number | undefined;
  /** Asks the server. Never rejects. */
  readonly ask: () => Promise<boolean>;
}

/** A server that was found alive is not asked again within this time, ms. */
const TRUSTED_MS = 1_000;
const KEY = 'server';

export class Liveness {
  readonly #options: LivenessOptions;
  readonly #backoff: KeyedBackoff;
  #down = false;
  /** Monotonic ms; while it is down. */
  #until = 0;
  #aliveAt = -Infinity;
  /** The verdict that is awaited. */
  #verdict: PromiseWithResolvers<boolean> | undefined;

  constructor(options: LivenessOptions) {
    const { baseMs = 1_000, maxMs = 10_000, random = Math.random } = options;
    this.#options = options;
    this.#backoff = new KeyedBackoff({ baseMs, maxMs, random });
  }

  get state(): 'up' | 'doubted' | 'down' {
    if (this.#down) return 'down';
    return this.#verdict === undefined ? 'up' : 'doubted';
  }

  /** Ask before every call. `undefined`: it may be sent. @throws AbortedError */
  async admit(signal: AbortSignal): Promise<Refusal | undefined> {
    const { clock, random = Math.random } = this.#options;
    if (this.#down) {
      const left = this.#until - clock.monotonic();
      if (left > 0) return { refused: 'open', retryAfterMs: left };
      if (this.#verdict !== undefined) return { refused: 'open', retryAfterMs: PROBE_RECHECK_MS * (1 + random()) };
    }
    if (this.#down || this.#verdict !== undefined) await orAborted(this.#ask(), signal, 'asking whether vault answers');
    // oxlint-disable-next-line typescript/no-unnecessary-condition -- it changes while we wait
    return this.#down ? { refused: 'open', retryAfterMs: this.#until - clock.monotonic() } : undefined;
  }

  /** A call had no usable answer. @returns whether the server answers all the same. Never rejects. */
  async doubt(): Promise<boolean> {
    if (this.#down) return false;
    if (this.#options.clock.monotonic() < this.#aliveAt + TRUSTED_MS) return true;
    return await this.#ask();
  }

  /** A call was answered. */
  answered(): void {
    this.#aliveAt = this.#options.clock.monotonic();
    this.#backoff.reset(KEY);
    this.#down = false;
    this.#verdict?.resolve(true);
    this.#verdict = undefined;
  }

  #ask(): Promise<boolean> {
    if (this.#verdict !== undefined) return this.#verdict.promise;
    const verdict = (this.#verdict = Promise.withResolvers<boolean>());
    void this.#settle(verdict);
    return verdict.promise;
  }

  async #settle(verdict: PromiseWithResolvers<boolean>): Promise<void> {
    const alive = await this.#options.ask();
    // Another call was answered meanwhile.
    if (this.#verdict !== verdict) return;
    if (alive) {
      this.answered();
      return;
    }
    this.#verdict = undefined;
    this.#down = true;
    this.#until = this.#options.clock.monotonic() + this.#backoff.next(KEY);
    verdict.resolve(false);
  }
}
