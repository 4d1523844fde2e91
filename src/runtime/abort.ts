/**
 * Waits that a signal or a time limit can end, with errors that name the work. Each wait removes its listeners when it
 * is over, because the signals of an operator live for weeks.
 */
import { type Clock, systemClock } from './clock.ts';

/** The work was aborted by its signal. `cause` is the signal's reason. */
export class AbortedError extends Error {
  override readonly name = 'AbortError';
  /** @param what names the work, as a gerund phrase: `waiting for the cache of secrets` */
  constructor(what: string, reason: unknown) {
    super(`aborted while ${what}`, { cause: reason });
  }
}

/** The work did not end within its time limit. */
export class TimeLimitError extends Error {
  override readonly name = 'TimeoutError';
  readonly limitMs: number;

  constructor(what: string, limitMs: number) {
    super(`${what} took longer than ${limitMs} ms`);
    this.limitMs = limitMs;
  }
}

/** @throws AbortedError if the signal is aborted. @param what names the work in the message, as in `AbortedError` */
export function throwIfAborted(signal: AbortSignal | undefined, what: string): void {
  if (signal?.aborted === true) throw new AbortedError(what, signal.reason);
}

/** Settles as the promise does, or throws `AbortedError` when the signal is aborted, and then ignores the promise. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined, what: string): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => reject(new AbortedError(what, signal.reason));
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/**
 * Resolves after `ms`.
 * @throws AbortedError if the signal is aborted before that
 */
export function sleep(ms: number, signal?: AbortSignal, clock: Clock = systemClock): Promise<void> {
  return new Promise<void>((resolve, reject) => {
    throwIfAborted(signal, 'waiting');
    const onAbort = (): void => {
      timer.cancel();
      reject(new AbortedError('waiting', signal?.reason));
    };
    const timer = clock.setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/** A signal that is aborted together with other signals, until it is disposed. */
interface LinkedSignal extends Disposable {
  readonly signal: AbortSignal;
  /** Aborts only this signal, not the signals that it follows. */
  abort(reason?: unknown): void;
}

/**
 * Returns a signal that is aborted when the first of the given signals is aborted, with the same reason. Use it with
 * `using`, which removes its listeners from the given signals; `AbortSignal.any` would leave its listeners there.
 */
export function anySignal(...signals: readonly (AbortSignal | undefined)[]): LinkedSignal {
  const controller = new AbortController();
  const links: [AbortSignal, () => void][] = [];
  for (const signal of signals) {
    if (signal === undefined) continue;
    const onAbort = (): void => controller.abort(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    links.push([signal, onAbort]);
  }
  return {
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    [Symbol.dispose]: () => {
      for (const [signal, onAbort] of links) signal.removeEventListener('abort', onAbort);
    },
  };
}

interface TimeLimit {
  /** Names the work in the error: `renewing the lease keyferry/leader`. */
  readonly what: string;
  readonly limitMs: number;
  readonly clock?: Clock;
}

/**
 * Runs `work` with a signal that is aborted after the limit. Does not wait for work that ignores the signal.
 * @throws TimeLimitError after the limit; otherwise the error of `work`
 */
export async function withTimeout<T>(work: (signal: AbortSignal) => Promise<T>, limit: TimeLimit): Promise<T> {
  const controller = new AbortController();
  const late = Promise.withResolvers<never>();
  const timer = (limit.clock ?? systemClock).setTimeout(() => {
    const error = new TimeLimitError(limit.what, limit.limitMs);
    late.reject(error);
    controller.abort(error);
  }, limit.limitMs);
  try {
    return await Promise.race([work(controller.signal), late.promise]);
  } finally {
    timer.cancel();
  }
}
