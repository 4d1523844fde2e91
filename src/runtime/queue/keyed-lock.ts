/** Work that must not run twice at the same time for one key. Waiting work runs in the order of its calls. */
import { orAborted } from '../abort.ts';

export class KeyedLock {
  /** The end of all work of each key, until it is there. Never rejects. */
  readonly #last = new Map<string, Promise<void>>();

  /** @throws the error of the work; AbortedError if the signal is aborted while it waits */
  async run<T>(key: string, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const before = this.#last.get(key);
    const { promise, resolve } = Promise.withResolvers<void>();
    // Work that gives up waiting must still not let the next one start early.
    const own = (before ?? Promise.resolve()).then(async () => await promise);
    this.#last.set(key, own);
    // Not when this work ends: if it gives up waiting, the work before it still runs.
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
