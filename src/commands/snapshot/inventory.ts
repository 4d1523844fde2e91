/** Lists the state of a cluster for one command: the metadata of its objects, and the rules of the controllers. */
import type { KubeApi, KubeObject } from '../../kube/api.ts';
import { type ApiError, isForbidden, isNotFound } from '../../kube/errors.ts';
import { listEach, type Listed, type ListOptions } from '../../kube/list-each.ts';
import type { ServedNamespaces } from '../../kube/watch/served-namespaces.ts';
import { pathIn } from '../../kube/watch/watch-group.ts';
import { Namespaces } from '../../copy/cluster/watch/namespaces.ts';
import { because } from '../../copy/model/cause.ts';
import { type SourceView, sourceView } from '../../copy/model/claim.ts';
import { parseResourceKey, type ResourceKey, resourceKey } from '../../copy/model/keys.ts';
import { CONFIG_MAP, type Kind, SECRET } from '../../copy/model/kind.ts';
import { observe, type Observed } from '../../copy/model/observed.ts';
import { getOrCreate } from '../../runtime/maps.ts';

/** A collection of objects on the API server, for example `Secret`, `/api/v1` and `secrets`. */
export interface Collection {
  readonly kind: string;
  readonly groupPath: string;
  /** If the server does not serve `groupPath`, these are tried in their order. */
  readonly olderGroupPaths?: readonly string[];
  readonly plural: string;
  /** The short name that kubectl takes. */
  readonly shortName?: string;
}

/** The collection of a controller whose rules have their own kind, for example SecretMirror. */
export interface RuleCollection extends Collection {
  /** The apiVersions that manifests may have. Value: a problem with one, for example fields that the server drops. */
  readonly apiVersions: ReadonlyMap<string, string | undefined>;
  /** Set if most clusters lack this API: then `status` does not mention this, and a caller may lack the right to list. */
  readonly isRare?: true;
  /** Advice if the API is not installed. */
  readonly notInstalled: string;
  /** If the rules themselves hold content and have no spec: the kind by which their content is read. */
  readonly content?: Kind;
}

/** The caller has no permission to list a collection. */
export class MissingRight extends Error {
  /** The message without the answer of the server. */
  readonly brief: string;

  /** @param namespace `undefined`: in the whole cluster */
  constructor(verbs: string, { groupPath, plural }: Collection, namespace: string | undefined, cause: ApiError) {
    const [, , group] = groupPath.startsWith('/apis/') ? groupPath.split('/') : [];
    const resource = group === undefined ? plural : `${plural}.${group}`;
    const where = namespace === undefined ? 'in the whole cluster' : `in namespace ${namespace}`;
    const brief = `no permission to ${verbs} ${resource} ${where}`;
    super(`${brief}: ${cause.message}`, { cause });
    this.brief = brief;
  }
}

/**
 * Lists a collection in these namespaces (`undefined`: in the whole cluster), and calls `take` for each object.
 * @returns whether its API is installed
 * @throws MissingRight, and the errors of `api.request`
 */
export type Lister = (
  collection: Collection,
  namespaces: readonly string[] | undefined,
  take: (item: Listed) => void,
  options?: ListOptions,
) => Promise<boolean>;

/** @param onListed called with each listed path and the resourceVersion of the list */
export function listerOf(api: KubeApi, onListed?: (path: string, resourceVersion: string) => unknown): Lister {
  return listerBy('list', async (path, take, options) => {
    const resourceVersion = await listEach(api, path, take, options);
    onListed?.(path, resourceVersion);
  });
}

/** @param verbs the rights that it needs. @param list lists one path. @throws the errors of `api.request` */
export function listerBy(
  verbs: string,
  list: (path: string, take: (item: Listed) => void, options?: ListOptions) => Promise<void>,
): Lister {
  return async (collection, namespaces, take, options) => {
    const { groupPath, olderGroupPaths = [], plural } = collection;
    const listIn = async (path: string, namespace: string | undefined): Promise<void> => {
      try {
        await list(path, take, options);
      } catch (error) {
        throw isForbidden(error) ? new MissingRight(verbs, collection, namespace, error) : error;
      }
    };
    for (const group of [groupPath, ...olderGroupPaths]) {
      const path = `${group}/${plural}`;
      try {
        if (namespaces === undefined) await listIn(path, undefined);
        for (const name of namespaces ?? []) await listIn(pathIn(path, name), name);
        return true;
      } catch (error) {
        if (!isNotFound(error)) throw error;
      }
    }
    return false;
  };
}

/** Both are listed, because `status` also reports on a kind for which the replicator does not run. */
export const KINDS: readonly Kind[] = [SECRET, CONFIG_MAP];
export const NAMESPACES: Collection = { kind: 'Namespace', groupPath: '/api/v1', plural: 'namespaces' };

/** Of lists that are kept, most metadata are the same in the next report. */
const OBSERVED = new WeakMap<KubeObject['metadata'], readonly [ResourceKey, Observed]>();

/** The view of each source in Vault. Commands do not read Vault, because a read could create dynamic credentials. */
export const VAULT_NOT_READ = {
  state: 'missing',
  ...because('Vault'),
} as const satisfies SourceView;

/** Assumed changes: each function gets an object and returns its state after the change; `undefined`: no object. */
export type Changes = ReadonlyMap<ResourceKey, (there: Listed | undefined) => Listed | undefined>;

export interface InventoryOptions {
  /** `--namespaces`: only these are listed, as if there were no others; `undefined`: all. */
  readonly served?: ServedNamespaces | undefined;
  /** The only namespace that is listed. The others may exist, but nothing is known of them. `undefined`: all are. */
  readonly only?: string | undefined;
}

