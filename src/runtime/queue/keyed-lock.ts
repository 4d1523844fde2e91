/** Runs work for one key one after another, in the order of the calls; work for other keys runs beside it. */
import { orAborted } from '../abort.ts';

export class KeyedLock {
  /** For each key with work: a promise that resolves when all of it has ended. Never rejects. */
  readonly #last = new Map<string, Promise<void>>();

  /** @throws the error of the work; AbortedError if the signal is aborted while it waits */
  async run<T>(key: string, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const before = this.#last.get(key);
    const { promise, resolve } = Promise.withResolvers<void>();
    // If this work is aborted while it waits, the next one must still wait for the work before it.
    const own = (before ?? Promise.resolve()).then(async () => await promise);
    this.#last.set(key, own);
    // Not when this call ends: if it is aborted while it waits, the work before it still runs.
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
