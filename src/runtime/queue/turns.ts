/**
 * Decides which waiting key of a queue runs next. Each key has a group, such as the namespace that it writes to, and
 * belongs to an owner, such as the namespace that causes the work. Owners take turns, and so do the groups of an owner
 * (`Turns`). Groups share the workers (`GroupRuns`).
 */
import { getOrCreate, FifoMap } from '../maps.ts';

/** The group or the owner of a key. It may change. While a key waits, it stays where it was added. */
export type GroupOf<K extends string = string> = (key: K) => string;

/** The waiting keys of a group, each with the time when it began to wait. */
class Group<K extends string> extends FifoMap<number, K> {
  readonly owner: string;
  readonly name: string;
  readonly low: boolean;

  constructor(owner: string, name: string, low: boolean) {
    super();
    this.owner = owner;
    this.name = name;
    this.low = low;
  }
}

/** The groups of each owner. */
type Owners<K extends string> = FifoMap<FifoMap<Group<K>>>;

/** A key that runs now. `since`: when it began to wait, whole ms. */
interface Turn<K extends string> {
  readonly key: K;
  readonly group: string;
  readonly low: boolean;
  readonly since: number;
}

/**
 * The keys that wait for a worker: those of normal priority before those of low priority. In each priority owners take
 * turns, and in the turn of an owner its groups; a group is first in, first out. However many keys and groups one owner
 * has, the next key of another owner waits for only one of these keys. Invariants: a key waits in one group; owners, and
 * the groups of an owner, are in the order of their next turns; each owner has a group, and each group has a key.
 */
export class Turns<K extends string = string> {
  readonly #groupOf: GroupOf<K>;
  readonly #ownerOf: GroupOf<K>;
  readonly #normal: Owners<K> = new FifoMap();
  readonly #low: Owners<K> = new FifoMap();
  /** The group in which each key waits. */
  readonly #groups = new Map<K, Group<K>>();

  /**
   * @param groupOf default: one group for all, first in, first out
   * @param ownerOf default: one owner for all
   */
  constructor(groupOf: GroupOf<K> = () => '', ownerOf: GroupOf<K> = () => '') {
    this.#groupOf = groupOf;
    this.#ownerOf = ownerOf;
  }

  get size(): number {
    return this.#groups.size;
  }

  has(key: K): boolean {
    return this.#groups.has(key);
  }

  /** Adds the key at the end of its group. A key that waits keeps its place, or moves from low to normal priority. */
  add(key: K, low: boolean, now: number): void {
    const before = this.#groups.get(key);
    if (before !== undefined && (low || !before.low)) return;
    // In whole ms, because a small integer needs no memory besides the map entry.
    const since = before?.get(key) ?? Math.trunc(now);
    this.delete(key);
    const [owner, name] = [this.#ownerOf(key), this.#groupOf(key)];
    const groups = getOrCreate(low ? this.#low : this.#normal, owner, () => new FifoMap());
    const group = getOrCreate(groups, name, () => new Group(owner, name, low));
    group.set(key, since);
    this.#groups.set(key, group);
  }

  delete(key: K): void {
    const group = this.#groups.get(key);
    if (group === undefined) return;
    this.#groups.delete(key);
    group.delete(key);
    if (group.size > 0) return;
    const owners = group.low ? this.#low : this.#normal;
    const groups = owners.get(group.owner);
    groups?.delete(group.name);
    if (groups?.size === 0) owners.delete(group.owner);
  }

  /**
   * Removes and returns the oldest key of the group whose turn it is, of the owner whose turn it is.
   * @param mayTake a group for which it returns `false` misses its turn
   */
  shift(mayTake?: (group: string) => boolean): Turn<K> | undefined {
    const takeFrom = (group: Group<K>): Turn<K> | undefined => {
      const [key, since] = (mayTake?.(group.name) === false ? undefined : group.shift()) ?? [];
      if (key === undefined || since === undefined) return undefined;
      this.#groups.delete(key);
      return { key, group: group.name, low: group.low, since };
    };
    const next = (owners: Owners<K>) => takeTurn(owners, (groups) => takeTurn(groups, takeFrom));
    return next(this.#normal) ?? next(this.#low);
  }

  /** About when the oldest key began to wait, ms, for metrics. A key that moved to normal priority may be older. */
  oldestSince(): number | undefined {
    const [first] = this.#groups;
    return first?.[1].get(first[0]);
  }

  clear(): void {
    this.#normal.clear();
    this.#low.clear();
    this.#groups.clear();
  }
}

/** Takes from the first of the sets that gives something. Each set that was asked waits for its next turn. */
function takeTurn<S extends { readonly size: number }, T>(
  sets: FifoMap<S>,
  take: (set: S) => T | undefined,
): T | undefined {
  for (let left = sets.size; left > 0; left -= 1) {
    const turn = sets.shift();
    if (turn === undefined) return undefined;
    const [name, set] = turn;
    const taken = take(set);
    if (set.size > 0) sets.set(name, set);
    if (taken !== undefined) return taken;
  }
  return undefined;
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

  constructor(concurrency: number, share = Math.ceil(concurrency * SHARE)) {
    this.#share = share;
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
