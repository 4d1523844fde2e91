/** A limit of concurrent calls; the others wait, by rank and in order of arrival. */
import { AbortedError, throwIfAborted } from '../../runtime/abort.ts';

export class Slots {
  readonly #limit: number;
  /** With their ranks. */
  readonly #waiting = new Map<() => void, number>();
  #taken = 0;

  /** @throws RangeError */
  constructor(limit: number) {
    if (!(Number.isInteger(limit) && limit > 0)) throw new RangeError(`limit must be a positive integer, got ${limit}`);
    this.#limit = limit;
  }

  get taken(): number {
    return this.#taken;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Waits for a slot.
   * @param rank 0 or more; a lower one goes first
   * @returns the slot; disposing frees it
   * @throws AbortedError when the signal is aborted first
   */
  async take(signal: AbortSignal, rank = 0): Promise<Disposable> {
    throwIfAborted(signal, 'waiting for a free slot');
    if (this.#taken < this.#limit) this.#taken++;
    else await this.#wait(signal, rank);
    let held = true;
    return {
      [Symbol.dispose]: () => {
        if (held) this.#giveBack();
        held = false;
      },
    };
  }

  #wait(signal: AbortSignal, rank: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#waiting.delete(admit);
        reject(new AbortedError('waiting for a free slot', signal.reason));
      };
      const admit = (): void => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      this.#waiting.set(admit, rank);
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  /** The slot goes directly to the next call, so that no other one can overtake it. */
  #giveBack(): void {
    const next = this.#next();
    if (next === undefined) {
      this.#taken--;
      return;
    }
    this.#waiting.delete(next);
    next();
  }

  #next(): (() => void) | undefined {
    let next: (() => void) | undefined;
    let lowest = Infinity;
    for (const [admit, rank] of this.#waiting) {
      if (rank === 0) return admit;
      if (rank < lowest) [next, lowest] = [admit, rank];
    }
    return next;
  }
}
