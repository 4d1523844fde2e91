/**
 * One cluster as the engine sees it: its namespaces, its Secrets, and every watch that is open on it. Controllers add their own
 * watches; all of them together say how fresh the picture is.
 */
import type { KubeApi } from '../kube/api.ts';
import { Watcher, type WatcherOptions, type WatchHealth, type WatchSink, type WatchTarget } from '../kube/watcher.ts';
import type { Kind } from './kind.ts';
import { KubeStore, type KubeStoreOptions } from './kube-store.ts';
import { Namespaces, type OnNamespace } from './namespaces.ts';

export interface ClusterOptions {
  readonly api: KubeApi;
  readonly onNamespace: OnNamespace;
  readonly onObject: KubeStoreOptions['onChange'];
  readonly onKnown: KubeStoreOptions['onKnown'];
  /** A stream broke, or a list had to be repeated. */
  readonly onTrouble: (watch: string, error: unknown, retryInMs: number) => void;
  /** @see WatcherOptions.idleLimitMs */
  readonly idleLimitMs?: number;
}

export class Cluster {
  readonly api: KubeApi;
  readonly namespaces: Namespaces;
  readonly #options: ClusterOptions;
  readonly #stores = new Map<string, KubeStore>();
  readonly #watchers: Watcher[] = [];

  constructor(options: ClusterOptions) {
    this.api = options.api;
    this.#options = options;
    this.namespaces = new Namespaces(options.onNamespace);
  }

  /** The store of one kind, made when it is first asked for. */
  store(kind: Kind): KubeStore {
    let store = this.#stores.get(kind.kind);
    if (store === undefined) {
      const { api, onObject, onKnown } = this.#options;
      store = new KubeStore({ api, kind, onChange: onObject, onKnown, watcher: this.#watcherOptions(kind.plural) });
      this.#stores.set(kind.kind, store);
    }
    return store;
  }

  /** Opens a watch that stays open until `stop`. */
  watch(target: WatchTarget, sink: WatchSink): Watcher {
    const watcher = new Watcher({ ...this.#watcherOptions(target.name), api: this.api, target, sink }).start();
    this.#watchers.push(watcher);
    return watcher;
  }

  /** Watches the namespaces: for controllers that match patterns against them. */
  watchNamespaces(): void {
    this.watch({ name: 'namespaces', path: '/api/v1/namespaces', metadataOnly: true }, this.namespaces.sink);
  }

  /** Settles when every watch opened so far has been listed. */
  async synced(): Promise<void> {
    await Promise.all(this.#watchers.map(async (watcher) => await watcher.synced));
  }

  get health(): readonly WatchHealth[] {
    const focused = [...this.#stores.values()].flatMap((store) => store.focus.health);
    return [...this.#watchers.map((watcher) => watcher.health), ...focused];
  }

  get stores(): Iterable<KubeStore> {
    return this.#stores.values();
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#watchers, ...this.#stores.values()].map(async (part) => await part.stop()));
  }

  #watcherOptions(name: string): Pick<WatcherOptions, 'onTrouble' | 'idleLimitMs'> {
    const { onTrouble, idleLimitMs } = this.#options;
    return {
      onTrouble: (error, retryInMs) => onTrouble(name, error, retryInMs),
      ...(idleLimitMs === undefined ? {} : { idleLimitMs }),
    };
  }
}
