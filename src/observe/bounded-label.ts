/**
 * A label of a metric whose values come from users (the servers that they name). A series is never removed, so that the first values have
 * series of their own, and all others share one: whoever edits a rule over and over does not make the memory grow.
 */
const OTHER = 'other';

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
