/**
 * Counts the runs of each group of keys, so that long runs of one group leave workers to the others.
 *
 * Each group has a share of the workers. It may use more while workers are free; those runs take no worker from a group below its share,
 * which then runs beside them. So a queue has at most `2 * concurrency - share` runs.
 */

/** A third: two groups with long runs leave workers to all others. */
const SHARE = 1 / 3;

export class GroupRuns {
  readonly #share: number;
  readonly #running = new Map<string, number>();
  #extra = 0;

  constructor(concurrency: number) {
    this.#share = Math.ceil(concurrency * SHARE);
  }

  /** Runs beyond the shares of their groups. */
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
