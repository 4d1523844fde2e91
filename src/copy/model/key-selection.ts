/** Selects the keys that copies get of their source. Engine and plan use it: they see only the chosen content. */
import { getOrCreate } from '../../runtime/maps.ts';
import type { Cause } from './cause.ts';
import type { Content, Fingerprint } from './content.ts';

export interface ChosenKey {
  readonly from: string;
  /** The name of the key in the copies. No two keys have the same. */
  readonly to: string;
  /** Whether the source may lack the key. */
  readonly optional: boolean;
}

/** The result of a selection: one of these two fields. */
interface Selected<C> {
  /** The content that copies get. */
  readonly chosen?: C;
  /** Why the copies get no content. */
  readonly missing?: Cause;
}

/** Most selections that are remembered for one content. All copies with the same selection then send the same bytes. */
const MAX_SHARED = 8;

/** The remembered selections of each content, as long as the content itself is in memory. */
const shared = new WeakMap<Content, Map<string, Content>>();

/** A choice of the keys of a source, and of their names in the copies. Pure: results are kept only to save work. */
export class KeySelection {
  /** Equal for equal choices. */
  readonly id: string;
  readonly #keys: readonly ChosenKey[];
  readonly #missing: (keys: readonly string[]) => Cause;
  /** The result for the last content of the source. */
  #last: { readonly of: string; readonly result: Selected<Fingerprint> } | undefined;

  /** @param missing the cause for a source without these keys */
  constructor(keys: readonly ChosenKey[], missing: (keys: readonly string[]) => Cause) {
    this.#keys = keys;
    this.#missing = missing;
    this.id = JSON.stringify(keys.map(({ from, to, optional }) => [from, to, optional]));
  }

  /** The part of the content that the copies get. */
  select(content: Content): Selected<Content> {
    const made = getOrCreate(shared, content, () => new Map<string, Content>());
    let chosen = made.get(this.id);
    if (chosen === undefined) {
      chosen = content.pick(this.#keys);
      if (made.size >= MAX_SHARED) made.clear();
      made.set(this.id, chosen);
    }
    const present = chosen.names;
    const missing = this.#keys.filter(({ to, optional }) => !optional && !present.has(to)).map(({ from }) => from);
    const cause = missing.length === 0 ? undefined : this.#missing(missing);
    const result = cause === undefined ? { chosen: chosen.fingerprint } : { missing: cause };
    this.#last = { of: identity(content.fingerprint), result };
    return cause === undefined ? { chosen } : { missing: cause };
  }

  /** The last result of `select`, if it was made from this content; `undefined`: the content must be read. */
  known(whole: Fingerprint | undefined): Selected<Fingerprint> | undefined {
    return whole !== undefined && this.#last?.of === identity(whole) ? this.#last.result : undefined;
  }
}

function identity({ digest, type }: Fingerprint): string {
  return `${digest} ${type}`;
}
