/**
 * A map whose oldest entry can be taken in constant time.
 *
 * Invariant: every live entry lies ahead of `#front`, because an entry that `#front` has passed was deleted at once.
 * A fresh iterator for each `shift` would be simpler, but it walks over all deleted slots at the head of the hash table
 * again and again: quadratic when a long queue drains.
 */
export class FifoMap<V> {
  readonly #map = new Map<string, V>();
  #front: MapIterator<[string, V]> | undefined;

  get size(): number {
    return this.#map.size;
  }

  get(key: string): V | undefined {
    return this.#map.get(key);
  }

  /** Adds at the end; a key that is there keeps its place and gets the new value. */
  set(key: string, value: V): void {
    this.#map.set(key, value);
  }

  delete(key: string): boolean {
    return this.#map.delete(key);
  }

  /** Removes and returns the oldest entry. */
  shift(): [string, V] | undefined {
    if (this.#map.size === 0) {
      // An iterator keeps the table it was made on alive, however large that once was.
      this.#front = undefined;
      return undefined;
    }
    let next = (this.#front ??= this.#map.entries()).next();
    if (next.done === true) {
      // An iterator that has reached the end stays there, even if entries were added since.
      this.#front = this.#map.entries();
      next = this.#front.next();
    }
    if (next.done === true) return undefined;
    this.#map.delete(next.value[0]);
    return next.value;
  }

  /** The oldest entry's value, left in place. May cost a walk over deleted slots: for metrics, not for loops. */
  peek(): V | undefined {
    return this.#map.values().next().value;
  }

  entries(): MapIterator<[string, V]> {
    return this.#map.entries();
  }

  clear(): void {
    this.#map.clear();
    this.#front = undefined;
  }
}
