/**
 * The watches of one collection: one for the whole cluster, or one for each namespace that the process serves. All pass
 * their events to the same sink. A list of one namespace says nothing about the objects of the others, so `prune` gets
 * the namespace.
 *
 * A missing permission (403) is *excused* in one of several namespaces, and for a watch that only some rules or none
 * need: it is reported and tried again, but nothing waits for this watch. Each watch of the group is excused on its own, but none is
 * if no namespace permits the watch.
 */
import { ApiError, isForbidden, isNotFound, isStorageStarting } from '../errors.ts';
import type { ServedNamespaces } from './served-namespaces.ts';
import { Watcher, type WatcherOptions } from './watcher.ts';
import type { WatchHealth, WatchTarget } from './watch-target.ts';

/** The API of the watched objects, if it comes from a CRD, which may be missing or broken. */
export interface CustomApi {
  /** Tells the user how to install it. Log and readiness have this beside the error of the watch. */
  readonly advice: string;
  /** Whether the process is ready without the API. */
  readonly isOptional: boolean;
  /** Called each time the server does not know the API. */
  readonly onMissing?: () => void;
}

/** Whether a custom API fails: it is not installed (404), or its conversion webhook is gone (500, or 429). */
function isApiFailure(error: unknown): boolean {
  return isNotFound(error) || (error instanceof ApiError && error.status === 500) || isStorageStarting(error);
}

/** The cause of a failed watch, as far as Keyferry knows it. */
export interface KnownCause {
  /** Tells the user how to fix the cause. */
  readonly advice?: string | undefined;
  /** The watch has failed before with the same cause, and may fail again, so one warning is enough. */
  readonly isKnown: boolean;
  /** Set if the missing permission is excused. `namespace`: that of the watch; `undefined`: it has all namespaces. */
  readonly excused?: { readonly namespace: string | undefined };
}

interface Member {
  readonly watcher: Watcher;
  /** Settles when the first list is complete, or when nothing has to wait for it any more. */
  readonly listed: Promise<void>;
  readonly giveUp: () => void;
}

export interface WatchGroupOptions extends Omit<WatcherOptions, 'onTrouble'> {
  /** @see WatcherOptions.onTrouble */
  readonly onTrouble?: (error: unknown, retryInMs: number, cause?: KnownCause) => void;
  readonly custom?: CustomApi | undefined;
  /**
   * `some rules` need the watch, and they themselves report a missing permission. `nobody` needs it: nothing waits for it,
   * and the process is ready without it. Default: the process needs it.
   */
  readonly neededBy?: 'some rules' | 'nobody' | undefined;
}

/** Above every resourceVersion (a 64-bit number), so that answers which arrive later count as older. */
const AFTER_ALL = '9'.repeat(20);

export class WatchGroup {
  readonly #options: WatchGroupOptions;
  readonly #served: ServedNamespaces | undefined;
  /** The watches by namespace; `undefined`: the watch of the whole cluster. */
  readonly #members = new Map<string | undefined, Member>();
  /** Watches that were told to stop and have not stopped yet. */
  readonly #ending = new Set<Promise<void>>();
  readonly #apiFailed = Promise.withResolvers<void>();

  /** @param served the namespaces with a watch each; `undefined`: one watch for all namespaces */
  constructor(options: WatchGroupOptions, served: ServedNamespaces | undefined) {
    this.#options = options;
    this.#served = served;
  }

