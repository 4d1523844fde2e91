/**
 * Limits the calls of one client: at most `slots` at once, first come first served, and none during a Retry-After.
 *
 *   free ──Retry-After──▶ held ──its time is over──▶ free
 *   free ──a call without an answer──▶ unresponsive ──any answer, or a chunk of an open stream──▶ free
 *
 * A client may be held and unresponsive at the same time. While it is unresponsive, one call or stream at a time is
 * admitted, at growing intervals. So an outage costs one series of requests, and not one for each key. The first answer
 * releases all calls.
 *
 * Invariants: `#active` ≤ `slots`; while held, no call is admitted; each waiting call is admitted or refused exactly
 * once; a call whose time limit ends before the hold is refused at once, so that its caller can reschedule it. Streams
 * wait for the end of a hold or outage but take no slot: each has its own connection.
 */
import { Backoff } from '../runtime/queue/backoff.ts';
import { type Clock, type Timer } from '../runtime/clock.ts';
import type { CallLimit } from './call-limit.ts';
import { ApiError } from './errors.ts';

interface Waiter {
  readonly limit: CallLimit;
  readonly enter: () => void;
}

interface Hold {
  /** Monotonic ms. */
  readonly until: number;
  /** The answer that had the Retry-After. */
  readonly error: ApiError;
  readonly timer: Timer;
}

interface Outage {
  /** Sets `mayTry` when the pause is over. */
  readonly timer: Timer;
  /** Whether the next call is admitted, as a try. */
  mayTry: boolean;
}

export interface CallGateOptions {
  readonly slots: number;
  /** Longest hold by one Retry-After, ms. */
  readonly maxHoldMs: number;
  readonly clock: Clock;
  /** 0 ≤ r < 1. Default `Math.random`. */
  readonly random?: () => number;
}

/** Pauses between tries while unresponsive, ms. A server that answers again gets no call until the pause is over. */
const TRIES = { baseMs: 200, maxMs: 2000 };

export class CallGate {
  readonly #options: CallGateOptions;
  readonly #calls = new Set<Waiter>();
  readonly #streams = new Set<Waiter>();
  readonly #tries: Backoff;
  #active = 0;
  #held: Hold | undefined;
  #outage: Outage | undefined;

  constructor(options: CallGateOptions) {
    this.#options = options;
    const { clock, random = Math.random } = options;
    this.#tries = new Backoff({ ...TRIES, clock, random });
  }

  /** Rest of the hold, ms; 0 without a hold. */
  get heldForMs(): number {
    return this.#held === undefined ? 0 : Math.max(0, this.#held.until - this.#options.clock.monotonic());
  }

  /** Takes a slot: at once (`undefined`) or when the promise resolves. The caller must `leave` afterwards. */
  enter(limit: CallLimit): Promise<void> | undefined {
    if (this.#active < this.#options.slots && this.#passes()) {
      this.#active += 1;
      return undefined;
    }
    return this.#wait(this.#calls, limit);
  }

  /** As `enter`, for a stream, which waits only for the end of a hold or outage, and takes no slot. */
  enterStream(limit: CallLimit): Promise<void> | undefined {
    return this.#passes() ? undefined : this.#wait(this.#streams, limit);
  }

  leave(): void {
    this.#active -= 1;
    this.#admit();
  }

  /** Holds all calls for `error.retryAfterMs`. A shorter hold does not shorten an earlier one. */
  hold(error: ApiError): void {
    const ms = Math.min(error.retryAfterMs ?? 0, this.#options.maxHoldMs);
    const until = this.#options.clock.monotonic() + ms;
    if (ms <= 0 || until <= (this.#held?.until ?? 0)) return;
    this.#held?.timer.cancel();
    const timer = this.#options.clock.setTimeout(() => {
      this.#held = undefined;
      this.#admit();
    }, ms);
    this.#held = { until, error, timer };
    for (const waiter of [...this.#calls, ...this.#streams]) this.#refuseIfTooLate(waiter);
  }

  /** Called if a call had no answer: the connection was refused or reset, or a proxy answered that it has no server. */
  recordNoAnswer(): void {
    if (this.#outage === undefined) this.#waitForTry();
  }

  /** Called when the server has sent anything, on any connection. */
  recordAnswer(): void {
    if (this.#outage === undefined) return;
    this.#outage.timer.cancel();
    this.#outage = undefined;
    this.#tries.reset();
    this.#admit();
  }

  /** Called when the calls go to another server from now on: ends a hold and an outage. */
  release(): void {
    this.#held?.timer.cancel();
    this.#held = undefined;
    this.recordAnswer();
    this.#admit();
  }

  /** Cancels the timers. Waiting calls are ended by their own limits. */
  close(): void {
    this.#held?.timer.cancel();
    this.#outage?.timer.cancel();
  }

  /** Whether one more call may be admitted now. While unresponsive, `true` counts as the try. */
  #passes(): boolean {
    if (this.#held !== undefined) return false;
    if (this.#outage === undefined) return true;
    if (!this.#outage.mayTry) return false;
    this.#waitForTry();
    return true;
  }

  #waitForTry(): void {
    const timer = this.#options.clock.setTimeout(() => {
      outage.mayTry = true;
      this.#admit();
    }, this.#tries.next());
    const outage: Outage = { timer, mayTry: false };
    this.#outage = outage;
  }

  #stage(): string {
    if (this.#held !== undefined) return 'waiting for the end of a Retry-After';
    return this.#outage !== undefined ? 'waiting for the server to answer again' : 'waiting for a free connection';
  }

  #wait(line: Set<Waiter>, limit: CallLimit): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const waiter: Waiter = { limit, enter: resolve };
      limit.stage = this.#stage();
      limit.onOver = (reason) => {
        line.delete(waiter);
        reject(reason);
      };
      line.add(waiter);
      this.#refuseIfTooLate(waiter);
    });
  }

  #refuseIfTooLate({ limit }: Waiter): void {
    if (this.#held === undefined || limit.deadline > this.#held.until) return;
    const { status, reason } = this.#held.error;
    const wait = Math.ceil(this.heldForMs);
    limit.abort(
      new ApiError(limit.call, status, {
        reason,
        // The text does not tell the wait: a status whose text changes with each try would be written each time.
        message: 'not sent: the server requested a wait for all calls of this client (Retry-After)',
        causes: [],
        retryAfterMs: wait,
      }),
    );
  }

  #admit(): void {
    // Calls go before streams, because after a failed try a watch waits longer than a call.
    for (const waiter of this.#calls) {
      if (this.#active >= this.#options.slots || !this.#passes()) break;
      this.#active += 1;
      admit(this.#calls, waiter);
    }
    for (const waiter of this.#streams) {
      if (!this.#passes()) return;
      admit(this.#streams, waiter);
    }
  }
}

function admit(line: Set<Waiter>, waiter: Waiter): void {
  line.delete(waiter);
  waiter.limit.onOver = undefined;
  waiter.enter();
}
