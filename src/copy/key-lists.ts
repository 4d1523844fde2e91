/**
 * Lists of names that are alike for most objects (the labels that we write on every copy), kept once. Of a thousand copies that is
 * half a megabyte.
 */

/** Lists remembered before all are forgotten: an object's names are its user's to choose. */
const MAX_LISTS = 1000;

export class KeyLists {
  readonly #lists = new Map<string, readonly string[]>();

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
