/**
 * What can end a call early: its time limit, its caller's signal, the client being closed.
 *
 * One object, one timer and at most one listener serve all stages of a call (waiting for a turn, credentials,
 * connecting, reading). The stage that runs now sets `onOver`; when the limit strikes, that stage alone is told.
 * State: open → over (once, with a reason) or ended (once, quietly); both take the timer and the listener away.
 */
import { type Clock, type Timer } from '../runtime/clock.ts';
import { type CallContext, ConnectionError } from './errors.ts';

export class CallLimit implements Disposable {
  readonly call: CallContext;
  /** When the time is up, on the monotonic clock, in ms. */
  readonly deadline: number;
  /** What the call is doing, for the message of the time limit. */
  stage = 'starting';
  /** Told once, with the error that the call is to fail with. */
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
    this.#timer = clock.setTimeout(() => {
      this.#timedOut();
    }, timeoutMs);
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
    const told = this.onOver;
    this.onOver = undefined;
    told?.(reason);
  }

  /** Waits for something that is shared with other calls and goes on without us. */
  wait<T>(stage: string, promise: Promise<T>): Promise<T> {
    this.stage = stage;
    return new Promise<T>((resolve, reject) => {
      this.onOver = reject;
      promise.then(resolve, reject);
    });
  }

  /** From here on only the signal ends the call: a stream has its head and may last. */
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
