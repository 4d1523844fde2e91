/**
 * Shares values that many objects have in common: long values (a list of namespaces on every copy) and lists of names (the labels that Keyferry
 * writes to every copy). For a thousand copies this saves half a megabyte.
 */

import { ByteCache } from '../../runtime/byte-cache.ts';

/** Lists that are stored before all are dropped, because users choose the names. */
const MAX_LISTS = 1000;

/** Longer values are in a cache of their own. */
const LONG = 64;
/** Shorter values, and maps, that are stored before all are dropped. */
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
    if (value.length < LONG) return shared(this.#short, value, value);
    const known = this.#texts.get(value);
    if (known === undefined) this.#texts.set(value, value, 2 * value.length + LONG);
    return known ?? value;
  }

  /** The shared list of these names. */
  share(names: readonly string[]): readonly string[] {
    const key = names.join('\n');
    let list = this.#lists.get(key);
    if (list === undefined) {
      if (this.#lists.size >= MAX_LISTS) this.#lists.clear();
      // Names from the joined text do not keep alive the text that the originals were parsed from.
      list = Object.freeze(key === '' ? [] : key.split('\n'));
      this.#lists.set(key, list);
    }
    return list;
  }

  /** The same map, as the one copy of it: labels, which all copies of a source have alike. */
  map(map: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
    const text = JSON.stringify(map);
    return text.length > MAX_MAP ? map : shared(this.#maps, text, map);
  }
}

/** What is remembered under the key, which `value` is from now on if nothing is. */
function shared<T>(known: Map<string, T>, key: string, value: T): T {
  const found = known.get(key);
  if (found !== undefined) return found;
  if (known.size >= MAX_SHORT) known.clear();
  known.set(key, value);
  return value;
}
