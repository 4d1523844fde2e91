/**
 * A Kubernetes cluster as a backend: its namespaces, for each kind a store of its objects and a reconciler of its
 * targets, and all watches, with those of controllers.
 */
import type { Clock } from '../../runtime/clock.ts';
import { getOrCreate } from '../../runtime/maps.ts';
import type { KubeApi, ObjectMeta } from '../../kube/api.ts';
import { isForbidden, isUnauthorized } from '../../kube/errors.ts';
import { fenced } from '../../kube/leader-election/fenced-api.ts';
import { type WatchHealth, watchName, type WatchTarget } from '../../kube/watch/watch-target.ts';
import type { ServedNamespaces } from '../../kube/watch/served-namespaces.ts';
import {
  type KnownCause,
  pathIn,
  type WatchDiagnosis,
  WatchGroup,
  type WatchGroupOptions,
} from '../../kube/watch/watch-group.ts';
import type { WatchSink } from '../../kube/watch/watcher.ts';
import type { Backend, TargetQueueing } from '../engine/backend.ts';
import type { Engine } from '../engine/engine.ts';
import { kindOf, type ObjectKey } from '../model/keys.ts';
import type { Kind } from '../model/kind.ts';
import { type IsRead, sameButVersion } from '../model/observed.ts';
import { type ContentUse, KubeStore } from './objects/store.ts';
import { NamespaceReads } from './watch/namespace-reads.ts';
import { Namespaces, type OnNamespace } from './watch/namespaces.ts';
import { Reachability } from './watch/reachability.ts';
import type { TargetReconcilerOptions } from './write/target-actions.ts';
import { orphanActions } from './write/out-of-sight.ts';
import { TargetReconciler } from './write/target-reconciler.ts';

export interface ClusterOptions {
  readonly api: KubeApi;
  /** Whether this process runs in the cluster. */
  readonly isHome: boolean;
  readonly engine: Engine;
  /** The kinds that can be copied. */
  readonly kinds: readonly Kind[];
  /** Targets that are reconciled at once. */
  readonly concurrency: number;
  readonly onWrite: TargetReconcilerOptions['onWrite'];
  readonly clock: Clock;
  /** @see ObserveOptions.isRead */
  readonly isRead: IsRead;
  /** The only namespaces that are read and written; `undefined`: all. */
  readonly served?: ServedNamespaces | undefined;
  readonly onTrouble: (trouble: WatchTrouble) => void;
  /** Called if etcd was restored from a backup, so the caches are wrong. `what`: the watch or object that shows it. */
  readonly onRollback: (what: string) => void;
  /** @see WatcherOptions.idleLimitMs */
  readonly idleLimitMs: number;
}

/** A watch or list failed, and will be retried. */
export interface WatchTrouble extends KnownCause {
  readonly watch: Pick<WatchTarget, 'collection' | 'scope'>;
  readonly error: unknown;
  readonly retryInMs: number;
}

/** The objects of a kind that a watch brings whole. */
export interface ContentScope extends ContentUse {
  readonly namespace?: string;
  readonly labelSelector?: string;
}

interface ContentWatch {
  readonly watcher: WatchGroup;
  /** The sinks that get each event, in this order. */
  readonly sinks: WatchSink[];
  /** The scopes of all callers of the watch. */
  readonly scopes: ContentUse[];
}

/** Longest wait after a refusal by another cluster, ms. */
const REFUSED_WAIT_MS = 30_000;

export class Cluster implements Backend {
  readonly api: KubeApi;
  readonly name: string;
  readonly queueing: TargetQueueing;
  readonly queues = [];
  readonly namespaces = new Namespaces();
  readonly namespaceReads: NamespaceReads;
  /** The only namespaces that are read and written; `undefined`: all. */
  readonly served: ServedNamespaces | undefined;
  readonly reachability: Reachability;
  readonly #options: ClusterOptions;
  readonly #stores = new Map<string, KubeStore>();
  readonly #targets = new Map<string, TargetReconciler>();
  readonly #watches: WatchGroup[] = [];
  /** The watches of whole objects, by path and selector. */
  readonly #contentWatches = new Map<string, ContentWatch>();
  /** Watches of the stores that `synced` waits for. */
  readonly #wide: WatchGroup[] = [];
  #watchesNamespaces = false;
  #isListed = false;

