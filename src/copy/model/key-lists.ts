/** Stores equal values of many objects only once: for a thousand copies this saves half a megabyte. */
import { ByteCache } from '../../runtime/maps.ts';

/** Longer values, in characters, are in a cache of their own. */
const LONG = 64;
/** Most short values that are stored, and most lists and maps: users choose them, so all are dropped above this. */
const MAX_SHORT = 1000;
/** Longest map that is shared, characters. */
const MAX_MAP = 1024;
/** Most memory of stored long values, bytes. */
const TEXTS_BYTES = 8 * 1024 * 1024;

export class KeyLists {
  readonly #texts = new ByteCache<string>({ maxBytes: TEXTS_BYTES });
  readonly #short = new Map<string, string>();
  readonly #maps = new Map<string, object>();
  readonly #lists = new Map<string, readonly string[]>();
  /** The last annotations for which a place was computed, because one decision reads them twenty times. */
  lastRead: { readonly slot: object; readonly annotations: Readonly<Record<string, string>> } | undefined;

  /** The shared copy of a text, such as a list of namespaces that each copy has. */
  text(value: string): string {
    if (value.length < LONG) return shared(this.#short, value, () => value);
    const known = this.#texts.get(value);
    if (known === undefined) this.#texts.set(value, value, 2 * value.length + LONG);
    return known ?? value;
  }

  /** The shared list of these names, such as those of the labels that Keyferry writes to each copy. */
  share(names: readonly string[]): readonly string[] {
    const key = names.join('\n');
    // The names come from the joined text, because the originals would keep the JSON alive that they were parsed from.
    return shared(this.#lists, key, () => Object.freeze(key === '' ? [] : key.split('\n')));
  }

  /** The shared copy of a map or status, such as the labels of all copies of a source. The value must never change. */
  map<Value extends object>(value: Value): Value {
    const text = JSON.stringify(value);
    return text.length > MAX_MAP ? value : (shared(this.#maps, text, () => value) as Value);
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
