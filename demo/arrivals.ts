/**
 * When each version of some objects arrived at somebody who only watches: what the demo measures by. Metadata only.
 */
import type { KubeApi } from '../src/kube/api.ts';
import type { WatchTarget } from '../src/kube/watch/watch-query.ts';
import { Watcher } from '../src/kube/watch/watcher.ts';

interface Arrival {
  /** `performance.now()`. */
  readonly at: number;
  /** `undefined`: it was deleted. */
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

  /** When a version newer than `resourceVersion` was seen; `undefined` if none was. */
  newerThan(key: string, resourceVersion = '0'): number | undefined {
    const last = this.#last.get(key);
    if (last?.resourceVersion === undefined) return undefined;
    return Number(last.resourceVersion) > Number(resourceVersion) ? last.at : undefined;
  }

  /** When its deletion was seen, if it has not come back since. */
  deleted(key: string): number | undefined {
    const last = this.#last.get(key);
    return last !== undefined && last.resourceVersion === undefined ? last.at : undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#watcher.stop();
  }
}
