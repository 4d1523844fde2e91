/**
 * A first-in, first-out list in which groups take turns: however many keys one group has, the next key of another group waits
 * for one of them at most.
 *
 * Invariant: each group stands in the order of its next turn, and has a key.
 */
import { getOrCreate } from './maps.ts';
import { FifoMap } from './queue/fifo-map.ts';

export class Turns {
  readonly #groupOf: (key: string) => string;
  readonly #groups = new FifoMap<FifoMap<number>>();
  #size = 0;

  /** @param groupOf one group for all: first in, first out */
  constructor(groupOf: (key: string) => string = () => '') {
    this.#groupOf = groupOf;
  }

  get size(): number {
    return this.#size;
  }

  get(key: string): number | undefined {
    return this.#groups.get(this.#groupOf(key))?.get(key);
  }

  /** Adds at the end of its group. The key must not be there. */
  add(key: string, value: number): void {
    getOrCreate(this.#groups, this.#groupOf(key), () => new FifoMap()).set(key, value);
    this.#size += 1;
  }

  delete(key: string): void {
    const name = this.#groupOf(key);
    const group = this.#groups.get(name);
    if (group?.delete(key) !== true) return;
    this.#size -= 1;
    if (group.size === 0) this.#groups.delete(name);
  }

  /** Removes and returns the oldest key of the group whose turn it is. */
  shift(): string | undefined {
    const turn = this.#groups.shift();
    if (turn === undefined) return undefined;
    const [name, group] = turn;
    const first = group.shift();
    if (first === undefined) return undefined;
    if (group.size > 0) this.#groups.set(name, group);
    this.#size -= 1;
    return first[0];
  }

  /** The least of the groups' oldest values, for metrics. */
  oldest(): number | undefined {
    let oldest: number | undefined;
    for (const group of this.#groups.values()) {
      const value = group.peek();
      if (value !== undefined && (oldest === undefined || value < oldest)) oldest = value;
    }
    return oldest;
  }

  clear(): void {
    this.#groups.clear();
    this.#size = 0;
  }
}
