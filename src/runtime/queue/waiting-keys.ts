/**
 * Keys that wait for a worker: all of `normal` before any of `low`. Each list is first in, first out, with groups that take turns.
 *
 * Invariant: a key is in at most one list. The value of a key is when it began to wait, in whole ms (a small integer costs no
 * memory beside the map entry).
 */
import { type GroupOf, Turns } from './turns.ts';

export class WaitingKeys<K extends string = string> {
  readonly #normal: Turns<K>;
  readonly #low: Turns<K>;

  /** @see Turns */
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

  /** A key that waits already keeps its place, unless it moves from `low` to `normal`. */
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
   * @param mayTake a group for which it is false misses its turn
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

  /** When the oldest key began to wait. For metrics: a key that moved from `low` keeps its time and may be older. */
  oldestSince(): number | undefined {
    const [normal, low] = [this.#normal.oldest(), this.#low.oldest()];
    return normal === undefined || (low !== undefined && low < normal) ? low : normal;
  }
}
