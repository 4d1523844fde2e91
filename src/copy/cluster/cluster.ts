/**
 * One cluster as the engine sees it: its namespaces, its Secrets, and every watch that is open on it. Controllers add their own
 * watches; all of them together say how fresh the picture is.
 */
import type { KubeApi, ObjectMeta } from '../../kube/api.ts';
import type { WatchTarget } from '../../kube/watch/watch-query.ts';
import { Watcher, type WatcherOptions, type WatchHealth, type WatchSink } from '../../kube/watch/watcher.ts';
import type { Kind } from '../model/kind.ts';
import { KubeStore, type KubeStoreOptions } from './store.ts';
import { Namespaces, type OnNamespace } from './namespaces.ts';

export interface ClusterOptions {
  readonly api: KubeApi;
  readonly onNamespace: OnNamespace;
  readonly onObject: KubeStoreOptions['onChange'];
  readonly onKnown: KubeStoreOptions['onKnown'];
  /** @see ObserveOptions.isRead */
  readonly isRead?: (annotation: string) => boolean;
  /** A stream broke, or a list had to be repeated. */
  readonly onTrouble: (watch: string, error: unknown, retryInMs: number) => void;
  /** The server has an older state than it had: what is known is of a time that never was. `what`: which watch or object showed it. */
  readonly onRollback: (what: string) => void;
  /** @see WatcherOptions.idleLimitMs */
  readonly idleLimitMs?: number;
}

export class Cluster {
  readonly api: KubeApi;
  readonly namespaces: Namespaces;
  readonly #options: ClusterOptions;
  readonly #stores = new Map<string, KubeStore>();
  readonly #watchers: Watcher[] = [];
  /** Belong to the stores, but are waited for. */
  readonly #wide: Watcher[] = [];
  #watchesNamespaces = false;

  constructor(options: ClusterOptions) {
    this.api = options.api;
    this.#options = options;
    this.namespaces = new Namespaces(options.onNamespace);
  }

  /** The store of one kind, made when it is first asked for. */
  store(kind: Kind): KubeStore {
    let store = this.#stores.get(kind.kind);
    if (store === undefined) {
      const { api, onObject, onKnown, isRead } = this.#options;
      const made = new KubeStore({
        api,
        kind,
        onChange: onObject,
        onKnown,
        ...(isRead === undefined ? {} : { isRead }),
        watcher: this.#watcherOptions(kind.plural),
        onLate: (sinceMs) => this.#reopenSilent(kind, made, sinceMs),
        onRollback: (key) => this.#options.onRollback(key),
      });
      this.#stores.set(kind.kind, made);
      store = made;
    }
    return store;
  }

  /** Opens a watch that stays open until `stop`. */
  watch(target: WatchTarget, sink: WatchSink): Watcher {
    const watcher = new Watcher({ ...this.#watcherOptions(target.name), api: this.api, target, sink }).start();
    this.#watchers.push(watcher);
    return watcher;
  }

  /**
   * Follows all objects of a kind, keeping of them what `isRelevant` (and what is wanted): for systems whose objects the server cannot
   * select. Once a kind.
   */
  watchAll(kind: Kind, isRelevant: (meta: Pick<ObjectMeta, 'annotations'>) => boolean): void {
    this.#wide.push(this.store(kind).watches.watchAll(isRelevant));
  }

  /** Watches the namespaces: for controllers that match patterns against them. Safe to call by each of them. */
  watchNamespaces(): void {
    if (this.#watchesNamespaces) return;
    this.#watchesNamespaces = true;
    this.watch({ name: 'namespaces', path: '/api/v1/namespaces', metadataOnly: true }, this.namespaces.sink);
  }

  /** Settles when every watch opened so far has been listed. `except`: the name of one that is not waited for. */
  async synced(except?: string): Promise<void> {
    const awaited = [...this.#watchers, ...this.#wide].filter(({ health }) => health.name !== except);
    await Promise.all(awaited.map(async (watcher) => await watcher.synced));
  }

  get health(): readonly WatchHealth[] {
    const watchedByName = [...this.#stores.values()].flatMap((store) => store.watches.health);
    return [...this.#watchers.map((watcher) => watcher.health), ...watchedByName];
  }

  /** Size of the contents in the caches of its stores. */
  get cachedBytes(): number {
    return [...this.#stores.values()].reduce((sum, store) => sum + store.cachedBytes, 0);
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#watchers, ...this.#stores.values()].map(async (part) => await part.stop()));
  }

  /** Our own writes have not come back: whichever watch of the kind has been silent since may be dead. */
  #reopenSilent(kind: Kind, store: KubeStore, sinceMs: number): void {
    for (const watcher of this.#watchers) {
      if (watcher.health.name.split('/')[0] === kind.plural) watcher.reopenIfSilent(sinceMs);
    }
    store.watches.reopenSilent(sinceMs);
  }

  #watcherOptions(name: string): Pick<WatcherOptions, 'onTrouble' | 'onRollback' | 'idleLimitMs'> {
    const { onTrouble, onRollback, idleLimitMs } = this.#options;
    return {
      onTrouble: (error, retryInMs) => onTrouble(name, error, retryInMs),
      onRollback: () => onRollback(`the watch of ${name}`),
      ...(idleLimitMs === undefined ? {} : { idleLimitMs }),
    };
  }
}
