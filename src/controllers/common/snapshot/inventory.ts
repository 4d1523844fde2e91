/** Lists the state of a cluster for one command: the metadata of its objects, and the rules of the controllers. */
import type { KubeApi, KubeObject } from '../../../kube/api.ts';
import { isForbidden, isNotFound } from '../../../kube/errors.ts';
import { listEach, type Listed, type ListOptions } from '../../../kube/list-each.ts';
import type { ServedNamespaces } from '../../../kube/watch/served-namespaces.ts';
import { Namespaces } from '../../../copy/cluster/watch/namespaces.ts';
import { nobodyCause } from '../../../copy/model/cause.ts';
import { type SourceView, sourceView } from '../../../copy/model/claim.ts';
import { parseResourceKey, type ResourceKey, resourceKey } from '../../../copy/model/keys.ts';
import { CONFIG_MAP, type Kind, SECRET } from '../../../copy/model/kind.ts';
import { observe, type Observed } from '../../../copy/model/observed.ts';
import type { RuleCollection } from './reader.ts';

/** A collection of objects on the API server, for example `Secret`, `/api/v1` and `secrets`. */
export interface Collection {
  readonly kind: string;
  readonly groupPath: string;
  /** If the server does not serve `groupPath`, these are tried in their order. */
  readonly olderGroupPaths?: readonly string[];
  readonly plural: string;
}

/** How much of a collection could be listed. `without`: the namespaces that the caller has no permission to list. */
export type Coverage =
  | { readonly extent: 'cluster' | 'namespace' | 'not installed'; readonly without?: readonly string[] }
  | { readonly extent: 'refused'; readonly message: string; readonly without?: undefined };

/** The namespace to list if the whole cluster is forbidden; an array: the only namespaces to list. */
export type Place = string | undefined | readonly string[];

/** Lists a collection and calls `take` for each object. @throws the errors of `api.request` except 403 and 404 */
export type Lister = (
  collection: Collection,
  namespace: Place,
  take: (item: Listed) => void,
  options?: ListOptions,
) => Promise<Coverage>;

/**
 * Lists a collection in the whole cluster. If the caller has no permission, lists it in the given namespace.
 * @param onListed called with each listed path and the resourceVersion of the list
 */
export function listerOf(api: KubeApi, onListed?: (path: string, resourceVersion: string) => unknown): Lister {
  return async (collection, namespace, take, options) =>
    await tryPermitted(collection, namespace, async (path) => {
      const resourceVersion = await listEach(api, path, take, options);
      onListed?.(path, resourceVersion);
    });
}

/**
 * Calls `attempt` with the path of the whole cluster; if the server forbids this, with the path of the one namespace.
 * For an array of namespaces: only with the path of each; the permission in one of them is enough.
 * @throws the errors of `attempt` except 403 and 404
 */
async function tryPermitted(
  { groupPath, olderGroupPaths = [], ...collection }: Collection,
  namespace: Place,
  attempt: (path: string) => Promise<void>,
): Promise<Coverage> {
  const { plural } = collection;
  const served = typeof namespace === 'object' ? namespace : undefined;
  const pathIn = (name: string): string => `${groupPath}/namespaces/${encodeURIComponent(name)}/${plural}`;
  const without: string[] = [];
  try {
    if (served === undefined) await attempt(`${groupPath}/${plural}`);
    for (const name of served ?? []) {
      try {
        await attempt(pathIn(name));
      } catch (error) {
        if (!isForbidden(error) || without.push(name) === served?.length) throw error;
      }
    }
    return { extent: 'cluster', without };
  } catch (error) {
    const [next, ...others] = olderGroupPaths;
    if (isNotFound(error)) {
      if (next === undefined) return { extent: 'not installed' };
      return await tryPermitted({ ...collection, groupPath: next, olderGroupPaths: others }, namespace, attempt);
    }
    if (!isForbidden(error)) throw error;
    if (typeof namespace !== 'string') return { extent: 'refused', message: error.message };
  }
  try {
    await attempt(pathIn(namespace));
    return { extent: 'namespace' };
  } catch (error) {
    if (!isForbidden(error)) throw error;
    return { extent: 'refused', message: error.message };
  }
}

/** Both are always listed, because `status` also reports on a kind for which the replicator does not run. */
export const KINDS: readonly Kind[] = [SECRET, CONFIG_MAP];
const NAMESPACES: Collection = { kind: 'Namespace', groupPath: '/api/v1', plural: 'namespaces' };

/** The view of each source in Vault. Commands do not read Vault, because a read could create dynamic credentials. */
export const VAULT_NOT_READ = {
  state: 'missing',
  ...nobodyCause('Vault', 'this command does not read Vault'),
} as const satisfies SourceView;

/** Assumed changes: each function gets an object and returns its state after the change; `undefined`: no object. */
export type Changes = ReadonlyMap<ResourceKey, (there: Listed | undefined) => Listed | undefined>;

