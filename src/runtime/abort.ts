/**
 * Waiting that can be called off, and errors that say what was called off.
 *
 * Every listener put on a signal here is taken off again when the wait is over: signals of a daemon live for weeks.
 */
import { type Clock, systemClock } from './clock.ts';

/** Something was given up because its signal was aborted. `cause` is the signal's reason. */
export class AbortedError extends Error {
  override readonly name = 'AbortError';
  /** What was being done, as a gerund phrase: `waiting for the cache of secrets`. */
  readonly what: string;

  constructor(what: string, reason: unknown) {
    super(`aborted while ${what}`, { cause: reason });
    this.what = what;
  }
}

/** Something did not end within its time limit. */
export class TimeLimitError extends Error {
  override readonly name = 'TimeoutError';
  readonly what: string;
  readonly limitMs: number;

  constructor(what: string, limitMs: number, options?: ErrorOptions) {
    super(`${what} took longer than ${limitMs} ms`, options);
    this.what = what;
    this.limitMs = limitMs;
  }
}

/** @throws AbortedError naming `what` if the signal is aborted */
export function throwIfAborted(signal: AbortSignal | undefined, what: string): void {
  if (signal?.aborted === true) throw new AbortedError(what, signal.reason);
}

/**
 * The promise, or `AbortedError` as soon as the signal is aborted. The work behind the promise goes on; a later
 * rejection of it is then nobody's.
 */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined, what: string): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => {
      reject(new AbortedError(what, signal.reason));
    };
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => {
      signal.removeEventListener('abort', onAbort);
    });
  });
}

/**
 * Resolves after `ms`.
 * @throws AbortedError when the signal is aborted before
 */
export function sleep(ms: number, signal?: AbortSignal, clock: Clock = systemClock): Promise<void> {
  return new Promise<void>((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(new AbortedError('waiting', signal.reason));
      return;
    }
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

/** A signal that follows others until it is disposed. */
export interface LinkedSignal extends Disposable {
  readonly signal: AbortSignal;
  /** Aborts this signal alone, with `reason`. */
  abort(reason?: unknown): void;
}

/**
 * A signal that is aborted with the first of the given ones, with the same reason. Use it with `using`: unlike
 * `AbortSignal.any` it leaves nothing behind on signals that live longer.
 */
export function anySignal(...signals: readonly (AbortSignal | undefined)[]): LinkedSignal {
  const controller = new AbortController();
  const links: [AbortSignal, () => void][] = [];
  for (const signal of signals) {
    if (signal === undefined) continue;
    const onAbort = (): void => {
      controller.abort(signal.reason);
    };
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    links.push([signal, onAbort]);
  }
  return {
    signal: controller.signal,
    abort: (reason) => {
      controller.abort(reason);
    },
    [Symbol.dispose]: () => {
      for (const [signal, onAbort] of links) signal.removeEventListener('abort', onAbort);
    },
  };
}

export interface TimeLimit {
  /** What is done, for the error: `renewing the lease keyferry/leader`. */
  readonly what: string;
  readonly limitMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly clock?: Clock;
}

/**
 * Runs `work` with a signal that is aborted after the limit (or with `limit.signal`), and does not wait for work that
 * ignores it.
 * @throws TimeLimitError after the limit, AbortedError when `limit.signal` is aborted, else what `work` throws
 */
export async function withTimeout<T>(work: (signal: AbortSignal) => Promise<T>, limit: TimeLimit): Promise<T> {
  throwIfAborted(limit.signal, limit.what);
  using linked = anySignal(limit.signal);
  const late = Promise.withResolvers<never>();
  const timer = (limit.clock ?? systemClock).setTimeout(() => {
    const error = new TimeLimitError(limit.what, limit.limitMs);
    late.reject(error);
    linked.abort(error);
  }, limit.limitMs);
  try {
    return await Promise.race([orAborted(work(linked.signal), limit.signal, limit.what), late.promise]);
  } finally {
    timer.cancel();
  }
}
