/**
 * Records when changes of some objects arrive in a watch. The demo prints these times. The watch reads only metadata,
 * no values.
 */
import type { KubeApi } from '../src/kube/api.ts';
import type { WatchTarget } from '../src/kube/watch/watch-target.ts';
import { Watcher } from '../src/kube/watch/watcher.ts';

interface Arrival {
  /** Arrival of the watch event, as `performance.now()`, ms. */
  readonly at: number;
  /** The object's resourceVersion; `undefined` if the object was deleted. */
  readonly resourceVersion: string | undefined;
}

export class Arrivals implements AsyncDisposable {
  readonly #last = new Map<string, Arrival>();
  readonly #watcher: Watcher;

  constructor(api: KubeApi, target: Omit<WatchTarget, 'metadataOnly'>) {
    const note = (key: string, resourceVersion: string | undefined): true => {
      this.#last.set(key, { at: performance.now(), resourceVersion });
      return true;
    };
    this.#watcher = new Watcher({
      api,
      target: { ...target, metadataOnly: true },
      sink: {
        upsert: ({ metadata }) => note(`${metadata.namespace ?? ''}/${metadata.name}`, metadata.resourceVersion),
        remove: ({ metadata }) => note(`${metadata.namespace ?? ''}/${metadata.name}`, undefined),
        prune: () => undefined,
      },
    }).start();
  }

  /** Resolves when the watch is open: all later changes are recorded. */
  get synced(): Promise<void> {
    return this.#watcher.synced;
  }

  /** When the latest version of an object arrived; `undefined` if there is no version after `resourceVersion`. */
  newerThan(key: string, resourceVersion = '0'): number | undefined {
    const last = this.#last.get(key);
    if (last?.resourceVersion === undefined) return undefined;
    return Number(last.resourceVersion) > Number(resourceVersion) ? last.at : undefined;
  }

  /** When the deletion of an object arrived; `undefined` if the object was not deleted. */
  deleted(key: string): number | undefined {
    const last = this.#last.get(key);
    return last !== undefined && last.resourceVersion === undefined ? last.at : undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#watcher.stop();
  }
}
