/**
 * A first-in, first-out list in which groups take turns: however many keys one group has, the next key of another group waits
 * for one of them at most.
 *
 * Invariants: each group stands in the order of its next turn, and has a key. A key stays in the group that it was added to.
 */
import { getOrCreate } from '../maps.ts';
import { FifoMap } from './fifo-map.ts';

/** The group of a key. */
export type GroupOf<K extends string = string> = (key: K) => string;

export class Turns<K extends string = string> {
  readonly #groupOf: GroupOf<K>;
  /** The group of each key, where `groupOf` may give another one later. */
  readonly #remembered: Map<K, string> | undefined;
  readonly #groups = new FifoMap<FifoMap<number, K>>();
  #size = 0;

  /**
   * @param groupOf default: one group for all, first in, first out
   * @param groupsChange `groupOf` may give another group later. This costs memory for each key
   */
  constructor(groupOf: GroupOf<K> = () => '', groupsChange = false) {
    this.#groupOf = groupOf;
    this.#remembered = groupsChange ? new Map() : undefined;
  }

  get size(): number {
    return this.#size;
  }

  get(key: K): number | undefined {
    const group = this.#groupWith(key);
    return group === undefined ? undefined : this.#groups.get(group)?.get(key);
  }

  /** Adds at the end of its group. The key must not be there. */
  add(key: K, value: number): void {
    const group = this.#groupOf(key);
    this.#remembered?.set(key, group);
    getOrCreate(this.#groups, group, () => new FifoMap()).set(key, value);
    this.#size += 1;
  }

  delete(key: K): void {
    const name = this.#groupWith(key);
    if (name === undefined) return;
    const group = this.#groups.get(name);
    if (group?.delete(key) !== true) return;
    this.#remembered?.delete(key);
    this.#size -= 1;
    if (group.size === 0) this.#groups.delete(name);
  }

  /**
   * Removes and returns the oldest key of the group whose turn it is, with its value and group.
   * @param mayTake a group for which it is false misses its turn
   */
  shift(
    mayTake?: (group: string) => boolean,
  ): { readonly key: K; readonly value: number; readonly group: string } | undefined {
    for (let left = this.#groups.size; left > 0; left -= 1) {
      const turn = this.#groups.shift();
      if (turn === undefined) return undefined;
      const [group, keys] = turn;
      const first = mayTake?.(group) === false ? undefined : keys.shift();
      if (keys.size > 0) this.#groups.set(group, keys);
      if (first === undefined) continue;
      const [key, value] = first;
      this.#remembered?.delete(key);
      this.#size -= 1;
      return { key, value, group };
    }
    return undefined;
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
    this.#remembered?.clear();
    this.#size = 0;
  }

  /** The group that holds the key, if any does. */
  #groupWith(key: K): string | undefined {
    return this.#remembered === undefined ? this.#groupOf(key) : this.#remembered.get(key);
  }
}
