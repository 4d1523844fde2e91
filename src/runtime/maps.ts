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

/** A map from keys to sets of values. A key without values does not exist. */
export class SetMap<K, V> {
  readonly #sets = new Map<K, Set<V>>();

  get(key: K): Iterable<V> {
    return this.#sets.get(key) ?? [];
  }

  has(key: K): boolean {
    return this.#sets.has(key);
  }

  /** @returns whether the key is new */
  add(key: K, value: V): boolean {
    const values = this.#sets.get(key);
    if (values === undefined) this.#sets.set(key, new Set([value]));
    else values.add(value);
    return values === undefined;
  }

  /** @returns whether this was the last value of the key */
  delete(key: K, value: V): boolean {
    const values = this.#sets.get(key);
    values?.delete(value);
    return values?.size === 0 && this.#sets.delete(key);
  }
}
