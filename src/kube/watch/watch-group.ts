/**
 * The watches of one collection: one for the whole cluster, or one for each namespace that the process serves. They share a sink. The list of
 * one namespace says nothing about the objects of the others, so `prune` gets its namespace.
 */
import { Watcher, type WatcherOptions, type WatchHealth } from './watcher.ts';
import type { WatchTarget } from './watch-target.ts';

interface Member {
  /** `undefined`: all. */
  readonly namespace: string | undefined;
  readonly watcher: Watcher;
}

export class WatchGroup {
  readonly #members: readonly Member[];

  /** @param namespaces `undefined`: the target is watched as it is */
  constructor({ target, ...options }: WatcherOptions, namespaces: readonly string[] | undefined) {
    this.#members = (namespaces ?? [undefined]).map((namespace) => {
      const own = namespace === undefined ? target : targetIn(target, namespace);
      return { namespace, watcher: new Watcher({ ...options, target: own }) };
    });
  }

  start(): this {
    for (const { watcher } of this.#members) watcher.start();
    return this;
  }

  /** Settles when every first list is complete; rejects when the group is stopped before. */
  get synced(): Promise<void> {
    const [first, ...others] = this.#members.map(({ watcher }) => watcher.synced);
    if (first === undefined) return Promise.resolve();
    return others.length === 0 ? first : Promise.all([first, ...others]).then(() => undefined);
  }

  /** Every first list has been complete. */
  get isSynced(): boolean {
    return this.#members.every(({ watcher }) => watcher.health.synced);
  }

  /** The first list of the watch that covers a namespace has been complete. */
  isSyncedIn(namespace: string): boolean {
    return this.#covering(namespace)?.health.synced === true;
  }

  /** @see Watcher.isListed */
  isListedIn(namespace: string): boolean {
    return this.#covering(namespace)?.isListed === true;
  }

  get health(): readonly WatchHealth[] {
    return this.#members.map(({ watcher }) => watcher.health);
  }

  /** @see Watcher.reopenIfSilent */
  reopenIfSilent(silentMs: number): void {
    for (const { watcher } of this.#members) watcher.reopenIfSilent(silentMs);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#members.map(async ({ watcher }) => await watcher.stop()));
  }

  #covering(namespace: string): Watcher | undefined {
    return this.#members.find((member) => member.namespace === undefined || member.namespace === namespace)?.watcher;
  }
}

/** The same collection in one namespace. The path of a target may change, so it is not copied. */
function targetIn(target: WatchTarget, namespace: string): WatchTarget {
  return {
    ...target,
    scope: target.scope === undefined ? namespace : `${target.scope}/${namespace}`,
    namespace,
    get path() {
      return pathIn(target.path, namespace);
    },
  };
}

/** `/api/v1/secrets` in one namespace: `/api/v1/namespaces/team-a/secrets`. */
export function pathIn(path: string, namespace: string): string {
  const at = path.lastIndexOf('/');
  return `${path.slice(0, at)}/namespaces/${encodeURIComponent(namespace)}${path.slice(at)}`;
}
