/** Helpers for maps. */

interface MapLike<K, V> {
  get(key: K): V | undefined;
  set(key: K, value: V): unknown;
}

/** The value of the key. If there is none, `make` creates it, and it is added. */
export function getOrCreate<K, V>(map: MapLike<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) map.set(key, (value = make()));
  return value;
}

/**
 * A map from keys to sets of values, which are not Sets themselves. A key without values does not exist. Most keys have one value, which
 * needs no Set: that would take 200 bytes.
 */
export class SetMap<K, V> {
  readonly #sets = new Map<K, V | Set<V>>();

  get(key: K): Iterable<V> {
    const values = this.#sets.get(key);
    if (values instanceof Set) return values;
    return values === undefined ? [] : [values];
  }

  has(key: K): boolean {
    return this.#sets.has(key);
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
    return values.size === 0 && this.#sets.delete(key);
  }
}
