/**
 * A Kubernetes cluster as a backend: it has the namespaces, all watches (those of controllers, too), and for each kind
 * a store of the objects and a reconciler of the targets.
 */
import type { Clock } from '../../runtime/clock.ts';
import { getOrCreate } from '../../runtime/maps.ts';
import type { KubeApi, KubeObject, ObjectMeta } from '../../kube/api.ts';
import { isForbidden, isUnauthorized } from '../../kube/errors.ts';
import { identified } from '../../kube/cluster-identity.ts';
import { listEach } from '../../kube/list-each.ts';
import { type WatchHealth, watchName, type WatchTarget } from '../../kube/watch/watch-target.ts';
import type { ServedNamespaces } from '../../kube/watch/served-namespaces.ts';
import {
  type KnownCause,
  pathIn,
  type CustomApi,
  WatchGroup,
  type WatchGroupOptions,
} from '../../kube/watch/watch-group.ts';
import type { WatchSink } from '../../kube/watch/watcher.ts';
import type { Backend, TargetQueueing } from '../engine/backend.ts';
import type { Engine } from '../engine/engine.ts';
import { kindOf, namespaceOf, type ObjectKey } from '../model/keys.ts';
import type { Kind } from '../model/kind.ts';
import type { IsRead } from '../model/observed.ts';
import { type ContentUse, KubeStore } from './objects/store.ts';
import { Namespaces, type OnNamespace } from './watch/namespaces.ts';
import { Reachability } from './watch/reachability.ts';
import type { TargetReconcilerOptions } from './write/target-actions.ts';
import { TargetReconciler } from './write/target-reconciler.ts';

export interface ClusterOptions {
  readonly api: KubeApi;
  /** Whether this process runs in the cluster. */
  readonly isHome: boolean;
  readonly engine: Engine;
  /** The kinds that can be copied. */
  readonly kinds: readonly Kind[];
  /** How many targets are reconciled at the same time. */
  readonly concurrency: number;
  readonly onWrite: TargetReconcilerOptions['onWrite'];
  readonly clock: Clock;
  /** @see ObserveOptions.isRead */
  readonly isRead: IsRead;
  /** The only namespaces that are read and written; `undefined`: all. */
  readonly served?: ServedNamespaces | undefined;
  readonly onTrouble: (trouble: WatchTrouble) => void;
  /** Called if etcd was restored from a backup: the caches are wrong. `what`: the watch or object that shows this. */
  readonly onRollback: (what: string) => void;
  /** @see WatcherOptions.idleLimitMs */
  readonly idleLimitMs: number;
}

/** A failed watch or list, which will be retried. */
export interface WatchTrouble extends KnownCause {
  readonly watch: Pick<WatchTarget, 'collection' | 'scope'>;
  readonly error: unknown;
  readonly retryInMs: number;
}

/** The objects of a kind that a watch brings with their data: all, those of a namespace, or those with a label. */
export interface ContentScope extends ContentUse {
  readonly namespace?: string;
  readonly labelSelector?: string;
}

/** The objects of one kind, as sources and as targets. */
interface ObjectsOfKind {
  readonly store: KubeStore;
  readonly targets: TargetReconciler;
}

interface ContentWatch {
  readonly watcher: WatchGroup;
  /** The receivers of the watch's events. Each event goes to all of them, in this order. */
  readonly sinks: WatchSink[];
  /** For each caller of `watchContents`: which contents of the watched objects it needs. */
  readonly scopes: ContentUse[];
}

/** Longest wait after another cluster refused a write with 401 or 403, ms. */
const REFUSED_WAIT_MS = 30_000;
const NAMESPACES = '/api/v1/namespaces';

export class Cluster implements Backend {
  readonly api: KubeApi;
  readonly name: string;
  readonly queueing: TargetQueueing;
  readonly queues = [];
  readonly namespaces = new Namespaces();
  /** The only namespaces that are read and written; `undefined`: all. */
  readonly served: ServedNamespaces | undefined;
  readonly reachability: Reachability;
  readonly #options: ClusterOptions;
  readonly #kinds = new Map<string, ObjectsOfKind>();
  readonly #watches: WatchGroup[] = [];
  /** The watches of objects with their data, by path and label selector. */
  readonly #contentWatches = new Map<string, ContentWatch>();
  /** The watches that `watchAll` opened: `synced` waits for them, too. */
  readonly #wide: WatchGroup[] = [];
  #watchesNamespaces = false;
  #isListed = false;
  /** Called when the server belongs to another cluster than before, and all objects were dropped. */
  onReplaced: () => void = () => undefined;

