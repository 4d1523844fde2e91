/** Random numbers from a seed. With the same seed, a test gets the same numbers in each run. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** The next number, from 0 to below 1. The algorithm is mulberry32, because 64-bit algorithms would need BigInt. */
  next(): number {
    this.#state = (this.#state + 0x6d_2b_79_f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** Picks one of the items. @param items - not empty */
  pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.next() * items.length)] as T;
  }
}
