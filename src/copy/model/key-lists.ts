/**
 * What many objects have alike, kept once: long values (a list of namespaces that every copy carries), and lists of names (the labels that we write on every copy). Of a thousand copies that is
 * half a megabyte.
 */

import { ByteCache } from '../../runtime/byte-cache.ts';

/** Lists remembered before all are forgotten: an object's names are its user's to choose. */
const MAX_LISTS = 1000;

/** Shorter values are not worth being looked for. */
const LONG = 64;
/** Long values that are remembered, bytes. */
const TEXTS_BYTES = 8 * 1024 * 1024;

export class KeyLists {
  readonly #texts = new ByteCache<string>({ maxBytes: TEXTS_BYTES });
  readonly #lists = new Map<string, readonly string[]>();

  /** The same text, as the one copy of it where it is long. */
  text(value: string): string {
    if (value.length < LONG) return value;
    const known = this.#texts.get(value);
    if (known === undefined) this.#texts.set(value, value, 2 * value.length + LONG);
    return known ?? value;
  }

  /** The same names, as the one list of them. */
  share(names: readonly string[]): readonly string[] {
    const key = names.join('\n');
    let list = this.#lists.get(key);
    if (list === undefined) {
      if (this.#lists.size >= MAX_LISTS) this.#lists.clear();
      // Taken out of the joined text, so that no name keeps the text alive that it was parsed from.
      list = Object.freeze(key === '' ? [] : key.split('\n'));
      this.#lists.set(key, list);
    }
    return list;
  }
}