  constructor(options: ClusterOptions) {
    const { clock, concurrency, engine, isHome, served } = options;
    const api = served?.selector === undefined ? options.api : fenced(options.api, (path) => served.refusal(path));
    this.api = api;
    this.name = api.cluster;
    this.served = served;
    this.namespaceReads = new NamespaceReads(this);
    this.#options = { ...options, api };
    this.reachability = new Reachability({
      cluster: this.name,
      clock,
      watches: () => this.watches,
      retry: (target) => engine.retryTarget(target),
      report: (target, wait) => this.targetsOf(target).report(target, wait),
    });
    served?.onChange((namespace, isServed) => {
      if (isServed) engine.rulesReturned(namespace);
    });
    this.queueing = {
      name: isHome ? 'targets' : `targets ${this.name}`,
      concurrency,
      laneOf: undefined,
      // In another cluster all copies of a tenant are in one namespace, so the namespaces of the rules take turns.
      shareBy: isHome ? 'target' : 'rule',
      retryAfterMs: () => undefined,
      // An administrator of the other cluster may give the permission at any time.
      longestWaitMs: (error) =>
        !isHome && (isForbidden(error) || isUnauthorized(error)) ? REFUSED_WAIT_MS : undefined,
    };
  }

  /** Also settles when another cluster turns out to be unreachable: runs of its targets then report this. */
  async ready(): Promise<void> {
    const listed = this.synced().then(() => this.reachability.listed());
    await (this.#options.isHome ? listed : Promise.race([listed, this.reachability.found()]));
  }

  sourcesOf(source: ObjectKey): KubeStore {
    const name = kindOf(source);
    const kind = this.#options.kinds.find(({ kind }) => kind === name);
    if (kind === undefined) throw new TypeError(`not a kind that is copied: ${source}`);
    return this.store(kind);
  }

  targetsOf(target: ObjectKey): TargetReconciler {
    return getOrCreate(this.#targets, kindOf(target), () => this.#openTargets(this.sourcesOf(target)));
  }

  #openTargets(store: KubeStore): TargetReconciler {
    const { engine, onWrite, clock, isHome, served } = this.#options;
    return new TargetReconciler({
      store,
      reachability: isHome ? undefined : this.reachability,
      claims: engine.claims,
      sources: engine.backends,
      hasNamespace: (name) => this.hasNamespace(name),
      isServed: (namespace) => served?.has(namespace) !== false,
      orphanActionOf: orphanActions(this.namespaceReads, engine.claims, served, engine.orphanActionOf),
      onOutcome: (...change) => engine.outcomeChanged(...change),
      onWrite,
      now: () => clock.now(),
    });
  }

  /** The store of a kind; created at the first call. */
  store(kind: Kind): KubeStore {
    return getOrCreate(this.#stores, kind.kind, () => this.#openStore(kind));
  }

  #openStore(kind: Kind): KubeStore {
    const { api, engine, isRead, onRollback, served } = this.#options;
    return new KubeStore({
      api,
      kind,
      served,
      onChange: (key, before, after, ...how) => {
        const targets = this.#targets.get(kind.kind);
        if (after === undefined || (before !== undefined && before.uid !== after.uid)) targets?.objectGone(key);
        else if (kind.isCustom === true && before !== undefined && sameButVersion(before, after)) {
          // Only the status or finalizers of a custom resource have changed: no decision depends on them.
          if (targets?.hasOtherContent(key) !== true) return;
        }
        engine.objectChanged(key, before, after, ...how);
      },
      onKnown: (key) => engine.objectKnown(key),
      isRead,
      watcher: this.#watcherOptions({ collection: kind.plural }),
      onLate: (sinceMs) => this.#reopenSilent(kind, sinceMs),
      onRollback,
    });
  }

  /**
   * Opens a watch that stays open until `stop`.
   * @param namespaces one watch is opened for each of them; `undefined`: one watch for the whole target
   */
  watch(
    target: WatchTarget,
    sink: WatchSink,
    options: Pick<WatchGroupOptions, 'diagnosis' | 'isOptional'> = {},
    namespaces?: ServedNamespaces,
  ): WatchGroup {
    if (namespaces?.selector !== undefined) this.#openNamespaces();
    const common = { ...this.#watcherOptions(target), api: this.api };
    const watcher = new WatchGroup({ ...common, ...options, target, sink }, namespaces).start();
    this.#watches.push(watcher);
    return watcher;
  }

  /**
   * Follows all objects of a kind and keeps those that are `isRelevant`, or followed as sources: for controllers whose
   * objects no selector finds. To be called once for each kind.
   */
  watchAll(kind: Kind, isRelevant: (meta: Pick<ObjectMeta, 'annotations'>) => boolean): void {
    this.#wide.push(this.store(kind).watches.watchAll(isRelevant));
  }

  /**
   * Watches whole objects of a kind: all, those of one namespace, or those that a label selects. Their content comes
   * from the events, so they are not read again. Without a selector, an object that the watch does not have does not
   * exist. Controllers that need the same objects share one watch: they must call this before its first list.
   * @param sink also gets the events, after the store of the kind
   */
  watchContents(kind: Kind, scope: ContentScope, sink: WatchSink, diagnosis?: WatchDiagnosis): WatchGroup {
    const { namespace, labelSelector } = scope;
    const all = `${kind.groupPath}/${kind.plural}`;
    const path = namespace === undefined ? all : pathIn(all, namespace);
    const id = `${path}?${labelSelector ?? ''}`;
    const known = this.#contentWatches.get(id);
    if (known !== undefined) {
      known.scopes.push(scope);
      known.sinks.push(sink);
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
    const watcher = this.watch(target, sharedSink(sinks), { diagnosis });
    const scopes: ContentUse[] = [scope];
    this.#contentWatches.set(id, { watcher, sinks, scopes });
    sinks.push(store.contentSink(scopes), sink);
    if (labelSelector === undefined) store.addCompleteWatch({ namespace, isListed: () => watcher.isSynced });
    return watcher;
  }

  /**
   * Opens the watch of namespaces, once for all callers, and calls the handler for every change from now on. If a label
   * selects the served namespaces, the others count as missing. If a list names them, they count as existing, because a
   * Role cannot give the right to read namespaces.
   */
  watchNamespaces(onChange: OnNamespace): void {
    this.namespaces.onChange(onChange);
    this.#openNamespaces();
  }

  #openNamespaces(): void {
    if (this.#watchesNamespaces) return;
    this.#watchesNamespaces = true;
    const { served, namespaces } = this;
    const { selector } = served ?? {};
    if (served !== undefined && selector === undefined) {
      for (const name of served.names) namespaces.assume(name);
      return;
    }
    const target = { collection: 'namespaces', path: '/api/v1/namespaces', metadataOnly: true };
    const selected = selector === undefined ? target : { ...target, labelSelector: selector };
    this.watch(selected, served?.sinkBefore(namespaces.sink) ?? namespaces.sink);
  }

  /** Whether a namespace exists and is not being deleted. Without a watch of namespaces `true`: the server decides. */
  hasNamespace(name: string): boolean {
    return !this.#watchesNamespaces || this.namespaces.has(name);
  }

  /** Settles when every watch opened so far is listed, or the cause of its failure is found. */
  async synced(): Promise<void> {
    await Promise.all([...this.#watches, ...this.#wide].map(async (watcher) => await watcher.settled));
    this.#isListed = true;
  }

  /** Whether `synced` has settled once. */
  get isListed(): boolean {
    return this.#isListed;
  }

  get watches(): readonly WatchHealth[] {
    const stores = Array.from(this.#stores.values(), ({ watches }) => watches);
    return [...this.#watches, ...stores].flatMap(({ health }) => health);
  }

  /** Size of the contents in the caches of the stores, bytes. */
  get cachedBytes(): number {
    return [...this.#stores.values()].reduce((sum, store) => sum + store.cachedBytes, 0);
  }

  async stop(): Promise<void> {
    this.reachability.stop();
    this.served?.stop();
    await Promise.all([...this.#watches, ...this.#stores.values()].map(async (part) => await part.stop()));
  }

  /** Reopens the watches of the kind that were silent since writes that no watch has confirmed: they may be dead. */
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

/** Passes each event on to all sinks. The watcher remembers the keys of all objects. */
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
