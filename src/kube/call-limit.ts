/**
 * The limits of a call: its time limit, its caller's signal, the client being closed.
 *
 * One object, one timer and at most one listener serve all stages of a call (waiting for a slot, credentials,
 * connecting, reading). The current stage sets `onOver`, which is called when the call has to end.
 * State: open → over (once, with a reason) or disposed; both remove the timer and the listener.
 */
import { type Clock, type Timer } from '../runtime/clock.ts';
import { type CallContext, ConnectionError } from './errors.ts';

export class CallLimit implements Disposable {
  readonly call: CallContext;
  /** When the time is up, on the monotonic clock, in ms. */
  readonly deadline: number;
  /** Current stage, for the message of the time limit. */
  stage = 'starting';
  /** Called once, with the error that the call fails with. */
  onOver: ((reason: unknown) => void) | undefined;
  readonly #timeoutMs: number;
  readonly #signal: AbortSignal | undefined;
  #timer: Timer | undefined;
  #over: { readonly reason: unknown } | undefined;

  /** @throws the signal's reason if it is aborted already */
  constructor(call: CallContext, timeoutMs: number, signal: AbortSignal | undefined, clock: Clock) {
    signal?.throwIfAborted();
    this.call = call;
    this.#timeoutMs = timeoutMs;
    this.#signal = signal;
    this.deadline = clock.monotonic() + timeoutMs;
    this.#timer = clock.setTimeout(() => this.#timedOut(), timeoutMs);
    signal?.addEventListener('abort', this);
  }

  /** @throws the reason if the call is over */
  check(): void {
    if (this.#over !== undefined) throw this.#over.reason;
  }

  /** Ends the call with this error, unless it ended before. */
  cancel(reason: unknown): void {
    if (this.#over !== undefined) return;
    this.#over = { reason };
    this[Symbol.dispose]();
    const { onOver } = this;
    this.onOver = undefined;
    onOver?.(reason);
  }

  /** Waits for work that is shared with other calls. An end of this call does not end the work. */
  wait<T>(stage: string, promise: Promise<T>): Promise<T> {
    this.stage = stage;
    return new Promise<T>((resolve, reject) => {
      this.onOver = reject;
      promise.then(resolve, reject);
    });
  }

  /** Removes the time limit: a stream that has begun may last. */
  stopClock(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** Called by the signal. */
  handleEvent(): void {
    this.cancel(this.#signal?.reason);
  }

  [Symbol.dispose](): void {
    this.stopClock();
    this.#signal?.removeEventListener('abort', this);
  }

  #timedOut(): void {
    const { method, path } = this.call;
    this.cancel(
      new ConnectionError(
        'ETIMEDOUT',
        `${method} ${path}: no answer within ${this.#timeoutMs} ms (while ${this.stage})`,
      ),
    );
  }
}
