/**
 * Reads contents that a command must compare, and keeps only their fingerprints. Objects that are requested at the same
 * time are read together: many objects with the same name or namespace by one list, the others by a GET each.
 */
import { setImmediate } from 'node:timers/promises';
import { getObject } from '../../copy/cluster/objects/get-object.ts';
import { Content, type Fingerprint } from '../../copy/model/content.ts';
import type { KeySelection } from '../../copy/model/key-selection.ts';
import { isEntryKey, type ObjectKey, parseResourceKey, type ResourceKey, resourceKey } from '../../copy/model/keys.ts';
import { collectionPath, type Kind } from '../../copy/model/kind.ts';
import { versionOf } from '../../copy/model/observed.ts';
import type { KubeApi } from '../../kube/api.ts';
import { type Listed, listEach } from '../../kube/list-each.ts';
import { getOrCreate } from '../../runtime/maps.ts';
import { type Changes, KINDS } from './inventory.ts';

export interface ReadContent {
  readonly resourceVersion: string;
  readonly fingerprint: Fingerprint;
  readonly immutable: boolean;
  /** @see contentVersion */
  readonly version: string;
  /** @see Held.part */
  readonly part?: string | undefined;
}

/** If this number of objects with the same name, or more, are requested (copies of one source), one list reads them. */
const MANY_OF_A_NAME = 8;
/** As `MANY_OF_A_NAME`, for objects in one namespace. It is higher, because the list may have many other objects. */
const MANY_OF_A_NAMESPACE = 50;
/** Maximum number of requests at the same time. */
const PARALLEL = 8;

/** Objects that one list reads. */
type Group = readonly [ObjectKey, ...ObjectKey[]];

export class Contents {
  readonly #api: KubeApi;
  /** The results of all reads; `null`: the object does not exist. */
  readonly #found = new Map<ObjectKey, ReadContent | null>();
  readonly #signal: AbortSignal | undefined;
  readonly #changes: Changes;
  readonly #kinds: readonly Kind[];
  readonly #isWhole: boolean;
  /** The objects that the next batch reads. */
  readonly #requested = new Set<ObjectKey>();
  /** Key selections that must be applied to the content of an object when it is read. */
  readonly #selections = new Map<ObjectKey, Set<KeySelection>>();
  /** The keys of an object whose digest is needed. */
  readonly #parts = new Map<ObjectKey, readonly string[]>();
  #batch: Promise<void> | undefined;

  /**
   * @param kinds the kinds besides Secrets and ConfigMaps
   * @param isWhole whether the caller may list the whole cluster
   */
  constructor(
    api: KubeApi,
    signal?: AbortSignal,
    changes: Changes = new Map(),
    kinds: readonly Kind[] = [],
    isWhole = true,
  ) {
    this.#isWhole = isWhole;
    this.#kinds = [...KINDS, ...kinds];
    this.#signal = signal;
    this.#changes = changes;
    this.#api = api;
  }