export class Inventory {
  readonly objects = new Map<ResourceKey, Observed>();
  readonly namespaces = new Namespaces();
  readonly served: ServedNamespaces | undefined;
  readonly only: string | undefined;
  /** Why a kind that the command can do without could not be listed: the caller has no permission. */
  readonly unread = new Map<string, MissingRight>();
  readonly #missing = new Set<string>();
  readonly #rules = new Map<RuleCollection, (item: KubeObject) => void>();
  /** The objects of each collection of rules. */
  readonly #ruleObjects = new Map<RuleCollection, ResourceKey[]>();

  constructor({ served, only }: InventoryOptions = {}) {
    this.served = served;
    this.only = only;
  }

  /** Adds a collection of rules to the lists. @param put called with each of its objects */
  include(collection: RuleCollection, put: (item: KubeObject) => void): void {
    this.#rules.set(collection, put);
  }

  /**
   * @param cluster name of the cluster in resource keys
   * @param changes changes to assume. Allowed only if the whole cluster is listed
   * @param copies whether a controller copies into namespaces. The state of the rules of the others is in their status,
   *   and their operator has no right to list namespaces or Secrets
   * @throws MissingRight, and the errors of `api.request`
   */
  async list(
    cluster: string,
    lister: Lister,
    changes: Changes = new Map(),
    signal?: AbortSignal,
    copies = true,
  ): Promise<void> {
    const metadata = { metadataOnly: true, signal };
    const places = this.only === undefined ? this.served?.names : [this.only];
    const store = (kind: Kind, { metadata: meta }: KubeObject): void => {
      const create = () =>
        [resourceKey(cluster, kind.kind, meta.namespace ?? '', meta.name), observe(meta, kind)] as const;
      this.objects.set(...getOrCreate(OBSERVED, meta, create));
    };
    const list = async (
      collection: Collection,
      take: (item: KubeObject) => unknown,
      options: ListOptions,
      isNeeded = true,
    ) => {
      const { kind } = collection;
      const listed = new Set<ResourceKey>();
      const change = (item: Listed): void => {
        const key = resourceKey(cluster, kind, item.metadata.namespace ?? '', item.metadata.name);
        listed.add(key);
        take(changes.get(key)?.(item) ?? item);
      };
      try {
        const isInstalled = await lister(collection, places, changes.size === 0 ? take : change, options);
        if (!isInstalled) this.#missing.add(kind);
      } catch (error) {
        if (isNeeded || !(error instanceof MissingRight)) throw error;
        this.unread.set(kind, error);
        return;
      }
      for (const [key, create] of changes) {
        const place = parseResourceKey(key);
        const isNew = place.kind === kind && !listed.has(key) && !this.isUnserved(place.namespace);
        const created = isNew ? create(undefined) : undefined;
        if (created !== undefined) take(created);
      }
    };
    for (const name of places ?? []) this.namespaces.assume(name);
    await Promise.all([
      places === undefined && list(NAMESPACES, (item) => this.namespaces.sink.upsert(item), metadata, copies),
      ...Array.from(this.#rules, async ([one, put]) => {
        const objects = getOrCreate(this.#ruleObjects, one, () => []);
        const take = (item: KubeObject): void => {
          objects.push(resourceKey(cluster, one.kind, item.metadata.namespace ?? '', item.metadata.name));
          put(item);
        };
        await list(one, take, { signal }, one.isRare !== true);
      }),
      // An operator without the replicator needs no right to list ConfigMaps.
      ...KINDS.map(async (kind) => {
        await list(kind, (item) => store(kind, item), metadata, copies && kind !== CONFIG_MAP);
      }),
    ]);
  }

  /** The objects that may be rules. @param collection `undefined`: Secrets and ConfigMaps, by their annotations */
  candidates(collection: RuleCollection | undefined): Iterable<ResourceKey> {
    return collection === undefined ? this.objects.keys() : (this.#ruleObjects.get(collection) ?? []);
  }

  /** Whether all objects of the cluster are known. */
  get isWhole(): boolean {
    return this.only === undefined && this.served === undefined && this.unread.size === 0;
  }

  /** Whether all namespaces of the cluster were listed. */
  get knowsNamespaces(): boolean {
    return this.only === undefined && this.served === undefined && !this.unread.has(NAMESPACES.kind);
  }

  isInstalled(kind: string): boolean {
    return !this.#missing.has(kind);
  }

  /** Whether Keyferry does not serve a namespace. */
  isUnserved(namespace: string): boolean {
    return namespace !== '' && this.served?.has(namespace) === false;
  }

  /** Whether a namespace was read. */
  isRead(namespace: string): boolean {
    return !this.isUnserved(namespace) && (this.only === undefined || this.only === namespace);
  }

  /** Whether all objects of a kind are known in one namespace. */
  isListed(kind: string, namespace: string): boolean {
    return this.isRead(namespace) && !this.unread.has(kind);
  }

  /** Whether a namespace exists, or may exist because not all namespaces are known. */
  hasNamespace(name: string): boolean {
    return this.only !== undefined || this.unread.has(NAMESPACES.kind) || this.namespaces.has(name);
  }

  /** The view of a source in this snapshot. */
  view(source: ResourceKey | undefined): SourceView {
    if (source === undefined) return VAULT_NOT_READ;
    const { kind, namespace } = parseResourceKey(source);
    return sourceView(source, this.objects.get(source), () => this.isListed(kind, namespace));
  }
}
