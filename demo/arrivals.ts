/**
 * Records when a watch receives each version of some objects, for the measurements of the demo. Metadata only.
 */
import type { KubeApi } from '../src/kube/api.ts';
import type { WatchTarget } from '../src/kube/watch/watch-target.ts';
import { Watcher } from '../src/kube/watch/watcher.ts';

interface Arrival {
  /** `performance.now()`. */
  readonly at: number;
  /** `undefined` if the object was deleted. */
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

  /** Settles when the watch is open. */
  get synced(): Promise<void> {
    return this.#watcher.synced;
  }

  /** Time of a version newer than `resourceVersion`, if there is one. */
  newerThan(key: string, resourceVersion = '0'): number | undefined {
    const last = this.#last.get(key);
    if (last?.resourceVersion === undefined) return undefined;
    return Number(last.resourceVersion) > Number(resourceVersion) ? last.at : undefined;
  }

  /** Time of the deletion, if the object does not exist again. */
  deleted(key: string): number | undefined {
    const last = this.#last.get(key);
    return last !== undefined && last.resourceVersion === undefined ? last.at : undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#watcher.stop();
  }
}
