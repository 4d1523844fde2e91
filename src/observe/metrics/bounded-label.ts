/**
 * A metric label whose values come from users (servers that they name). Series are never removed, so the number of values is
 * limited: the first ones have series of their own, all others share one. Repeated edits of a rule do not grow the memory.
 */
const OTHER = 'other';

/** Servers of Vault, and login mounts there, with series of their own. */
export const MAX_VAULTS = 100;

export class BoundedLabel {
  readonly #most: number;
  readonly #values = new Set<string>();

  /** @param most values with series of their own */
  constructor(most: number) {
    this.#most = most;
  }

  /** The value itself while there is room for it, else `other`. */
  of(value: string): string {
    if (!this.#values.has(value)) {
      if (this.#values.size >= this.#most) return OTHER;
      this.#values.add(value);
    }
    return value;
  }
}
