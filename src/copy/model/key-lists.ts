/** If many objects have the same value, it is stored only once. For a thousand copies this saves half a megabyte. */
import { ByteCache } from '../../runtime/maps.ts';

/** A value with more characters is stored in a cache of its own. */
const LONG = 64;
/** Most short values, lists and maps that are stored. Users choose them, so above this number all are dropped. */
const MAX_SHORT = 1000;
/** Longest map that is stored, characters of its JSON. */
const MAX_MAP = 1024;
/** Most memory for long values, bytes. */
const TEXTS_BYTES = 8 * 1024 * 1024;

export class KeyLists {
  readonly #texts = new ByteCache<string>({ maxBytes: TEXTS_BYTES });
  readonly #short = new Map<string, string>();
  readonly #maps = new Map<string, object>();
  readonly #lists = new Map<string, readonly string[]>();
  /** The last annotations to which `keyferry.dev/target` was added. Stored because one decision reads them 20 times. */
  lastRead: { readonly slot: object; readonly annotations: Readonly<Record<string, string>> } | undefined;

  /** The stored text that equals `value`, such as a list of namespaces that each copy has. */
  text(value: string): string {
    if (value.length < LONG) return shared(this.#short, value, () => value);
    const known = this.#texts.get(value);
    if (known === undefined) this.#texts.set(value, value, 2 * value.length + LONG);
    return known ?? value;
  }

  /** The stored list of these names, such as the names of the labels that Keyferry writes to each copy. */
  share(names: readonly string[]): readonly string[] {
    const key = names.join('\n');
    // The names are cut from the joined text: the originals would keep the JSON in memory that they were parsed from.
    return shared(this.#lists, key, () => Object.freeze(key === '' ? [] : key.split('\n')));
  }

  /** The stored map or status that equals `value`, such as the labels of all copies of a source. Must never change. */
  map<Value extends object>(value: Value): Value {
    const text = JSON.stringify(value);
    return text.length > MAX_MAP ? value : (shared(this.#maps, text, () => value) as Value);
  }
}

/** The value that is stored under the key; if there is none, `make` creates it. */
function shared<T>(known: Map<string, T>, key: string, make: () => T): T {
  const value = known.get(key);
  if (value !== undefined) return value;
  if (known.size >= MAX_SHORT) known.clear();
  const made = make();
  known.set(key, made);
  return made;
}