  constructor(options: ClusterOptions) {
    const { clock, concurrency, engine, isHome, served } = options;
    const api = isHome ? options.api : identified(options.api, () => this.#replaced());
    this.api = api;
    this.name = api.cluster;
    this.served = served;
    this.#options = { ...options, api };
    this.reachability = new Reachability({
      cluster: this.name,
      clock,
      watches: () => this.watches,
      retry: (target) => engine.retryTarget(target),
      report: (target, wait) => this.targetsOf(target).report(target, wait),
    });
    this.queueing = {
      name: isHome ? 'targets' : `targets ${this.name}`,
      concurrency,
      laneOf: undefined,
      // In another cluster all copies of a tenant are in one namespace, so the namespaces of the rules share.
      shareBy: isHome ? 'target' : 'rule',
      // The wait is short, because an administrator of the other cluster may grant the permission at any time.
      longestWaitMs: (error) =>
        !isHome && (isForbidden(error) || isUnauthorized(error)) ? REFUSED_WAIT_MS : undefined,
    };
  }

  /** Settles when all watches are listed, or another cluster is found unreachable: its targets then report this. */
  async ready(): Promise<void> {
    const listed = this.reachability.listing(this.synced());
    await (this.#options.isHome ? listed : Promise.race([listed, this.reachability.found()]));
  }

  sourcesOf(source: ObjectKey): KubeStore {
    return this.#of(source).store;
  }

  targetsOf(target: ObjectKey): TargetReconciler {
    return this.#of(target).targets;
  }

  #of(key: ObjectKey): ObjectsOfKind {
    const name = kindOf(key);
    const kind = this.#options.kinds.find(({ kind }) => kind === name);
    if (kind === undefined) throw new TypeError(`no controller copies objects of this kind: ${key}`);
    return this.#ofKind(kind);
  }

  /** The store of a kind; created at the first call. */
  store(kind: Kind): KubeStore {
    return this.#ofKind(kind).store;
  }

  #ofKind(kind: Kind): ObjectsOfKind {
    return getOrCreate(this.#kinds, kind.kind, () => this.#open(kind));
  }

  #open(kind: Kind): ObjectsOfKind {
    const { api, clock, engine, isHome, isRead, onRollback, onWrite, served } = this.#options;
    const store = new KubeStore({
      api,
      kind,
      served,
      onChange: (...change) => targets.objectChanged(...change),
      onKnown: (key) => engine.objectKnown(key),
      isRead,
      watcher: this.#watcherOptions({ collection: kind.plural }),
      onLate: (sinceMs) => this.#reopenSilent(kind, sinceMs),
      onRollback,
    });
    const targets = new TargetReconciler({
      store,
      onChange: engine.objectChanged,
      reachability: isHome ? undefined : this.reachability,
      claims: engine.claims,
      cycles: engine.cycles,
      sources: engine.backends,
      hasNamespace: (name) => this.hasNamespace(name),
      // Keyferry cannot read a rule of a namespace that it does not serve.
      orphanActionOf: async (owner, ...orphan) =>
        served?.has(namespaceOf(owner)) === false ? 'keep' : await engine.orphanActionOf(owner, ...orphan),
      mayBeWanted: engine.mayBeWanted,
      onOutcome: (...change) => engine.outcomeChanged(...change),
      onTried: (...result) => engine.targetTried(...result),
      onWrite,
      now: () => clock.now(),
    });
    return { store, targets };
  }

