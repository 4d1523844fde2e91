/** Maps to sets, a map with a first-in-first-out order, and a cache bounded by bytes. */

interface MapLike<K, V> {
  get(key: K): V | undefined;
  set(key: K, value: V): unknown;
}

/** Returns the value of the key. If the key has no value, adds the value that `make` returns. */
export function getOrCreate<K, V>(map: MapLike<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) map.set(key, (value = make()));
  return value;
}

/**
 * A map from keys to sets of values. A key without values is removed. Most keys have one value, which is kept without a
 * Set, because a Set takes 200 bytes. So a value must not be a Set itself.
 */
export class SetMap<K, V> {
  readonly #sets = new Map<K, V | Set<V>>();

  get isEmpty(): boolean {
    return this.#sets.size === 0;
  }

  keys(): Iterable<K> {
    return this.#sets.keys();
  }

  get(key: K): Iterable<V> {
    const values = this.#sets.get(key);
    if (values instanceof Set) return values;
    return values === undefined ? [] : [values];
  }

  /** Whether the key has the value; without `value`, whether the key has any value. */
  has(key: K, value?: V): boolean {
    const values = this.#sets.get(key);
    if (value === undefined) return values !== undefined;
    return values instanceof Set ? values.has(value) : values === value;
  }

  /** The number of values of the key. */
  size(key: K): number {
    const values = this.#sets.get(key);
    return values instanceof Set ? values.size : Number(values !== undefined);
  }

  /** Any one value of the key; `undefined`: the key has no value. */
  first(key: K): V | undefined {
    const values = this.#sets.get(key);
    return values instanceof Set ? values.values().next().value : values;
  }

  /** @returns whether the key is new */
  add(key: K, value: V): boolean {
    const values = this.#sets.get(key);
    if (values === undefined) this.#sets.set(key, value);
    else if (values instanceof Set) values.add(value);
    else if (values !== value) this.#sets.set(key, new Set([values, value]));
    return values === undefined;
  }

  /** @returns whether this was the last value of the key */
  delete(key: K, value: V): boolean {
    const values = this.#sets.get(key);
    if (!(values instanceof Set)) return values === value && this.#sets.delete(key);
    values.delete(value);
    if (values.size === 1) for (const last of values) this.#sets.set(key, last);
    return false;
  }
}

/**
 * A map whose `shift` removes the oldest entry in constant time. For this it keeps the iterator `#front` between calls.
 *
 * Invariant: all entries are ahead of `#front`, because each entry that it passes is deleted. A new iterator for each
 * `shift` would walk over all deleted slots of V8's hash table each time: quadratic time when a long queue drains.
 * An iterator keeps the hash table for which it was made in memory, with all its values, even after the map has moved
 * to a smaller table. So `#front` is dropped when half of the entries are gone.
 */
export class FifoMap<V, K extends string = string> extends Map<K, V> {
  #front: MapIterator<[K, V]> | undefined;
  /** Number of entries when `#front` was made. */
  #frontSize = 0;

  /** Removes and returns the oldest entry. */
  shift(): [K, V] | undefined {
    if (this.size === 0) return undefined;
    let next = (this.#front ?? this.#newFront()).next();
    if (next.done === true) {
      // An iterator that has reached the end stays there, even if entries are added afterwards.
      next = this.#newFront().next();
    }
    if (next.done === true) return undefined;
    this.delete(next.value[0]);
    return next.value;
  }

  override delete(key: K): boolean {
    const isDeleted = super.delete(key);
    if (isDeleted && this.size * 2 <= this.#frontSize) this.#front = undefined;
    return isDeleted;
  }

  #newFront(): MapIterator<[K, V]> {
    this.#front = this.entries();
    this.#frontSize = this.size;
    return this.#front;
  }

  override clear(): void {
    super.clear();
    this.#front = undefined;
  }
}

interface CachedValue<V> {
  readonly value: V;
  readonly bytes: number;
}

/**
 * A cache bounded by bytes. It evicts the least recently used entries.
 *
 * Invariants: `#bytes` is the sum of all sizes and never above the limit after a call; the order of `#entries` is the
 * order of last use. A value larger than the limit is not kept.
 */
export class ByteCache<V> {
  readonly #maxBytes: number;
  readonly #entries = new FifoMap<CachedValue<V>>();
  #bytes = 0;

  constructor({ maxBytes }: { readonly maxBytes: number }) {
    this.#maxBytes = maxBytes;
  }

  get size(): number {
    return this.#entries.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Returns the value of the key. This counts as a use of the entry. */
  get(key: string): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /**
   * @param bytes size of the value
   * @returns `false` if the value is too large to be kept; even then the old value of the key is removed
   */
  set(key: string, value: V, bytes: number): boolean {
    this.delete(key);
    if (bytes > this.#maxBytes) return false;
    while (this.#bytes + bytes > this.#maxBytes) {
      const oldest = this.#entries.shift();
      if (oldest === undefined) break;
      this.#bytes -= oldest[1].bytes;
    }
    this.#entries.set(key, { value, bytes });
    this.#bytes += bytes;
    return true;
  }

  delete(key: string): boolean {
    const entry = this.#entries.get(key);
    if (entry === undefined) return false;
    this.#entries.delete(key);
    this.#bytes -= entry.bytes;
    return true;
  }

  clear(): void {
    this.#entries.clear();
    this.#bytes = 0;
  }
}
