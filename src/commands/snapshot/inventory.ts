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
  /** Set if most clusters lack this API: then `status` does not mention this. */
  readonly isRare?: true;
  /** Advice if the API is not installed. */
  readonly notInstalled: string;
  /** If the rules themselves hold content and have no spec: the kind by which their content is read. */
  readonly content?: Kind;
}

/** The caller has no permission to list collections. */
export class MissingRight extends Error {
  /** The rights by the kinds: `list secrets in namespace team-a`. */
  readonly rights: ReadonlyMap<string, string>;
  /** The message without the answer of the server. */
  readonly brief: string;

  constructor(rights: ReadonlyMap<string, string>, cause: ApiError) {
    const brief = `no permission to ${[...rights.values()].join(', ')}`;
    super(`${brief}: ${cause.message}`, { cause });
    this.rights = rights;
    this.brief = brief;
  }

  /** @param errors at least one */
  static all(errors: readonly MissingRight[]): MissingRight {
    const sorted = errors.toSorted((a, b) => (a.brief < b.brief ? -1 : 1));
    return new MissingRight(new Map(sorted.flatMap(({ rights }) => [...rights])), sorted[0]?.cause as ApiError);
  }
}

/** @param namespace `undefined`: in the whole cluster */
function rightOn(verbs: string, { groupPath, plural }: Collection, namespace: string | undefined): string {
  const [, , group] = groupPath.startsWith('/apis/') ? groupPath.split('/') : [];
  const resource = group === undefined ? plural : `${plural}.${group}`;
  return `${verbs} ${resource} ${namespace === undefined ? 'in the whole cluster' : `in namespace ${namespace}`}`;
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
  return listerBy(api, 'list', async (path, take, options) => {
    const resourceVersion = await listEach(api, path, take, options);
    onListed?.(path, resourceVersion);
  });
}

