/** A limit of concurrent calls; the others wait in order of arrival. */
import { AbortedError, throwIfAborted } from '../../runtime/abort.ts';

export class Slots {
  readonly #limit: number;
  readonly #waiting = new Set<() => void>();
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
   * @returns the slot; disposing frees it
   * @throws AbortedError when the signal is aborted first
   */
  async take(signal: AbortSignal): Promise<Disposable> {
    throwIfAborted(signal, 'waiting for a free slot');
    if (this.#taken < this.#limit) this.#taken++;
    else await this.#wait(signal);
    let held = true;
    return {
      [Symbol.dispose]: () => {
        if (held) this.#giveBack();
        held = false;
      },
    };
  }

  #wait(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#waiting.delete(admit);
        reject(new AbortedError('waiting for a free slot', signal.reason));
      };
      const admit = (): void => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      this.#waiting.add(admit);
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  /** The slot goes directly to the call that waits longest, so that no other call can overtake it. */
  #giveBack(): void {
    const [first] = this.#waiting;
    if (first === undefined) {
      this.#taken--;
      return;
    }
    this.#waiting.delete(first);
    first();
  }
}