  start(): this {
    for (const namespace of this.#served?.names ?? [undefined]) this.#open(namespace);
    return this;
  }

  /**
   * Settles when the first list of every watch is complete; a watch with an excused missing permission is not waited
   * for. Rejects if the group is stopped before.
   */
  get synced(): Promise<unknown> {
    return Promise.all(Array.from(this.#members.values(), ({ listed }) => listed));
  }

  /** As `synced`, but settles also when a custom API has failed, for which the start does not wait. */
  get settled(): Promise<unknown> {
    return Promise.race([this.synced, this.#apiFailed.promise]);
  }

  get collection(): string {
    return this.#options.target.collection;
  }

  /** Whether every first list has been complete. */
  get isSynced(): boolean {
    return [...this.#members.values()].every(({ watcher }) => watcher.health.synced);
  }

  /** Whether the watch that covers this namespace has had a complete list. */
  isSyncedIn(namespace: string): boolean {
    return this.#covering(namespace)?.health.synced === true;
  }

  /** As `Watcher.isListed`, for the watch that covers this namespace. */
  isListedIn(namespace: string): boolean {
    return this.#covering(namespace)?.isListed === true;
  }

  get health(): readonly WatchHealth[] {
    const { custom, neededBy } = this.#options;
    const isRefused = ({ connected, cause }: WatchHealth): boolean => !connected && isForbidden(cause);
    const isRefusedEverywhere =
      this.#served !== undefined && [...this.#members.values()].every(({ watcher }) => isRefused(watcher.health));
    return Array.from(this.#members, ([namespace, { watcher }]) => {
      const { health } = watcher;
      const advice = health.connected ? undefined : this.#excuse(health.cause, namespace);
      if (neededBy === 'nobody') return { ...health, advice, isExcused: true };
      if (advice !== undefined) return { ...health, advice, isExcused: !isRefusedEverywhere };
      if (custom === undefined || health.connected || !isApiFailure(health.cause)) return health;
      return { ...health, advice: custom.advice, isExcused: custom.isOptional && isNotFound(health.cause) };
    });
  }

  /** As `Watcher.reopenIfSilent`, for each watch of the group. */
  reopenIfSilent(silentMs: number): void {
    for (const { watcher } of this.#members.values()) watcher.reopenIfSilent(silentMs);
  }

  /** The server belongs to another cluster than before: drops all objects, and lists again. */
  restart(): void {
    const open = [...this.#members.keys()];
    for (const namespace of open) {
      this.#close(namespace);
      this.#open(namespace);
    }
  }

  async stop(): Promise<void> {
    await Promise.all([...Array.from(this.#members.values(), ({ watcher }) => watcher.stop()), ...this.#ending]);
  }

  #open(namespace: string | undefined): void {
    const { target, onTrouble, custom, ...options } = this.#options;
    const given = Promise.withResolvers<void>();
    if (options.neededBy === 'nobody') given.resolve();
    let last: string | undefined;
    const watcher = new Watcher({
      ...options,
      target: namespace === undefined ? target : targetIn(target, namespace),
      onTrouble: (error, retryInMs) => {
        const excuse = this.#excuse(error, namespace);
        const isFailure = excuse === undefined && custom !== undefined && isApiFailure(error);
        const advice = isFailure ? custom.advice : excuse;
        const excused = excuse === undefined ? {} : { excused: { namespace } };
        onTrouble?.(error, retryInMs, { advice, isKnown: advice !== undefined && advice === last, ...excused });
        last = advice;
        if (excuse !== undefined) given.resolve();
        if (isFailure && isNotFound(error)) custom.onMissing?.();
        if (isFailure) this.#apiFailed.resolve();
      },
    });
    const listed = Promise.race([watcher.synced, given.promise]);
    // A stop rejects the promise. If nothing waits for it, this handler avoids an unhandled rejection.
    listed.catch(() => undefined);
    this.#members.set(namespace, { watcher, listed, giveUp: given.resolve });
    watcher.start();
  }

  #close(namespace: string | undefined): void {
    const member = this.#members.get(namespace);
    if (member === undefined) return;
    this.#members.delete(namespace);
    member.giveUp();
    const ending = member.watcher.stop().finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
    this.#options.sink.prune(new Set(), AFTER_ALL, namespace);
  }

  /** @returns how the user can give the missing permission, if it is excused; `undefined`: not excused, not missing */
  #excuse(error: unknown, namespace: string | undefined): string | undefined {
    if (!isForbidden(error)) return undefined;
    const { neededBy, target } = this.#options;
    const { collection } = target;
    if (namespace === undefined || this.#served === undefined)
      return neededBy && `give Keyferry the permission to list and watch ${collection}`;
    return `--namespaces names the namespace ${namespace}, where Keyferry has no permission to watch ${collection}: bind its Role there`;
  }

  #covering(namespace: string): Watcher | undefined {
    return (this.#members.get(undefined) ?? this.#members.get(namespace))?.watcher;
  }
}

/** The same collection in one namespace. The path of a target may change, so it is computed at each use. */
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
