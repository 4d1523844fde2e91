/**
 * Records when a watch receives each version of some objects, for the measurements of the demo. The watch gets only the
 * metadata.
 */
import type { KubeApi } from '../src/kube/api.ts';
import type { WatchTarget } from '../src/kube/watch/watch-target.ts';
import { Watcher } from '../src/kube/watch/watcher.ts';

interface Arrival {
  /** Time of the watch event, as `performance.now()`. */
  readonly at: number;
  /** Version of the object; `undefined` if the event was its deletion. */
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

  /** Resolves when the watch is open. */
  get synced(): Promise<void> {
    return this.#watcher.synced;
  }

  /**
   * Time when the watch received the latest version of an object; `undefined` if none is newer than `resourceVersion`.
   */
  newerThan(key: string, resourceVersion = '0'): number | undefined {
    const last = this.#last.get(key);
    if (last?.resourceVersion === undefined) return undefined;
    return Number(last.resourceVersion) > Number(resourceVersion) ? last.at : undefined;
  }

  /** Time when the watch received the deletion of an object; `undefined` if the object exists. */
  deleted(key: string): number | undefined {
    const last = this.#last.get(key);
    return last !== undefined && last.resourceVersion === undefined ? last.at : undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#watcher.stop();
  }
}
