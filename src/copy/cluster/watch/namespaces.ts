/** The namespaces of one cluster. A namespace that is being deleted counts as absent, because nothing can be created in it. */
import type { KubeObject } from '../../../kube/api.ts';
import type { WatchSink } from '../../../kube/watch/watcher.ts';

/** A namespace was created (perhaps again under its name), or its deletion began. `initial`: it comes from a list. */
export type OnNamespace = (name: string, there: boolean, initial: boolean) => void;

export class Namespaces {
  readonly #uids = new Map<string, string>();
  readonly #handlers: OnNamespace[] = [];

  /** Calls the handler for every change from now on. */
  onChange(handler: OnNamespace): void {
    this.#handlers.push(handler);
  }

  get size(): number {
    return this.#uids.size;
  }

  has(name: string): boolean {
    return this.#uids.has(name);
  }

  names(): Iterable<string> {
    return this.#uids.keys();
  }

  /** For a watch of the namespaces' metadata. */
  readonly sink: WatchSink = {
    upsert: ({ metadata }: KubeObject, initial) => {
      if (metadata.deletionTimestamp !== undefined) this.#drop(metadata.name);
      else if (this.#uids.get(metadata.name) !== metadata.uid) {
        this.#uids.set(metadata.name, metadata.uid);
        this.#changed(metadata.name, true, initial);
      }
      return true;
    },
    remove: ({ metadata }) => {
      this.#drop(metadata.name);
    },
    prune: (keys) => {
      for (const name of this.#uids.keys()) if (!keys.has(name)) this.#drop(name);
    },
  };

  #drop(name: string): void {
    if (this.#uids.delete(name)) this.#changed(name, false, false);
  }

  #changed(...change: Parameters<OnNamespace>): void {
    for (const handler of this.#handlers) handler(...change);
  }
}
