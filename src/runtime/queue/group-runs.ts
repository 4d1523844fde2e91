/** Counts the runs of each group of keys, so that one group does not take all workers. */
import type { GroupOf } from '../turns.ts';
import { positiveInteger } from './keyed-queue-options.ts';

export class GroupRuns {
  readonly #groupOf: GroupOf;
  readonly #most: number;
  readonly #running = new Map<string, number>();

  /** @throws RangeError if `most` is not 1 or more */
  constructor(groupOf: GroupOf, most: number) {
    this.#groupOf = groupOf;
    this.#most = positiveInteger('mostOfGroup', most);
  }

  /** Whether one more key of the group may run. */
  readonly mayStart = (group: string): boolean => (this.#running.get(group) ?? 0) < this.#most;

  started(key: string): void {
    const group = this.#groupOf(key);
    this.#running.set(group, (this.#running.get(group) ?? 0) + 1);
  }

  ended(key: string): void {
    const group = this.#groupOf(key);
    const left = (this.#running.get(group) ?? 0) - 1;
    if (left > 0) this.#running.set(group, left);
    else this.#running.delete(group);
  }
}
