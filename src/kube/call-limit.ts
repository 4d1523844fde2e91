/**
 * Aborts its `signal` at the time limit of a call, at an abort of the caller's signal, or when the client is closed.
 * One object, one timer and at most one listener on the caller's signal serve all stages of a call (waiting for a slot,
 * credentials, connecting, reading). Each stage sets `onOver`, which ends this stage. A limit must be disposed, because
 * the caller's signal may live for weeks and keeps its listeners.
 */
import type { Clock, Timer } from '../runtime/clock.ts';
import { type CallContext, ConnectionError } from './errors.ts';

export class CallLimit extends AbortController implements Disposable {
  readonly call: CallContext;
  /** When the time is up, on the monotonic clock, in ms. */
  readonly deadline: number;
  /** Current stage, for the message of the time limit. */
  stage = 'starting';
  readonly #caller: AbortSignal | undefined;
  readonly #follow = (): void => this.abort(this.#caller?.reason);
  readonly #timer: Timer;

  /** @throws the caller's reason if its signal is aborted already */
  constructor(call: CallContext, timeoutMs: number, caller: AbortSignal | undefined, clock: Clock) {
    caller?.throwIfAborted();
    super();
    this.call = call;
    this.#caller = caller;
    this.deadline = clock.monotonic() + timeoutMs;
    this.#timer = clock.setTimeout(() => {
      const text = `${call.method} ${call.path}: no answer within ${timeoutMs} ms (while ${this.stage})`;
      this.abort(new ConnectionError('ETIMEDOUT', text));
    }, timeoutMs);
    caller?.addEventListener('abort', this.#follow);
  }

  /** Called once if the call has to end, with the error of the call. `undefined`: the stage has nothing to end. */
  set onOver(end: ((reason: unknown) => void) | undefined) {
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- a stage replaces the handler of the stage before
    this.signal.onabort = end === undefined ? null : () => end(this.signal.reason);
  }

  /** Waits for work that other calls share. If this call ends, the work goes on. */
  wait<T>(stage: string, promise: Promise<T>): Promise<T> {
    this.stage = stage;
    return new Promise<T>((resolve, reject) => {
      this.onOver = reject;
      promise.then(resolve, reject);
    });
  }

  /** Removes the time limit, because a stream that has begun may last. */
  stopClock(): void {
    this.#timer.cancel();
  }

  [Symbol.dispose](): void {
    this.stopClock();
    this.#caller?.removeEventListener('abort', this.#follow);
  }
}