  /**
   * Forgets the contents of objects that have changed since they were read.
   * @param versionOf the present resourceVersion of an object; `undefined`: it does not exist
   */
  forgetOthers(versionOf: (key: ObjectKey) => string | undefined): void {
    for (const [key, found] of this.#found) if (found?.resourceVersion !== versionOf(key)) this.#found.delete(key);
  }

  /** The content of an object; `undefined`: it was not read yet; `null`: the object did not exist. */
  of(key: ResourceKey): ReadContent | null | undefined {
    return isEntryKey(key) ? undefined : this.#found.get(key);
  }

  /**
   * Reads an object, together with all others that are requested at the same time.
   * @param selection the key selection to apply to the content
   * @returns whether the object was read now; false: an earlier read has the content
   * @throws the errors of `api.request`
   */
  async read(key: ResourceKey, selection?: KeySelection, part?: readonly string[]): Promise<boolean> {
    if (isEntryKey(key)) return false;
    const found = this.#found.get(key);
    const isPartKnown = part === undefined || !found || found.part !== undefined;
    if (found !== undefined && isPartKnown && (!selection || !found || selection.known(found.fingerprint)))
      return false;
    if (part !== undefined) this.#parts.set(key, part);
    if (selection !== undefined) getOrCreate(this.#selections, key, () => new Set()).add(selection);
    this.#requested.add(key);
    this.#batch ??= this.#readRequested();
    await this.#batch;
    return true;
  }

  async #readRequested(): Promise<void> {
    // Waits until every running decision has requested the objects that it needs.
    await setImmediate();
    const keys = [...this.#requested];
    this.#requested.clear();
    this.#batch = undefined;
    const [ofNames, few] = this.#isWhole ? groupsOf(keys, 'name', MANY_OF_A_NAME) : [[], keys];
    const [ofNamespaces, rest] = groupsOf(few, 'namespace', MANY_OF_A_NAMESPACE);
    const queue = [
      ...ofNames.map((group) => async () => await this.#list(group, 'name')),
      ...ofNamespaces.map((group) => async () => await this.#list(group, 'namespace')),
      ...rest.map((key) => async () => void this.#found.set(key, await this.#get(key))),
    ].values();
    const worker = async (): Promise<void> => {
      for (const read of queue) await read();
    };
    await Promise.all(Array.from({ length: PARALLEL }, worker));
  }

  async #list([first, ...others]: Group, by: 'name' | 'namespace'): Promise<void> {
    const kind = this.#kindOf(first);
    const options = { signal: this.#signal };
    const missing = new Set([first, ...others]);
    const take = (item: Listed): void => {
      const { metadata } = item;
      const key = resourceKey(this.#api.cluster, kind.kind, metadata.namespace ?? '', metadata.name);
      if (missing.delete(key)) this.#found.set(key, this.#foundIn(key, item));
    };
    if (by === 'namespace') {
      await listEach(this.#api, collectionPath(kind, first), take, options);
    } else {
      const fieldSelector = `metadata.name=${parseResourceKey(first).name}`;
      await listEach(this.#api, `${kind.groupPath}/${kind.plural}`, take, { ...options, fieldSelector });
    }
    for (const key of missing) this.#found.set(key, this.#foundIn(key, undefined));
  }

  async #get(key: ObjectKey): Promise<ReadContent | null> {
    const options = this.#signal === undefined ? {} : { signal: this.#signal };
    return this.#foundIn(key, await getObject(this.#api, this.#kindOf(key), key, options));
  }

  /** @param item `undefined`: the server does not have the object */
  #foundIn(key: ObjectKey, item: Listed | undefined): ReadContent | null {
    const object = this.#changes.get(key)?.(item) ?? item;
    if (object === undefined) return null;
    const { resourceVersion } = object.metadata;
    const kind = this.#kindOf(key);
    const version = versionOf(object.metadata, kind);
    const content = Content.ofObject(kind, object, version);
    for (const selection of this.#selections.get(key) ?? []) selection.select(content);
    this.#selections.delete(key);
    const { fingerprint } = content;
    const keys = this.#parts.get(key);
    this.#parts.delete(key);
    const part = keys && content.digestOf(keys);
    return { resourceVersion, version, fingerprint, part, immutable: object['immutable'] === true };
  }

  #kindOf(key: ObjectKey): Kind {
    const { kind } = parseResourceKey(key);
    const known = this.#kinds.find((one) => one.kind === kind);
    if (known === undefined) throw new TypeError(`not a kind that is copied: ${key}`);
    return known;
  }
}

/** The groups of at least `least` keys with the same kind and the same name or namespace, and the other keys. */
function groupsOf(
  keys: readonly ObjectKey[],
  by: 'name' | 'namespace',
  least: number,
): readonly [Group[], readonly ObjectKey[]] {
  const groups: Group[] = [];
  const rest: ObjectKey[] = [];
  const placed = Map.groupBy(keys, (key) => {
    const place = parseResourceKey(key);
    return `${place.kind} ${place[by]}`;
  });
  for (const [first, ...others] of placed.values())
    if (first !== undefined && others.length + 1 >= least) groups.push([first, ...others]);
    else if (first !== undefined) rest.push(first, ...others);
  return [groups, rest];
}