export class Inventory {
  readonly objects = new Map<ResourceKey, Observed>();
  readonly namespaces = new Namespaces('all');
  /** How much could be listed of each kind: namespaces, rules, Secrets and ConfigMaps. */
  readonly coverage = new Map<string, Coverage>();
  /** The namespaces that Keyferry serves (`--namespaces`). Only these are listed; `undefined`: all. */
  readonly served: ServedNamespaces | undefined;
  readonly #home: string | undefined;
  readonly #rules = new Map<RuleCollection, (item: KubeObject) => void>();

  /** @param home the namespace to list if the caller has no permission to list the whole cluster */
  constructor(home: string | undefined, served?: ServedNamespaces) {
    this.#home = home;
    this.served = served;
  }

  /** Adds a collection of rules to the lists. @param put called with each of its objects */
  include(collection: RuleCollection, put: (item: KubeObject) => void): void {
    this.#rules.set(collection, put);
  }

  /**
   * @param cluster name of the cluster in resource keys
   * @param changes changes to assume. Allowed only if the whole cluster is listed
   * @throws the errors of `api.request`, except for a missing permission (see `coverage`)
   */
  async list(cluster: string, lister: Lister, changes: Changes = new Map(), signal?: AbortSignal): Promise<void> {
    const metadata = { metadataOnly: true, signal };
    const { served } = this;
    const store = (kind: Kind, { metadata: meta }: KubeObject): void => {
      this.objects.set(resourceKey(cluster, kind.kind, meta.namespace ?? '', meta.name), observe(meta, kind));
    };
    const list = async (collection: Collection, take: (item: KubeObject) => unknown, options: ListOptions) => {
      const { kind } = collection;
      const listed = new Set<ResourceKey>();
      const change = (item: Listed): void => {
        const key = resourceKey(cluster, kind, item.metadata.namespace ?? '', item.metadata.name);
        listed.add(key);
        take(changes.get(key)?.(item) ?? item);
      };
      // The entry is set before the responses, which come in any order, so that the notes have a fixed order.
      this.coverage.set(kind, { extent: 'cluster' });
      const found = await lister(collection, served?.names ?? this.#home, changes.size === 0 ? take : change, options);
      this.coverage.set(kind, found);
      if (found.extent === 'refused') return;
      for (const [key, create] of changes) {
        const place = parseResourceKey(key);
        const isNew = place.kind === kind && !listed.has(key) && !this.isUnserved(place.namespace);
        const created = isNew ? create(undefined) : undefined;
        if (created !== undefined) take(created);
      }
    };
    if (served !== undefined) {
      for (const name of served.names) this.namespaces.assume(name);
      this.coverage.set(NAMESPACES.kind, { extent: 'cluster' });
    }
    await Promise.all([
      served === undefined && list(NAMESPACES, (item) => this.namespaces.sink.upsert(item, true), metadata),
      ...Array.from(this.#rules, async ([one, put]) => await list(one, put, { signal })),
      ...KINDS.map(async (kind) => await list(kind, (item) => store(kind, item), metadata)),
    ]);
    if (!this.isWhole('Namespace') && this.#home !== undefined) this.namespaces.assume(this.#home);
  }

  /** Whether all objects of a kind are known, in all namespaces that Keyferry serves. */
  isWhole(kind: string): boolean {
    const { without = [] } = this.coverage.get(kind) ?? {};
    return without.length === 0 && this.#isListed(kind);
  }

  /** Whether all namespaces of the cluster were listed. */
  get knowsNamespaces(): boolean {
    return this.served === undefined && this.isWhole('Namespace');
  }

  /** Whether the objects of a kind were listed in all namespaces that the caller has permission to list. */
  #isListed(kind: string): boolean {
    const extent = this.coverage.get(kind)?.extent;
    return extent === 'cluster' || extent === 'not installed';
  }

  /** Whether Keyferry does not serve a namespace. */
  isUnserved(namespace: string): boolean {
    return namespace !== '' && this.served?.has(namespace) === false;
  }

  /** Whether the caller has no permission to list a kind in any namespace. */
  isRefused(kind: string): boolean {
    return this.coverage.get(kind)?.extent === 'refused';
  }

  /** Whether all objects of a kind are known in one namespace. */
  isListed(kind: string, namespace: string): boolean {
    if (this.isUnserved(namespace) || this.coverage.get(kind)?.without?.includes(namespace) === true) return false;
    return this.#isListed(kind) || (namespace === this.#home && !this.isRefused(kind));
  }

  /** Whether a namespace exists, or may exist because not all namespaces are known. */
  hasNamespace(name: string): boolean {
    return !this.isWhole('Namespace') || this.namespaces.has(name);
  }

  /** The view of a source in this snapshot. */
  view(source: ResourceKey | undefined): SourceView {
    if (source === undefined) return VAULT_NOT_READ;
    const { kind, namespace } = parseResourceKey(source);
    return sourceView(source, this.objects.get(source), () => this.isListed(kind, namespace));
  }
}
