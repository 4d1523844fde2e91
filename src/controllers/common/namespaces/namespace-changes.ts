/**
 * Finds the rules that match an added or deleted namespace. It works in slices, because it may try thousands of patterns.
 *
 * State: the namespaces that wait, in the order of their events. While any wait (`isBusy`), no copy may be deleted as an orphan: an
 * object that is already in a new namespace (a restored backup) may be a copy of a rule that is not evaluated yet.
 */
import type { Slices, Steps } from '../../../runtime/queue/slices.ts';
import type { OnNamespace } from '../../../copy/cluster/watch/namespaces.ts';

/** Finds the rules that match a namespace and enqueues them. */
type EnqueueRules = (...change: Parameters<OnNamespace>) => Steps<void>;

export class NamespaceChanges {
  readonly #slices: Slices;
  readonly #enqueueRules: EnqueueRules;
  readonly #waiting: Parameters<OnNamespace>[] = [];
  #busy = false;
  #stopped = false;

  constructor(slices: Slices, enqueueRules: EnqueueRules) {
    this.#slices = slices;
    this.#enqueueRules = enqueueRules;
  }

  /** Some rules are not enqueued yet. */
  get isBusy(): boolean {
    return this.#busy;
  }

  /** If the work takes less than one slice, it is done when this returns. */
  add(...change: Parameters<OnNamespace>): void {
    if (this.#stopped) return;
    this.#waiting.push(change);
    if (!this.#busy) void this.#work();
  }

  stop(): void {
    this.#stopped = true;
    this.#waiting.length = 0;
  }

  async #work(): Promise<void> {
    this.#busy = true;
    try {
      for (let next = 0; next < this.#waiting.length; next += 1) {
        const change = this.#waiting[next];
        if (change !== undefined) await this.#slices.run(this.#enqueueRules(...change));
      }
    } finally {
      this.#waiting.length = 0;
      this.#busy = false;
    }
  }
}
