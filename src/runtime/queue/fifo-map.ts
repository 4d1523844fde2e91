/**
 * A map whose oldest entry can be taken in constant time.
 *
 * Invariant: every live entry lies ahead of `#front`, because an entry that `#front` has passed was deleted at once.
 * A fresh iterator for each `shift` would be simpler, but it walks over all deleted slots at the head of the hash table
 * again and again: quadratic when a long queue drains.
 */
export class FifoMap<V> extends Map<string, V> {
  #front: MapIterator<[string, V]> | undefined;

  /** Removes and returns the oldest entry. */
  shift(): [string, V] | undefined {
    if (this.size === 0) {
      // An iterator keeps the table it was made on alive, however large that once was.
      this.#front = undefined;
      return undefined;
    }
    let next = (this.#front ??= this.entries()).next();
    if (next.done === true) {
      // An iterator that has reached the end stays there, even if entries were added since.
      this.#front = this.entries();
      next = this.#front.next();
    }
    if (next.done === true) return undefined;
    this.delete(next.value[0]);
    return next.value;
  }

  /** The oldest entry's value, left in place. May cost a walk over deleted slots: for metrics, not for loops. */
  peek(): V | undefined {
    return this.values().next().value;
  }

  override clear(): void {
    super.clear();
    this.#front = undefined;
  }
}
