/**
 * Whose turn it is: at most `slots` calls at once, first come first served, and nobody while the server asked to be left alone.
 *
 * Invariants: `#active` ≤ `slots`; while held, nobody is let in; whoever waits is let in or told why not, exactly once; whose
 * time is up before the hold ends is told at once, so that its caller can plan instead of wait.
 * Streams wait for the end of a hold but take no slot: each has its own connection.
 */
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
}

export class CallGate {
  readonly #options: CallGateOptions;
  readonly #calls = new Set<Waiter>();
  readonly #streams = new Set<Waiter>();
  #active = 0;
  #heldUntil = 0;
  #heldBy: ApiError | undefined;
  #timer: Timer | undefined;

  constructor(options: CallGateOptions) {
    this.#options = options;
  }

  /** Ms until the server may be asked again; 0 if it may. */
  get heldForMs(): number {
    return this.#heldBy === undefined ? 0 : Math.max(0, this.#heldUntil - this.#options.clock.monotonic());
  }

  /** Takes a slot: at once (`undefined`) or by the promise. Whoever was let in must `leave`. */
  enter(limit: CallLimit): Promise<void> | undefined {
    if (this.#heldBy === undefined && this.#active < this.#options.slots) {
      this.#active += 1;
      return undefined;
    }
    return this.#wait(this.#calls, limit);
  }

  /** Waits for the end of a hold only. */
  enterStream(limit: CallLimit): Promise<void> | undefined {
    return this.#heldBy === undefined ? undefined : this.#wait(this.#streams, limit);
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

  /** Takes the timer away. Whoever waits is told by its own limit. */
  close(): void {
    this.#timer?.cancel();
  }

  #wait(line: Set<Waiter>, limit: CallLimit): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const waiter: Waiter = { limit, enter: resolve, refuse: reject };
      limit.stage = this.#heldBy === undefined ? 'waiting for a free connection' : 'held back by Retry-After';
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
    if (this.#heldBy !== undefined) return;
    for (const waiter of this.#streams) letIn(this.#streams, waiter);
    for (const waiter of this.#calls) {
      if (this.#active >= this.#options.slots) return;
      this.#active += 1;
      letIn(this.#calls, waiter);
    }
  }
}

function letIn(line: Set<Waiter>, waiter: Waiter): void {
  line.delete(waiter);
  waiter.limit.onOver = undefined;
  waiter.enter();
}
