/** The objects of one cluster: its namespaces, a store for each kind, and every watch, those of controllers included. */
import type { Clock } from '../../runtime/clock.ts';
import type { KubeApi, ObjectMeta } from '../../kube/api.ts';
import type { WatchTarget } from '../../kube/watch/watch-target.ts';
import { WatchGroup } from '../../kube/watch/watch-group.ts';
import type { WatcherOptions, WatchSink } from '../../kube/watch/watcher.ts';
import type { BackendWatch, ObjectEvents } from '../engine/backend.ts';
import type { Cause } from '../model/cause.ts';
import type { Kind } from '../model/kind.ts';
import type { IsRead } from '../model/observed.ts';
import { Reachability, type OnReachableChange } from './watch/reachability.ts';
import { SharedSink } from './watch/shared-sink.ts';
import { KubeStore } from './objects/store.ts';
import { Namespaces, type OnNamespace } from './watch/namespaces.ts';

export interface ClusterOptions {
  readonly api: KubeApi;
  readonly clock: Clock;
  readonly events: ObjectEvents;
  /** @see ObserveOptions.isRead */
  readonly isRead: IsRead;
  /** The only namespaces that are read and written; `undefined`: all. */
  readonly served?: readonly string[] | undefined;
  readonly onTrouble: (trouble: WatchTrouble) => void;
  /** The server's etcd was restored from a backup, so the caches are wrong. `what`: the watch or object that showed it. */
  readonly onRollback: (what: string) => void;
  /** @see WatcherOptions.idleLimitMs */
  readonly idleLimitMs: number;
}

/** A watch or list failed, and will be retried. */
export interface WatchTrouble {
  readonly watch: string;
  readonly error: unknown;
  readonly retryInMs: number;
  /** How the user can fix it. */
  readonly advice: string | undefined;
  /** It failed before with the same cause, and may fail again: one warning is enough. */
  readonly isKnown: boolean;
}

/** Diagnoses why one watch cannot be listed. */
export interface WatchDiagnosis {
  /** The watch failed. @returns `WatchTrouble.isKnown` */
  failed(error: unknown): boolean;
  /** How the user can fix it. `undefined`: the cause is another one. */
  readonly advice: string | undefined;
  /** @see BackendWatch.isExcused */
  readonly isExcused: boolean;
  /** Settles when the cause is found. Then the cluster counts as synced without the watch. `undefined`: it waits for the watch. */
  readonly found: Promise<void> | undefined;
}

interface OpenWatch {
  /** Of its collection. */
  readonly path: string;
  readonly watcher: WatchGroup;
  readonly diagnosis: WatchDiagnosis | undefined;
}

/** The objects of a kind that a watch brings whole. */
export interface ContentScope {
  readonly namespace?: string;
  readonly labelSelector?: string;
  /** They are copied. Otherwise only their fingerprints are needed. */
  readonly isSource: boolean;
}

interface ContentWatch {
  readonly watcher: WatchGroup;
  readonly shared: SharedSink;
  /** For one of the callers. */
  isSource: boolean;
}

export class Cluster {
  readonly api: KubeApi;
  readonly namespaces = new Namespaces();
  readonly #options: ClusterOptions;
  readonly #stores = new Map<string, KubeStore>();
  readonly #watches: OpenWatch[] = [];
  /** The watches of whole objects, by path and selector. */
  readonly #contentWatches = new Map<string, ContentWatch>();
  /** Watches of the stores that `synced` waits for. */
  readonly #wide: WatchGroup[] = [];
  readonly #reachability: Reachability;
  #watchesNamespaces = false;

  constructor(options: ClusterOptions) {
    this.api = options.api;
    this.#options = options;
    const { api, clock } = options;
    this.#reachability = new Reachability({ cluster: api.cluster, clock, watches: () => this.watches });
  }

  /** The only namespaces that are read and written; `undefined`: all. */
  get served(): readonly string[] | undefined {
    return this.#options.served;
  }

  /** Why the cluster cannot be used now, as its watches show. `undefined`: it answers, or no watch has failed yet. */
  get unreachable(): Cause | undefined {
    return this.#reachability.cause;
  }

  /** Calls the handler when `unreachable` changes. */
  onReachableChange(handler: OnReachableChange): void {
    this.#reachability.onChange(handler);
  }

  /** The store of a kind; created at the first call. */
  store(kind: Kind): KubeStore {
    return this.#stores.get(kind.kind) ?? this.#openStore(kind);
  }

