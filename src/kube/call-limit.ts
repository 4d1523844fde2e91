/**
 * The limits of a call: its time limit, its caller's signal, the client being closed. Each of them aborts its `signal`.
 *
 * One object, one timer and at most one listener on the caller's signal serve all stages of a call (waiting for a slot, credentials,
 * connecting, reading). The current stage sets `onOver`, which ends it. Dispose a limit: the caller's signal may live for weeks.
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

  /** Called once, with the error that the call fails with. `undefined`: nothing has to be ended. */
  set onOver(end: ((reason: unknown) => void) | undefined) {
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- a stage replaces that of the one before
    this.signal.onabort = end === undefined ? null : () => end(this.signal.reason);
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
    this.#timer.cancel();
  }

  [Symbol.dispose](): void {
    this.stopClock();
    this.#caller?.removeEventListener('abort', this.#follow);
  }
}
