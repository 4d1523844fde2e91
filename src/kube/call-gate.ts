/**
 * Limits the calls of one client: at most `slots` at the same time, first come first served, and none during a
 * Retry-After.
 *
 *   free ──Retry-After──▶ delayed ──its time is over──▶ free
 *   free ──a call without an answer──▶ unresponsive ──any answer, or a chunk of an open stream──▶ free
 *
 * Both states can be true at the same time. While the server is unresponsive, one call or stream at a time is admitted
 * as a try, at growing intervals. So an outage costs one series of requests, and not one for each key in the queues.
 * The first answer admits all waiting calls.
 *
 * Invariants: `#active` ≤ `slots`; while delayed, no call is admitted; each waiting call is admitted once, or ends by its
 * time limit. Streams wait for the end of a delay or outage but take no slot: each has its own connection.
 */
import { Backoff } from '../runtime/queue/backoff.ts';
import { type Clock, type Timer } from '../runtime/clock.ts';
import type { CallLimit } from './call-limit.ts';
import type { ApiError } from './errors.ts';

interface Waiter {
  readonly limit: CallLimit;
  readonly enter: () => void;
}

interface Delay {
  /** Monotonic ms. */
  readonly until: number;
  readonly timer: Timer;
}

interface Outage {
  /** Sets `mayTry` when the pause before the next try is over. */
  readonly timer: Timer;
  /** Whether the next call is admitted, to try whether the server answers again. */
  mayTry: boolean;
}

interface CallGateOptions {
  readonly slots: number;
  /** Longest time that one Retry-After delays the calls, ms. */
  readonly maxWaitMs: number;
  readonly clock: Clock;
}

/** Pauses between two tries, ms. A server that works again gets no call until the current pause is over. */
const TRIES = { baseMs: 200, maxMs: 2000 };

export class CallGate {
  readonly #options: CallGateOptions;
  readonly #calls = new Set<Waiter>();
  readonly #streams = new Set<Waiter>();
  readonly #tries: Backoff;
  #active = 0;
  #delay: Delay | undefined;
  #outage: Outage | undefined;

  constructor(options: CallGateOptions) {
    this.#options = options;
    this.#tries = new Backoff({ ...TRIES, clock: options.clock });
  }

  /** Takes a slot: at once (returns `undefined`) or when the promise resolves. `leave` must be called afterwards. */
  enter(limit: CallLimit): Promise<void> | undefined {
    if (this.#active < this.#options.slots && this.#passes()) {
      this.#active += 1;
      return undefined;
    }
    return this.#wait(this.#calls, limit);
  }

  /** As `enter`, for a stream: it waits only for the end of a delay or outage. It takes no slot and needs no `leave`. */
  enterStream(limit: CallLimit): Promise<void> | undefined {
    return this.#passes() ? undefined : this.#wait(this.#streams, limit);
  }

  leave(): void {
    this.#active -= 1;
    this.#admit();
  }

  /** Delays all calls for `error.retryAfterMs`, at most `maxWaitMs`. A delay that ends later stays as it is. */
  delay(error: ApiError): void {
    const ms = Math.min(error.retryAfterMs ?? 0, this.#options.maxWaitMs);
    const until = this.#options.clock.monotonic() + ms;
    if (ms <= 0 || until <= (this.#delay?.until ?? 0)) return;
    this.#delay?.timer.cancel();
    const timer = this.#options.clock.setTimeout(() => {
      this.#delay = undefined;
      this.#admit();
    }, ms);
    this.#delay = { until, timer };
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

  /** Ends a delay and an outage. Called when all later calls go to another server. */
  release(): void {
    this.#delay?.timer.cancel();
    this.#delay = undefined;
    this.recordAnswer();
    this.#admit();
  }

  /** Cancels the timers. Each waiting call ends by its own time limit. */
  close(): void {
    this.#delay?.timer.cancel();
    this.#outage?.timer.cancel();
  }

  /** Whether one more call can be admitted now. During an outage, `true` uses up the try. */
  #passes(): boolean {
    if (this.#delay !== undefined) return false;
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
    if (this.#delay !== undefined) return 'waiting for the end of a Retry-After';
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
    });
  }

  #admit(): void {
    // Calls go before streams: if the try fails, a watch waits longer than a call until it tries again.
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
