/**
 * What objects hold, for comparing: the content is read, reduced to its fingerprint and dropped. Many objects are read by lists, few
 * by GETs.
 */
import { Content } from '../../copy/model/content.ts';
import { type ResourceKey, resourceKey, parseResourceKey } from '../../copy/model/keys.ts';
import type { Kind } from '../../copy/model/kind.ts';
import { fingerprintOf } from '../../copy/model/fingerprint.ts';
import type { Fingerprint } from '../../copy/model/fingerprint.ts';
import type { KubeApi } from '../../kube/api.ts';
import { isObjectGone } from '../../kube/errors.ts';
import { parseJson } from '../../kube/json.ts';
import { type Listed, listEach } from '../../kube/list-each.ts';

export interface Found {
  readonly resourceVersion: string;
  readonly fingerprint: Fingerprint;
  readonly immutable: boolean;
}

/** So many objects of one name (the copies of one source) are read by one list. */
const MANY_OF_A_NAME = 8;
/** So many objects of one namespace are. Such a list may bring many others along. */
const MANY_OF_A_NAMESPACE = 50;
/** GETs at once. */
const PARALLEL = 8;

export class Contents {
  readonly #api: KubeApi;
  readonly #kinds: ReadonlyMap<string, Kind>;
  /** `null`: it is not there. */
  readonly #found = new Map<ResourceKey, Found | null>();

  constructor(api: KubeApi, kinds: readonly Kind[]) {
    this.#api = api;
    this.#kinds = new Map(kinds.map((kind) => [kind.kind, kind]));
  }

  /** `undefined`: not read yet; `null`: it was not there. */
  of(key: ResourceKey): Found | null | undefined {
    return this.#found.get(key);
  }

  /**
   * Reads those that have not been read yet.
   * @throws what `api.request` throws
   */
  async read(keys: Iterable<ResourceKey>, signal: AbortSignal | undefined): Promise<void> {
    let rest = [...new Set(keys)].filter((key) => !this.#found.has(key));
    rest = await this.#readGroups(rest, 'name', MANY_OF_A_NAME, signal);
    rest = await this.#readGroups(rest, 'namespace', MANY_OF_A_NAMESPACE, signal);
    const queue = rest.values();
    const worker = async (): Promise<void> => {
      for (const key of queue) this.#found.set(key, await this.#get(key, signal));
    };
    await Promise.all(Array.from({ length: PARALLEL }, worker));
  }

  /** @returns the keys of groups that are too small for a list */
  async #readGroups(
    keys: readonly ResourceKey[],
    by: 'name' | 'namespace',
    least: number,
    signal: AbortSignal | undefined,
  ): Promise<ResourceKey[]> {
    const groups = Map.groupBy(keys, (key) => {
      const place = parseResourceKey(key);
      return `${place.kind} ${place[by]}`;
    });
    const rest: ResourceKey[] = [];
    for (const group of groups.values()) {
      const [first] = group;
      if (first === undefined || group.length < least) rest.push(...group);
      else await this.#list(first, by, new Set(group), signal);
    }
    return rest;
  }

  async #list(
    first: ResourceKey,
    by: 'name' | 'namespace',
    wanted: ReadonlySet<ResourceKey>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { namespace, name } = parseResourceKey(first);
    const kind = this.#kindOf(first);
    const options = { withContent: true, signal };
    for (const key of wanted) this.#found.set(key, null);
    const take = (item: Listed): void => {
      const { metadata } = item;
      const key = resourceKey(this.#api.cluster, kind.kind, metadata.namespace ?? '', metadata.name);
      if (wanted.has(key)) this.#found.set(key, foundIn(kind, item));
    };
    if (by === 'namespace') {
      await listEach(this.#api, `${kind.groupPath}/namespaces/${namespace}/${kind.plural}`, take, options);
    } else {
      const fieldSelector = `metadata.name=${name}`;
      await listEach(this.#api, `${kind.groupPath}/${kind.plural}`, take, { ...options, fieldSelector });
    }
  }

  async #get(key: ResourceKey, signal: AbortSignal | undefined): Promise<Found | null> {
    const { namespace, name } = parseResourceKey(key);
    const kind = this.#kindOf(key);
    const path = `${kind.groupPath}/namespaces/${namespace}/${kind.plural}/${name}`;
    try {
      const { body } = await this.#api.request({ method: 'GET', path, ...(signal === undefined ? {} : { signal }) });
      return foundIn(kind, parseJson(body, `the answer to GET ${path}`) as Listed);
    } catch (error) {
      if (isObjectGone(error, name)) return null;
      throw error;
    }
  }

  #kindOf(key: ResourceKey): Kind {
    const { kind } = parseResourceKey(key);
    const known = this.#kinds.get(kind);
    if (known === undefined) throw new TypeError(`the kind ${kind} is not looked at`);
    return known;
  }
}

function foundIn(kind: Kind, item: Listed): Found {
  const { resourceVersion } = item.metadata;
  const fingerprint = fingerprintOf(Content.ofObject(kind, item, resourceVersion));
  return { resourceVersion, fingerprint, immutable: item['immutable'] === true };
}
