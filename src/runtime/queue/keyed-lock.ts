/** Runs work with the same key one after another, in the order of the calls. Work with other keys does not wait. */
import { orAborted } from '../abort.ts';

export class KeyedLock {
  /** For each key with work, a promise that resolves when all work of the key has ended. It never rejects. */
  readonly #last = new Map<string, Promise<void>>();

  /** @throws the error of the work; AbortedError if the signal is aborted while the work waits */
  async run<T>(key: string, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const before = this.#last.get(key);
    const { promise, resolve } = Promise.withResolvers<void>();
    // If this work is aborted while it waits, the next work must still wait for the work before this one.
    const own = (before ?? Promise.resolve()).then(async () => await promise);
    this.#last.set(key, own);
    // Removed only after `own`: if this call is aborted while it waits, earlier work of the key still runs.
    void own.finally(() => {
      if (this.#last.get(key) === own) this.#last.delete(key);
    });
    try {
      if (before !== undefined) await orAborted(before, signal, `waiting for ${key}`);
      return await work();
    } finally {
      resolve();
    }
  }
}