  /**
   * Opens a watch that stays open until `stop`.
   * @param namespaces one watch is opened for each of these namespaces; `undefined`: one watch of the whole cluster
   */
  watch(
    target: WatchTarget,
    sink: WatchSink,
    options: Pick<WatchGroupOptions, 'custom' | 'neededBy'> = {},
    namespaces?: ServedNamespaces,
  ): WatchGroup {
    const common = { ...this.#watcherOptions(target), api: this.api };
    const watcher = new WatchGroup({ ...common, ...options, target, sink }, namespaces).start();
    this.#watches.push(watcher);
    return watcher;
  }

  /**
   * Watches the metadata of all objects of a kind, for a controller whose objects no label selects. The index keeps the
   * objects that are `isRelevant` and those that are followed by name. Controllers share one watch of a kind.
   */
  watchAll(kind: Kind, isRelevant: (meta: Pick<ObjectMeta, 'annotations'>) => boolean): void {
    this.#wide.push(this.store(kind).watches.watchAll(isRelevant));
  }

  /**
   * Watches the objects of a kind with their data, so no request reads them: all objects, those of one namespace, or
   * those that a label selects. Without a selector, an object that the watch does not have does not exist. Controllers
   * that need the same objects share one watch: all must call this before its first list.
   * @param sink also gets the events, after the store of the kind
   */
  watchContents(kind: Kind, scope: ContentScope, sink?: WatchSink, custom?: CustomApi): WatchGroup {
    const { namespace, labelSelector } = scope;
    const all = `${kind.groupPath}/${kind.plural}`;
    const path = namespace === undefined ? all : pathIn(all, namespace);
    const id = `${path}?${labelSelector ?? ''}`;
    const known = this.#contentWatches.get(id);
    if (known !== undefined) {
      known.scopes.push(scope);
      if (sink !== undefined) known.sinks.push(sink);
      return known.watcher;
    }
    const store = this.store(kind);
    const sinks: WatchSink[] = [];
    const target: WatchTarget = {
      collection: kind.plural,
      scope: namespace ?? (labelSelector === undefined ? 'all' : 'labelled'),
      path,
      ...(labelSelector === undefined ? {} : { labelSelector }),
      metadataOnly: false,
    };
    const watcher = this.watch(target, sharedSink(sinks), { custom });
    const scopes: ContentUse[] = [scope];
    this.#contentWatches.set(id, { watcher, sinks, scopes });
    sinks.push(store.contentSink(scopes), ...(sink === undefined ? [] : [sink]));
    if (labelSelector === undefined) store.addCompleteWatch({ namespace, isListed: () => watcher.isSynced });
    return watcher;
  }

  /**
   * Calls the handler for every change of a namespace from now on. All callers share one watch. With `--namespaces`
   * these count as existing, because a Role cannot give the permission to read namespaces.
   */
  watchNamespaces(onChange: OnNamespace): void {
    this.namespaces.onChange(onChange);
    if (this.#watchesNamespaces) return;
    this.#watchesNamespaces = true;
    const { served, namespaces } = this;
    if (served === undefined)
      this.watch({ collection: 'namespaces', path: NAMESPACES, metadataOnly: true }, namespaces.sink);
    else for (const name of served.names) namespaces.assume(name);
  }

  /** Whether a namespace exists and is not being deleted. `true` without a watch: then the server refuses the write. */
  hasNamespace(name: string): boolean {
    return !this.#watchesNamespaces || this.namespaces.has(name);
  }

  /**
   * Whether a namespace has the same labels and consent on the server as in memory. They differ if the watch is late.
   * Always `true` with `--namespaces`: then Keyferry has no permission to read them. @throws as `api.request`
   */
  async isCurrent(namespace: string, signal: AbortSignal): Promise<boolean> {
    if (this.served !== undefined) return true;
    let isKnown = false;
    const take = (item: KubeObject): void => void (isKnown = this.namespaces.isKnown(item));
    // A list, because Keyferry has no permission to get a single namespace.
    const options = { fieldSelector: `metadata.name=${namespace}`, metadataOnly: true, signal };
    await listEach(this.api, NAMESPACES, take, options);
    return isKnown;
  }

  /** Settles when every watch that is open now has its first list, or is known to have failed. */
  async synced(): Promise<void> {
    await Promise.all([...this.#watches, ...this.#wide].map(async (watcher) => await watcher.settled));
    this.#isListed = true;
  }

  /** Whether `synced` has settled at least one time. */
  get isListed(): boolean {
    return this.#isListed;
  }

  get watches(): readonly WatchHealth[] {
    const stores = Array.from(this.#kinds.values(), ({ store }) => store.watches);
    return [...this.#watches, ...stores].flatMap(({ health }) => health);
  }

  /**
   * Drops what is known of the earlier cluster, and lists again. Until then no target is tried. In another cluster than
   * the home cluster, all objects come from watches that a controller opened.
   */
  #replaced(): void {
    for (const watch of this.#watches) watch.restart();
    this.onReplaced();
    // A stop ends the wait with an error.
    this.reachability.listing(this.synced()).catch(() => undefined);
  }

  /** Size of the contents in the caches of the stores, bytes. */
  get cachedBytes(): number {
    return [...this.#kinds.values()].reduce((sum, { store }) => sum + store.cachedBytes, 0);
  }

  async stop(): Promise<void> {
    this.reachability.stop();
    const stores = Array.from(this.#kinds.values(), ({ store }) => store);
    await Promise.all([...this.#watches, ...stores].map(async (part) => await part.stop()));
  }

  /** Reopens the watches of the kind that had no event for `sinceMs`. They may be dead: a write was not brought. */
  #reopenSilent(kind: Kind, sinceMs: number): void {
    for (const watcher of this.#watches) if (watcher.collection === kind.plural) watcher.reopenIfSilent(sinceMs);
    this.store(kind).watches.reopenSilent(sinceMs);
  }

  #watcherOptions(watch: WatchTrouble['watch']): Pick<WatchGroupOptions, 'onTrouble' | 'onRollback' | 'idleLimitMs'> {
    const { onTrouble, onRollback, idleLimitMs } = this.#options;
    return {
      onTrouble: (error, retryInMs, cause) => {
        onTrouble({ isKnown: false, ...cause, watch, error, retryInMs });
        this.reachability.watchFailed();
      },
      onRollback: () => onRollback(`the watch of ${watchName(watch)}`),
      idleLimitMs,
    };
  }
}

/** A sink that passes each event on to all `sinks`, and makes the watcher remember the keys of all objects. */
function sharedSink(sinks: readonly WatchSink[]): WatchSink {
  return {
    upsert: (...event) => {
      for (const sink of sinks) sink.upsert(...event);
      return true;
    },
    remove: (object) => {
      for (const sink of sinks) sink.remove(object);
    },
    prune: (...list) => {
      for (const sink of sinks) sink.prune(...list);
    },
  };
}
