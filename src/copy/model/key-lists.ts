/**
 * Shares values that many objects have in common: long values (a list of namespaces on every copy) and lists of names (the labels that Keyferry
 * writes to every copy). For a thousand copies this saves half a megabyte.
 */

import { ByteCache } from '../../runtime/byte-cache.ts';

/** Longer values are in a cache of their own. */
const LONG = 64;
/** Shorter values, lists and maps that are stored, of each, before all are dropped: users choose them. */
const MAX_SHORT = 1000;
/** Longest map that is shared, characters. */
const MAX_MAP = 1024;
/** Stored long values, bytes. */
const TEXTS_BYTES = 8 * 1024 * 1024;

export class KeyLists {
  readonly #texts = new ByteCache<string>({ maxBytes: TEXTS_BYTES });
  readonly #short = new Map<string, string>();
  readonly #maps = new Map<string, Readonly<Record<string, string>>>();
  readonly #lists = new Map<string, readonly string[]>();

  /** The shared copy of a text. */
  text(value: string): string {
    if (value.length < LONG) return shared(this.#short, value, () => value);
    const known = this.#texts.get(value);
    if (known === undefined) this.#texts.set(value, value, 2 * value.length + LONG);
    return known ?? value;
  }

  /** The shared list of these names. */
  share(names: readonly string[]): readonly string[] {
    const key = names.join('\n');
    // Names from the joined text do not keep alive the text that the originals were parsed from.
    return shared(this.#lists, key, () => Object.freeze(key === '' ? [] : key.split('\n')));
  }

  /** The same map, as the one copy of it: labels, which all copies of a source have alike. */
  map(map: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
    const text = JSON.stringify(map);
    return text.length > MAX_MAP ? map : shared(this.#maps, text, () => map);
  }
}

/** The stored value of the key. If there is none, `make` creates it. */
function shared<T>(known: Map<string, T>, key: string, make: () => T): T {
  const value = known.get(key);
  if (value !== undefined) return value;
  if (known.size >= MAX_SHORT) known.clear();
  const made = make();
  known.set(key, made);
  return made;
}
