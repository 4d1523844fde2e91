/**
 * Keys that must not be used before a time: the earliest start of a key's next run, or of the next try of a path.
 *
 * Expired entries have no effect. They are swept together from time to time, so that a hold costs one map entry and no timer.
 */
export class Holds {
  readonly #until = new Map<string, number>();
  readonly #sweepEveryMs: number;
  #sweptAt = 0;

  constructor(sweepEveryMs: number) {
    this.#sweepEveryMs = sweepEveryMs;
  }

  /** 0 if nothing holds the key. */
  until(key: string): number {
    return this.#until.get(key) ?? 0;
  }

  /** The later of two holds wins. */
  extend(key: string, until: number): void {
    if (until > this.until(key)) this.#until.set(key, until);
  }

  delete(key: string): void {
    this.#until.delete(key);
  }

  clear(): void {
    this.#until.clear();
  }

  sweep(now: number): void {
    if (this.#until.size === 0 || now - this.#sweptAt < this.#sweepEveryMs) return;
    this.#sweptAt = now;
    for (const [key, until] of this.#until) if (until <= now) this.#until.delete(key);
  }
}