  #openStore(kind: Kind): KubeStore {
    const { api, events, isRead, onRollback, served } = this.#options;
    const store = new KubeStore({
      api,
      kind,
      served,
      onChange: (...change) => events.objectChanged(...change),
      onKnown: (key) => events.objectKnown(key),
      isRead,
      watcher: this.#watcherOptions(kind.plural),
      onLate: (sinceMs) => this.#reopenSilent(kind, store, sinceMs),
      onRollback,
    });
    this.#stores.set(kind.kind, store);
    return store;
  }

  /**
   * Opens a watch that stays open until `stop`.
   * @param namespaces a watch for each of these, of a collection with namespaces; `undefined`: the target as it is
   */
  watch(target: WatchTarget, sink: WatchSink, diagnosis?: WatchDiagnosis, namespaces?: readonly string[]): WatchGroup {
    const options = this.#watcherOptions(target.name, diagnosis);
    const watcher = new WatchGroup({ ...options, api: this.api, target, sink }, namespaces).start();
    this.#watches.push({ path: target.path, watcher, diagnosis });
    return watcher;
  }

  /**
   * Follows all objects of a kind and keeps those that are `isRelevant`, or followed as sources: for controllers whose objects no selector
   * finds. Once for each kind.
   */
  watchAll(kind: Kind, isRelevant: (meta: Pick<ObjectMeta, 'annotations'>) => boolean): void {
    this.#wide.push(this.store(kind).watches.watchAll(isRelevant));
  }

  /**
   * Watches whole objects of a kind: all, those of one namespace, or those that a label selects. Their content comes from the events, so
   * they are not read again. Without a selector, an object that the watch does not have does not exist. Controllers that need the same objects
   * share one watch: they must call this before its first list.
   * @param sink also gets the events, after the store of the kind
   */
  watchContents(
    kind: Kind,
    { namespace, labelSelector, isSource }: ContentScope,
    sink: WatchSink,
    diagnosis?: WatchDiagnosis,
  ): WatchGroup {
    const name = [kind.plural, namespace ?? (labelSelector === undefined ? 'all' : 'labelled')].join('/');
    const scope = namespace === undefined ? '' : `/namespaces/${namespace}`;
    const path = `${kind.groupPath}${scope}/${kind.plural}`;
    const id = `${path}?${labelSelector ?? ''}`;
    const known = this.#contentWatches.get(id);
    if (known !== undefined) {
      known.isSource ||= isSource;
      known.shared.add(sink);
      return known.watcher;
    }
    const store = this.store(kind);
    const shared = new SharedSink();
    const selected = labelSelector === undefined ? {} : { labelSelector };
    const watcher = this.watch({ name, path, ...selected, metadataOnly: false }, shared.sink, diagnosis);
    const opened: ContentWatch = { watcher, shared, isSource };
    this.#contentWatches.set(id, opened);
    shared.add(store.contentSink(() => opened.isSource));
    shared.add(sink);
    if (labelSelector === undefined) store.addCompleteWatch({ namespace, isListed: () => watcher.isSynced });
    return watcher;
  }

  /**
   * Opens the watch of namespaces, once for all callers, and calls the handler for every change from now on. Where only some namespaces are
   * served, they count as existing: a Role gives no right to read the objects of namespaces.
   */
  watchNamespaces(onChange: OnNamespace): void {
    this.namespaces.onChange(onChange);
    if (this.#watchesNamespaces) return;
    this.#watchesNamespaces = true;
    const { served } = this.#options;
    if (served === undefined) {
      this.watch({ name: 'namespaces', path: '/api/v1/namespaces', metadataOnly: true }, this.namespaces.sink);
      return;
    }
    for (const name of served) {
      const unread = { name, uid: '', resourceVersion: '', creationTimestamp: '' };
      this.namespaces.sink.upsert({ metadata: unread }, true);
    }
  }

  /** Whether a namespace exists and is not being deleted. Without a watch of namespaces this is unknown, and the server decides at the write. */
  hasNamespace(name: string): boolean {
    return !this.#watchesNamespaces || this.namespaces.has(name);
  }

  /** Settles when every watch opened so far is listed, or the cause why it cannot be listed is found. */
  async synced(): Promise<void> {
    const listed = this.#watches.map(async ({ watcher, diagnosis }) => {
      await (diagnosis?.found === undefined ? watcher.synced : Promise.race([watcher.synced, diagnosis.found]));
    });
    await Promise.all([...listed, ...this.#wide.map(async (watcher) => await watcher.synced)]);
  }

  get watches(): readonly BackendWatch[] {
    const opened = this.#watches.flatMap(({ watcher, diagnosis }) => {
      const excuse = { advice: diagnosis?.advice, isExcused: diagnosis?.isExcused ?? false };
      return watcher.health.map((health) => ({ ...health, ...excuse }));
    });
    return [...opened, ...[...this.#stores.values()].flatMap((store) => store.watches.health)];
  }

  /** Size of the contents in the caches of its stores. */
  get cachedBytes(): number {
    return [...this.#stores.values()].reduce((sum, store) => sum + store.cachedBytes, 0);
  }

  async stop(): Promise<void> {
    this.#reachability.stop();
    const watchers = this.#watches.map(({ watcher }) => watcher);
    await Promise.all([...watchers, ...this.#stores.values()].map(async (part) => await part.stop()));
  }

  /** No watch confirmed our own writes: a watch of the kind without events since then may be dead. */
  #reopenSilent(kind: Kind, store: KubeStore, sinceMs: number): void {
    for (const { path, watcher } of this.#watches) {
      if (path.startsWith(`${kind.groupPath}/`) && path.endsWith(`/${kind.plural}`)) watcher.reopenIfSilent(sinceMs);
    }
    store.watches.reopenSilent(sinceMs);
  }

  #watcherOptions(
    name: string,
    diagnosis?: WatchDiagnosis,
  ): Pick<WatcherOptions, 'onTrouble' | 'onRollback' | 'idleLimitMs'> {
    const { onTrouble, onRollback, idleLimitMs } = this.#options;
    return {
      onTrouble: (error, retryInMs) => {
        const isKnown = diagnosis?.failed(error) ?? false;
        onTrouble({ watch: name, error, retryInMs, advice: diagnosis?.advice, isKnown });
        this.#reachability.watchFailed();
      },
      onRollback: () => onRollback(`the watch of ${name}`),
      idleLimitMs,
    };
  }
}
