/**
 * Whose turn it is: at most `slots` calls at once, first come first served, and nobody while the server asked to be left alone.
 *
 *   free ──Retry-After──▶ held ──its time is over──▶ free
 *   free ──a call without an answer──▶ doubtful ──a sign of life──▶ free
 *
 * While doubtful, one call or stream at a time is let in to try, ever more rarely: thousands of keys that would each ask
 * a server that is gone by their own back-off make one row of requests, and all go on at the first sign of life: an answer,
 * whatever it says, or a piece of an open stream.
 *
 * Invariants: `#active` ≤ `slots`; while held, nobody is let in; whoever waits is let in or told why not, exactly once; whose
 * time is up before the hold ends is told at once, so that its caller can plan instead of wait.
 * Streams wait for the end of a hold or doubt but take no slot: each has its own connection.
 */
import { Backoff } from '../runtime/backoff.ts';
import { type Clock, type Timer } from '../runtime/clock.ts';
import type { CallLimit } from './call-limit.ts';
import { ApiError } from './errors.ts';

interface Waiter {
  readonly limit: CallLimit;
  readonly enter: () => void;
  readonly refuse: (reason: unknown) => void;
}

export interface CallGateOptions {
  readonly slots: number;
  /** Longest that one answer of the server can hold us, in ms. */
  readonly maxHoldMs: number;
  readonly clock: Clock;
  /** 0 ≤ r < 1. Default `Math.random`. */
  readonly random?: () => number;
}

/** Between two tries while doubtful, ms. The longest is small: it is what a server that is back waits for us. */
const TRIES = { baseMs: 200, maxMs: 2000, stableMs: Infinity };

export class CallGate {
  readonly #options: CallGateOptions;
  readonly #calls = new Set<Waiter>();
  readonly #streams = new Set<Waiter>();
  #active = 0;
  #heldUntil = 0;
  #heldBy: ApiError | undefined;
  #timer: Timer | undefined;
  readonly #tries: Backoff;
  #doubtful = false;
  /** While doubtful: the next to come may try. */
  #mayTry = false;
  #nextTry: Timer | undefined;

  /** @throws RangeError naming a bad option */
  constructor(options: CallGateOptions) {
    this.#options = options;
    const { clock, random = Math.random } = options;
    this.#tries = new Backoff({ ...TRIES, clock, random });
  }

  /** Ms until the server may be asked again; 0 if it may. */
  get heldForMs(): number {
    return this.#heldBy === undefined ? 0 : Math.max(0, this.#heldUntil - this.#options.clock.monotonic());
  }

  /** Takes a slot: at once (`undefined`) or by the promise. Whoever was let in must `leave`. */
  enter(limit: CallLimit): Promise<void> | undefined {
    if (this.#active < this.#options.slots && this.#passes()) {
      this.#active += 1;
      return undefined;
    }
    return this.#wait(this.#calls, limit);
  }

  /** Waits for the end of a hold or doubt only. */
  enterStream(limit: CallLimit): Promise<void> | undefined {
    return this.#passes() ? undefined : this.#wait(this.#streams, limit);
  }

  leave(): void {
    this.#active -= 1;
    this.#admit();
  }

  /** The server asked to be left alone for `error.retryAfterMs`. A shorter wish does not shorten an earlier one. */
  hold(error: ApiError): void {
    const ms = Math.min(error.retryAfterMs ?? 0, this.#options.maxHoldMs);
    const until = this.#options.clock.monotonic() + ms;
    if (ms <= 0 || until <= this.#heldUntil) return;
    this.#heldUntil = until;
    this.#heldBy = error;
    this.#timer?.cancel();
    this.#timer = this.#options.clock.setTimeout(() => {
      this.#heldBy = undefined;
      this.#admit();
    }, ms);
    for (const waiter of [...this.#calls, ...this.#streams]) this.#refuseIfTooLate(waiter);
  }

  /** A call that was let in found nobody: refused, reset, or something in between that answers for a server that is gone. */
  unanswered(): void {
    if (this.#doubtful) return;
    this.#doubtful = true;
    this.#waitForTry();
  }

  /** The server said something, on whatever connection. */
  answered(): void {
    if (!this.#doubtful) return;
    this.#doubtful = false;
    this.#mayTry = false;
    this.#nextTry?.cancel();
    this.#tries.reset();
    this.#admit();
  }

  /** Takes the timers away. Whoever waits is told by its own limit. */
  close(): void {
    this.#timer?.cancel();
    this.#nextTry?.cancel();
  }

  /** Whether one more may be let in now; while doubtful this uses up the try. */
  #passes(): boolean {
    if (this.#heldBy !== undefined) return false;
    if (!this.#doubtful) return true;
    if (!this.#mayTry) return false;
    this.#waitForTry();
    return true;
  }

  #waitForTry(): void {
    this.#mayTry = false;
    this.#nextTry = this.#options.clock.setTimeout(() => {
      this.#mayTry = true;
      this.#admit();
    }, this.#tries.next());
  }

  #stage(): string {
    if (this.#heldBy !== undefined) return 'held back by Retry-After';
    return this.#doubtful ? 'waiting for the server to answer again' : 'waiting for a free connection';
  }

  #wait(line: Set<Waiter>, limit: CallLimit): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const waiter: Waiter = { limit, enter: resolve, refuse: reject };
      limit.stage = this.#stage();
      limit.onOver = (reason) => {
        line.delete(waiter);
        waiter.refuse(reason);
      };
      line.add(waiter);
      this.#refuseIfTooLate(waiter);
    });
  }

  #refuseIfTooLate({ limit }: Waiter): void {
    if (this.#heldBy === undefined || limit.deadline > this.#heldUntil) return;
    const { status, reason } = this.#heldBy;
    const wait = Math.ceil(this.heldForMs);
    limit.cancel(
      new ApiError(limit.call, status, {
        reason,
        // How long is in `retryAfterMs`: a number that changes with each try would make each try news.
        message: 'not sent: the server asked all calls of this client to wait',
        causes: [],
        retryAfterMs: wait,
      }),
    );
  }

  #admit(): void {
    // Calls first: a watch that tries in vain costs more than one of them.
    for (const waiter of this.#calls) {
      if (this.#active >= this.#options.slots || !this.#passes()) break;
      this.#active += 1;
      letIn(this.#calls, waiter);
    }
    for (const waiter of this.#streams) {
      if (!this.#passes()) return;
      letIn(this.#streams, waiter);
    }
  }
}

function letIn(line: Set<Waiter>, waiter: Waiter): void {
  line.delete(waiter);
  waiter.limit.onOver = undefined;
  waiter.enter();
}
