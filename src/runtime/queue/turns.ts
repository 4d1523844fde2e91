/**
 * Decides which waiting key of a queue runs next. Each key has a group, such as its namespace. Groups take turns
 * (`Turns`) and share the workers (`GroupRuns`). Keys of normal priority run before other keys (`WaitingKeys`).
 */
import { getOrCreate, FifoMap } from '../maps.ts';

/** The group of a key. */
export type GroupOf<K extends string = string> = (key: K) => string;

/**
 * A first-in, first-out list in which groups take turns. Even if one group has thousands of keys, the next key of
 * another group waits for only one of these keys. Invariants: groups are in the order of their next turns, and each
 * group has a key. A key stays in the group to which it was added.
 */
export class Turns<K extends string = string> {
  readonly #groupOf: GroupOf<K>;
  /** The group of each key; `undefined` if `groupOf` always returns the same group for a key. */
  readonly #remembered: Map<K, string> | undefined;
  readonly #groups = new FifoMap<FifoMap<number, K>>();
  #size = 0;

  /**
   * @param groupOf default: one group for all, first in, first out
   * @param groupsChange whether `groupOf` may return another group for a key later; costs memory for each key
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

  /** Adds the key at the end of its group. The list must not have it yet. */
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
   * @param mayTake a group for which it returns `false` misses its turn
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

  /** The smallest value among the oldest keys of all groups, for metrics. */
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

  /** The group in which the key waits, if the key is in the list. */
  #groupWith(key: K): string | undefined {
    return this.#remembered === undefined ? this.#groupOf(key) : this.#remembered.get(key);
  }
}

/** The share of the workers for one group: two groups with long runs leave a third of the workers to all others. */
const SHARE = 1 / 3;

/**
 * Counts the runs of each group of keys, so that long runs of one group leave workers to the others.
 *
 * Each group has a share of the workers. A group may use more workers while they are free. Such extra runs take no
 * worker from a group below its share: runs of that group start all the same. So a queue has at most
 * `2 * concurrency - share` runs.
 */
export class GroupRuns {
  readonly #share: number;
  readonly #running = new Map<string, number>();
  #extra = 0;

  constructor(concurrency: number) {
    this.#share = Math.ceil(concurrency * SHARE);
  }

  /** Number of runs beyond the shares of their groups. */
  get extra(): number {
    return this.#extra;
  }

  readonly isBelowShare = (group: string): boolean => (this.#running.get(group) ?? 0) < this.#share;

  started(group: string): void {
    if (!this.isBelowShare(group)) this.#extra += 1;
    this.#running.set(group, (this.#running.get(group) ?? 0) + 1);
  }

  ended(group: string): void {
    const left = (this.#running.get(group) ?? 0) - 1;
    if (left > 0) this.#running.set(group, left);
    else this.#running.delete(group);
    if (!this.isBelowShare(group)) this.#extra -= 1;
  }
}

/**
 * The keys that wait for a worker. All keys in the list `normal` come before those in `low`. In each list groups take
 * turns. Invariant: a key is in at most one list. The value of a key is the time when it began to wait, in whole ms,
 * because a small integer needs no memory besides the map entry.
 */
export class WaitingKeys<K extends string = string> {
  readonly #normal: Turns<K>;
  readonly #low: Turns<K>;

  /** The parameters are those of `Turns`. */
  constructor(groupOf?: GroupOf<K>, groupsChange?: boolean) {
    this.#normal = new Turns(groupOf, groupsChange);
    this.#low = new Turns(groupOf, groupsChange);
  }

  get size(): number {
    return this.#normal.size + this.#low.size;
  }

  has(key: K): boolean {
    return this.#normal.get(key) !== undefined || this.#low.get(key) !== undefined;
  }

  /** Adds the key. A key that waits already keeps its place, or moves from `low` to `normal`. */
  add(key: K, low: boolean, now: number): void {
    const since = this.#low.get(key);
    if (since !== undefined && !low) {
      this.#low.delete(key);
      this.#normal.add(key, since);
    } else if (!this.has(key)) {
      (low ? this.#low : this.#normal).add(key, Math.trunc(now));
    }
  }

  /**
   * @param mayTake a group for which it returns `false` misses its turn
   * @returns `since`: when the key began to wait, ms
   */
  shift(
    mayTake?: (group: string) => boolean,
  ): { readonly key: K; readonly group: string; readonly low: boolean; readonly since: number } | undefined {
    const normal = this.#normal.shift(mayTake);
    const first = normal ?? this.#low.shift(mayTake);
    return first && { key: first.key, group: first.group, low: normal === undefined, since: first.value };
  }

  delete(key: K): void {
    this.#normal.delete(key);
    this.#low.delete(key);
  }

  clear(): void {
    this.#normal.clear();
    this.#low.clear();
  }

  /** About when the oldest key began to wait, ms, for metrics. A key that moved from `low` to `normal` may be older. */
  oldestSince(): number | undefined {
    const [normal, low] = [this.#normal.oldest(), this.#low.oldest()];
    return normal === undefined || (low !== undefined && low < normal) ? low : normal;
  }
}
