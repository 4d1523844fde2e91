/** Joins the watches of several namespaces: the list of one says nothing about the objects of the others. */
import type { WatchSink } from '../../kube/watch/watcher.ts';

export class NamespacedSinks {
  readonly #sink: WatchSink;
  /** The keys that the sink keeps, by namespace. */
  readonly #kept = new Map<string, Set<string>>();

  constructor(sink: WatchSink) {
    this.#sink = sink;
  }

  /** For the watch of one namespace. */
  of(namespace: string): WatchSink {
    const sink = this.#sink;
    const keyOf = (name: string): string => `${namespace}/${name}`;
    let kept = new Set<string>();
    this.#kept.set(namespace, kept);
    return {
      upsert: (object, initial) => {
        const isKept = sink.upsert(object, initial);
        kept[isKept ? 'add' : 'delete'](keyOf(object.metadata.name));
        return isKept;
      },
      remove: (object) => {
        kept.delete(keyOf(object.metadata.name));
        sink.remove(object);
      },
      prune: (keys, resourceVersion) => {
        kept = new Set(keys);
        this.#kept.set(namespace, kept);
        sink.prune(new Set([...this.#kept.values()].flatMap((names) => Array.from(names))), resourceVersion);
      },
    };
  }
}
