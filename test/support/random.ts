/** Random numbers from a seed, so that two runs of a test do the same. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** The next number, at least 0 and less than 1 (mulberry32: 64-bit constants would need BigInt). */
  next(): number {
    this.#state = (this.#state + 0x6d_2b_79_f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** One of the items. @param items - at least one */
  pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.next() * items.length)] as T;
  }
}
