/** Several sinks for the events of one watch. */
import type { WatchSink } from '../../../kube/watch/watcher.ts';

export class SharedSink {
  readonly #sinks: WatchSink[] = [];

  /** A sink gets only the events after this call, so it must be added before the first list. */
  add(sink: WatchSink): void {
    this.#sinks.push(sink);
  }

  /** Passes each event on, in the order in which the sinks were added. Remembers the keys of all objects. */
  readonly sink: WatchSink = {
    upsert: (object, initial) => {
      for (const sink of this.#sinks) sink.upsert(object, initial);
      return true;
    },
    remove: (object) => {
      for (const sink of this.#sinks) sink.remove(object);
    },
    prune: (...list) => {
      for (const sink of this.#sinks) sink.prune(...list);
    },
  };
}
