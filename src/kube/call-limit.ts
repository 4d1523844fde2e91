/**
 * The time limit of one call. It aborts its `signal` when the time is up, the caller's signal aborts or the client is
 * closed. One object, one timer and at most one listener on the caller's signal serve all stages of a call (waiting for
 * a slot, credentials, connecting, reading). Each stage sets `onOver` to a function that ends the stage. A limit must
 * be disposed: the caller's signal may live for weeks, and keeps its listeners.
 */
import type { Clock, Timer } from '../runtime/clock.ts';
import { type CallContext, ConnectionError } from './errors.ts';

export class CallLimit extends AbortController implements Disposable {
  readonly call: CallContext;
  /** The current stage. The error message names it when the time is up. */
  stage = 'starting';
  /** Ends the stage. Called once, with the error of the call. `undefined`: nothing to end. */
  onOver: ((reason: unknown) => void) | undefined;
  readonly #caller: AbortSignal | undefined;
  readonly #follow = (): void => this.abort(this.#caller?.reason);
  readonly #timer: Timer;

  /** @throws the reason of the caller's signal, if that signal is aborted already */
  constructor(call: CallContext, timeoutMs: number, caller: AbortSignal | undefined, clock: Clock) {
    caller?.throwIfAborted();
    super();
    this.call = call;
    this.#caller = caller;
    this.#timer = clock.setTimeout(() => {
      const text = `${call.method} ${call.path}: no answer within ${timeoutMs} ms (while ${this.stage})`;
      this.abort(new ConnectionError('ETIMEDOUT', text));
    }, timeoutMs);
    this.signal.addEventListener('abort', () => this.onOver?.(this.signal.reason), { once: true });
    caller?.addEventListener('abort', this.#follow);
  }

  /** Waits for work that other calls can wait for, too, such as new credentials. It goes on if this call ends. */
  wait<T>(stage: string, promise: Promise<T>): Promise<T> {
    this.stage = stage;
    return new Promise<T>((resolve, reject) => {
      this.onOver = reject;
      promise.then(resolve, reject);
    });
  }

  /** Cancels the timer. Called when a stream has begun, because a stream has no time limit. */
  stopClock(): void {
    this.#timer.cancel();
  }

  [Symbol.dispose](): void {
    this.stopClock();
    this.#caller?.removeEventListener('abort', this.#follow);
  }
}