/** @param verbs the rights that it needs. @param list lists one path. @throws the errors of `api.request` */
export function listerBy(
  api: KubeApi,
  verbs: string,
  list: (path: string, take: (item: Listed) => void, options?: ListOptions) => Promise<void>,
): Lister {
  return async (collection, namespaces, take, options) => {
    const { groupPath, olderGroupPaths = [], plural } = collection;
    const listIn = async (group: string, namespace: string | undefined): Promise<void> => {
      const path = `${group}/${plural}`;
      try {
        await list(namespace === undefined ? path : pathIn(path, namespace), take, options);
      } catch (error) {
        if (!isForbidden(error)) throw error;
        // Without the right, the server answers 403 even if it does not have the API: then nothing is missing.
        await api.request({ method: 'GET', path: group, signal: options?.signal }).catch((problem: unknown) => {
          if (isNotFound(problem)) throw problem;
        });
        throw new MissingRight(new Map([[collection.kind, rightOn(verbs, collection, namespace)]]), error);
      }
    };
    for (const group of [groupPath, ...olderGroupPaths]) {
      try {
        if (namespaces === undefined) await listIn(group, undefined);
        for (const name of namespaces ?? []) await listIn(group, name);
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

/** Kinds that are listed. `false`: if the caller may list them; `true`: the caller needs the right. */
export type Needs = Readonly<Record<string, boolean>>;

export const NEEDS_ALL: Needs = { [NAMESPACES.kind]: true, [SECRET.kind]: true, [CONFIG_MAP.kind]: true };

/** Of lists that are kept, most metadata are the same in the next report. */
const OBSERVED = new WeakMap<KubeObject['metadata'], readonly [ResourceKey, Observed]>();

/** The view of each source in Vault. Commands do not read Vault, because a read could create dynamic credentials. */
export const VAULT_NOT_READ = {
  state: 'missing',
  ...because('Vault'),
} as const satisfies SourceView;

/** Assumed changes: each function gets an object and returns its state after the change; `undefined`: no object. */
export type Changes = ReadonlyMap<ResourceKey, (there: Listed | undefined) => Listed | undefined>;

export class Inventory {
  readonly objects = new Map<ResourceKey, Observed>();
  readonly namespaces = new Namespaces();
  readonly served: ServedNamespaces | undefined;
  /** The kinds that were listed. Of others, nothing is known. */
  readonly #listed = new Set<string>();
  readonly #missing = new Set<string>();
  readonly #rules = new Map<RuleCollection, (item: KubeObject) => void>();
  /** The objects of each collection of rules. */
  readonly #ruleObjects = new Map<RuleCollection, ResourceKey[]>();

  /** @param served only these namespaces are listed, as if there were no others; `undefined`: all */
  constructor(served?: ServedNamespaces) {
    this.served = served;
  }

  /** Adds a collection of rules to the lists. @param put called with each of its objects */
  include(collection: RuleCollection, put: (item: KubeObject) => void): void {
    this.#rules.set(collection, put);
  }

  /**
   * @param cluster name of the cluster in resource keys
   * @param changes changes to assume. Allowed only if the whole cluster is listed
   * @param needs the kinds to list besides those of the rules. `false`: the caller may lack the right
   * @throws MissingRight, which names all rights that are missing, and the errors of `api.request`
   */
  async list(
    cluster: string,
    lister: Lister,
    needs: Needs = NEEDS_ALL,
    changes: Changes = new Map(),
    signal?: AbortSignal,
  ): Promise<void> {
    const missing: MissingRight[] = [];
    const metadata = { metadataOnly: true, signal };
    const places = this.served?.names;
    const store = (kind: Kind, { metadata: meta }: KubeObject): void => {
      const create = () =>
        [resourceKey(cluster, kind.kind, meta.namespace ?? '', meta.name), observe(meta, kind)] as const;
      this.objects.set(...getOrCreate(OBSERVED, meta, create));
    };
    const list = async (collection: Collection, take: (item: KubeObject) => unknown, options: ListOptions) => {
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
        this.#listed.add(kind);
      } catch (error) {
        if (!(error instanceof MissingRight)) throw error;
        if (needs[kind] !== false) missing.push(error);
        return;
      }
      for (const [key, create] of changes) {
        const place = parseResourceKey(key);
        const isNew = place.kind === kind && !listed.has(key) && !this.isUnserved(place.namespace);
        const created = isNew ? create(undefined) : undefined;
        if (created !== undefined) take(created);
      }
    };
    if (places !== undefined) this.#listed.add(NAMESPACES.kind);
    for (const name of places ?? []) this.namespaces.assume(name);
    await Promise.all([
      places === undefined &&
        NAMESPACES.kind in needs &&
        list(NAMESPACES, (item) => this.namespaces.sink.upsert(item), metadata),
      ...Array.from(this.#rules, async ([one, put]) => {
        const objects = getOrCreate(this.#ruleObjects, one, () => []);
        const take = (item: KubeObject): void => {
          objects.push(resourceKey(cluster, one.kind, item.metadata.namespace ?? '', item.metadata.name));
          put(item);
        };
        await list(one, take, { signal });
      }),
      ...KINDS.map(async (kind) => {
        if (kind.kind in needs) await list(kind, (item) => store(kind, item), metadata);
      }),
    ]);
    if (missing.length > 0) throw MissingRight.all(missing);
  }

  /** The objects that may be rules. @param collection `undefined`: Secrets and ConfigMaps, by their annotations */
  candidates(collection: RuleCollection | undefined): Iterable<ResourceKey> {
    return collection === undefined ? this.objects.keys() : (this.#ruleObjects.get(collection) ?? []);
  }

  /** Whether all namespaces of the cluster are known, and what is in them. */
  get isWhole(): boolean {
    return this.served === undefined && this.#listed.has(NAMESPACES.kind);
  }

  isInstalled(kind: string): boolean {
    return !this.#missing.has(kind);
  }

  /** Whether Keyferry does not serve a namespace. */
  isUnserved(namespace: string): boolean {
    return namespace !== '' && this.served?.has(namespace) === false;
  }

  /** Whether all objects of a kind are known in one namespace. */
  isListed(kind: string, namespace: string): boolean {
    return !this.isUnserved(namespace) && this.#listed.has(kind);
  }

  /** Whether a namespace exists, or may exist because namespaces were not listed. */
  hasNamespace(name: string): boolean {
    return !this.#listed.has(NAMESPACES.kind) || this.namespaces.has(name);
  }

  /** The view of a source in this snapshot. */
  view(source: ResourceKey | undefined): SourceView {
    if (source === undefined) return VAULT_NOT_READ;
    const { kind, namespace } = parseResourceKey(source);
    return sourceView(source, this.objects.get(source), () => this.isListed(kind, namespace));
  }
}
