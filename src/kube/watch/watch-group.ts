/**
 * The watches of one collection: one for the whole cluster, or one for each namespace that the process serves. They share a sink. The list of
 * one namespace says nothing about the objects of the others, so `prune` gets its namespace.
 *
 * Where the served namespaces come and go, their watches do, too. The objects of one that is no longer served leave the sink at once, as if its
 * list had none. A namespace whose permissions are missing (403) is reported, tried again, and delays nobody.
 */
import { isForbidden } from '../errors.ts';
import type { ServedNamespaces } from './served-namespaces.ts';
import { Watcher, type WatcherOptions, type WatchHealth } from './watcher.ts';
import type { WatchTarget } from './watch-target.ts';

interface Member {
  readonly watcher: Watcher;
  /** Settles when the first list is complete, or when it is not waited for. */
  readonly listed: Promise<void>;
  readonly giveUp: () => void;
}

export interface WatchGroupOptions extends Omit<WatcherOptions, 'onTrouble'> {
  /** @see WatcherOptions.onTrouble @param missing the permissions do not cover this selected namespace. `isKnown`: they did not before */
  readonly onTrouble?: (error: unknown, retryInMs: number, missing?: MissingRole) => void;
}

type MissingRole = { readonly namespace: string; readonly advice: string; readonly isKnown: boolean };

/** Above every resourceVersion, which are numbers of 64 bits: an answer that is under way is older. */
const AFTER_ALL = '9'.repeat(20);

export class WatchGroup {
  readonly #options: WatchGroupOptions;
  readonly #served: ServedNamespaces | undefined;
  /** By namespace; `undefined`: all. */
  readonly #members = new Map<string | undefined, Member>();
  /** Watches that were closed and have not ended. */
  readonly #ending = new Set<Promise<void>>();
  #unfollow: (() => void) | undefined;
  #synced: Promise<void> | undefined;

  /** @param served `undefined`: the target is watched as it is */
  constructor(options: WatchGroupOptions, served: ServedNamespaces | undefined) {
    this.#options = options;
    this.#served = served;
  }

  start(): this {
    for (const namespace of this.#served?.names ?? [undefined]) this.#open(namespace);
    this.#unfollow = this.#served?.onChange((namespace, isServed) => {
      if (isServed) this.#open(namespace);
      else this.#close(namespace);
    });
    return this;
  }

  /**
   * Settles when every first list is complete; rejects when the group is stopped before. Of namespaces that come and go, those are waited for that
   * are there first and that the permissions cover.
   */
  get synced(): Promise<void> {
    return this.#members.get(undefined)?.watcher.synced ?? (this.#synced ??= this.#sync());
  }

  async #sync(): Promise<void> {
    if (this.#served?.selector !== undefined) await this.#served.listed;
    await Promise.all(Array.from(this.#members.values(), ({ listed }) => listed));
  }

  /** Every first list has been complete. */
  get isSynced(): boolean {
    return [...this.#members.values()].every(({ watcher }) => watcher.health.synced);
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
    return Array.from(this.#members, ([namespace, { watcher }]) => {
      const { health } = watcher;
      const advice = health.connected ? undefined : this.#adviceAfter(health.cause, namespace);
      return advice === undefined ? health : { ...health, advice, isExcused: true };
    });
  }

  /** @see Watcher.reopenIfSilent */
  reopenIfSilent(silentMs: number): void {
    for (const { watcher } of this.#members.values()) watcher.reopenIfSilent(silentMs);
  }

  async stop(): Promise<void> {
    this.#unfollow?.();
    await Promise.all([...Array.from(this.#members.values(), ({ watcher }) => watcher.stop()), ...this.#ending]);
  }

  #open(namespace: string | undefined): void {
    if (this.#members.has(namespace)) return;
    const { target, onTrouble, ...options } = this.#options;
    const given = Promise.withResolvers<void>();
    let isKnown = false;
    const watcher = new Watcher({
      ...options,
      target: namespace === undefined ? target : targetIn(target, namespace),
      isRefusalLasting: this.#served?.selector !== undefined,
      onTrouble: (error, retryInMs) => {
        const advice = this.#adviceAfter(error, namespace);
        if (advice !== undefined) given.resolve();
        onTrouble?.(
          error,
          retryInMs,
          advice === undefined ? undefined : { namespace: namespace ?? '', advice, isKnown },
        );
        isKnown = advice !== undefined;
      },
    });
    const listed = Promise.race([watcher.synced, given.promise]);
    // Who waits for it gets the error of a stop. Perhaps nobody waits.
    listed.catch(() => undefined);
    this.#members.set(namespace, { watcher, listed, giveUp: given.resolve });
    watcher.start();
  }

  #close(namespace: string): void {
    const member = this.#members.get(namespace);
    if (member === undefined) return;
    this.#members.delete(namespace);
    member.giveUp();
    const ending = member.watcher.stop().finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
    this.#options.sink.prune(new Set(), AFTER_ALL, namespace);
  }

  #adviceAfter(error: unknown, namespace: string | undefined): string | undefined {
    if (namespace === undefined || this.#served?.selector === undefined || !isForbidden(error)) return undefined;
    const { collection } = this.#options.target;
    return `--namespace-selector selects the namespace ${namespace}, where Keyferry has no permission to watch ${collection}: bind its ClusterRole there`;
  }

  #covering(namespace: string): Watcher | undefined {
    return (this.#members.get(undefined) ?? this.#members.get(namespace))?.watcher;
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
