/** Selects the keys of a source that its copies get. Engine and plan handle only the selected content. */
import { getOrCreate } from '../../runtime/maps.ts';
import type { Cause } from './cause.ts';
import type { Content, Fingerprint } from './content.ts';

export interface ChosenKey {
  readonly from: string;
  /** The name of the key in the copies. It differs for each chosen key. */
  readonly to: string;
  /** Whether the source may lack the key. */
  readonly optional: boolean;
}

/** The result of a selection: either `chosen` or `missing` is set. */
interface Selected<C> {
  /** The content that copies get. */
  readonly chosen?: C;
  /** Why the copies get no content. */
  readonly missing?: Cause;
}

/** Most selections that are stored for one content. All copies with the same selection then send the same bytes. */
const MAX_SHARED = 8;

/** The results of selections by content. They are in memory as long as the content itself. */
const shared = new WeakMap<Content, Map<string, Content>>();

/** Which keys of a source are copied, and their names in the copies. Pure: results are stored only to save work. */
export class KeySelection {
  /** Two selections with the same choice of keys have the same id. */
  readonly id: string;
  readonly #keys: readonly ChosenKey[];
  readonly #missing: (keys: readonly string[]) => Cause;
  /** The result for the last content that was selected from, to answer `known` without the values. */
  #last: { readonly of: string; readonly result: Selected<Fingerprint> } | undefined;

  /** @param missing makes the cause if the source lacks these keys */
  constructor(keys: readonly ChosenKey[], missing: (keys: readonly string[]) => Cause) {
    this.#keys = keys;
    this.#missing = missing;
    this.id = JSON.stringify(keys.map(({ from, to, optional }) => [from, to, optional]));
  }

  /** Selects from this content. If a key that is not optional is missing, the copies get nothing. */
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

  /** The last result of `select`, if the content was the same; `undefined`: the content must be read. */
  known(whole: Fingerprint | undefined): Selected<Fingerprint> | undefined {
    return whole !== undefined && this.#last?.of === identity(whole) ? this.#last.result : undefined;
  }
}

function identity({ digest, type }: Fingerprint): string {
  return `${digest} ${type}`;
}
