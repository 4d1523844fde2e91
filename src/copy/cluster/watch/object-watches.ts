/**
 * Follows objects by name: sources, and objects of users in the place of a copy.
 *
 * While they are few, each has a single-object watch (with a field selector). Above `singlesLimit` one wide watch takes over: a
 * metadata-only watch of the whole collection, of which only the followed objects are kept. All these watches are one feed of the index,
 * so that an object can move from one watch to another. A Role that forbids the watch of the whole collection keeps single-object watches,
 * however many they are.
 * - An object is *known* when a list or GET that started after `follow` is complete.
 * - Where only some namespaces are served, the wide watch is one for each of them, and objects of other namespaces are refused without a request. A
 *   namespace that is served later, or no longer, changes that for the objects in it.
 * - `watchAll` opens the wide watch permanently, for a controller whose objects the server cannot select. Objects that are relevant for
 *   it are kept besides the followed ones.
 *
 * While the wide watch is open, a newly followed object needs one GET, because the watch may have skipped it. Every later event arrives through
 * the wide watch, and the index refuses older versions:
 *
 *   followed ──wide watch listed──▶ looking up ──response──▶ known
 *                                      ▲ │ the wide watch reports its deletion: the response may be older
 *                                      └─┘
 */
import { type KubeApi, METADATA_ONLY, type ObjectMeta } from '../../../kube/api.ts';
import { isForbidden, retryAfterMs } from '../../../kube/errors.ts';
import { sleep } from '../../../runtime/abort.ts';
import { Backoff, RECONNECT } from '../../../runtime/queue/backoff.ts';
import type { ServedNamespaces } from '../../../kube/watch/served-namespaces.ts';
import { WatchGroup, type WatchGroupOptions } from '../../../kube/watch/watch-group.ts';
import { Watcher } from '../../../kube/watch/watcher.ts';
import type { BackendWatch } from '../../engine/backend.ts';
import { collectionPath, type Kind } from '../../model/kind.ts';
import { getObject } from '../objects/get-object.ts';
import type { ObjectFeed, ObjectIndex } from '../objects/object-index.ts';
import { parseResourceKey, resourceKey, type ObjectKey } from '../../model/keys.ts';

export interface ObjectWatchesOptions {
  readonly api: KubeApi;
  readonly kind: Kind;
  readonly index: ObjectIndex;
  /** The only namespaces whose objects are read; `undefined`: all. */
  readonly served?: ServedNamespaces | undefined;
  /** Most single-object watches. Each takes about 200 KiB of memory. Default 40. */
  readonly singlesLimit?: number;
  readonly watcher?:
    | Pick<WatchGroupOptions, 'clock' | 'random' | 'reconnect' | 'idleLimitMs' | 'onTrouble' | 'onRollback'>
    | undefined;
  /** An object is now known to exist or not, or the server refuses to say (`refusalOf`). */
  readonly onKnown: (key: ObjectKey) => void;
}

export class ObjectWatches {
  readonly #options: ObjectWatchesOptions;
  readonly #limit: number;
  readonly #feed: ObjectFeed;
  readonly #followed = new Map<ObjectKey, number>();
  /** Followed since this turn of the event loop. */
  readonly #followedNow = new Set<ObjectKey>();
  readonly #known = new Set<ObjectKey>();
  /**
   * Why objects are not known: they are in a namespace that is not served, or the words of the server. Only its first words, because it refuses list
   * and watch in turns, each in other words.
   */
  readonly #refusals = new Map<ObjectKey, string>();
  readonly #singles = new Map<ObjectKey, Watcher>();
  /** Work that a stop waits for. */
  readonly #running = new Set<Promise<void>>();
  /** GETs under way. `stale`: the response may be out of date. */
  readonly #lookUps = new Map<ObjectKey, { stale: boolean }>();
  readonly #stop = new AbortController();
  /** The server refused the watch of the whole collection. */
  #isWideForbidden = false;
  #isRelevant: ((meta: Pick<ObjectMeta, 'annotations'>) => boolean) | undefined;
  #wide: WatchGroup | undefined;
  #stopped = false;

  constructor(options: ObjectWatchesOptions) {
    this.#options = options;
    this.#limit = options.singlesLimit ?? 40;
    this.#feed = options.index.feed((meta) => this.#accepts(meta));
    options.served?.onChange((namespace) => {
      const keys = [...this.#followed.keys()].filter((key) => isIn(key, namespace));
      for (const key of keys) this.#forget(key);
      for (const key of keys) this.#begin(key);
    });
  }

  /** Opens the wide watch, which also keeps objects that `isRelevant`. Must be called before the first `follow`. */
  watchAll(isRelevant: (meta: Pick<ObjectMeta, 'annotations'>) => boolean): WatchGroup {
    this.#isRelevant = isRelevant;
    return this.#openWideWatch();
  }

  /** Follows an object until `unfollow` was called as often as `follow`. */
  follow(key: ObjectKey): void {
    const users = this.#followed.get(key) ?? 0;
    this.#followed.set(key, users + 1);
    if (users === 0) this.#begin(key);
  }

  /** Learns of a followed object. */
  #begin(key: ObjectKey): void {
    if (this.#stopped) return;
    const { namespace } = parseResourceKey(key);
    const { served } = this.#options;
    if (served !== undefined && !this.#isServed(key)) {
      this.#refuse(key, `the namespace ${namespace} is not one of those that Keyferry serves (${served.flag})`);
      return;
    }
    const isMany = this.#followed.size > this.#limit && !this.#isWideForbidden;
    if (this.#wide === undefined && isMany) this.#openWideWatch();
    if (this.#wide === undefined) this.#openSingleSoon(key);
    else if (this.#wide.isListedIn(namespace)) this.#lookUp(key);
  }

  unfollow(key: ObjectKey): void {
    const users = this.#followed.get(key) ?? 0;
    if (users > 1) {
      this.#followed.set(key, users - 1);
      return;
    }
    if (!this.#followed.delete(key)) return;
    this.#forget(key);
    if (this.#isRelevant === undefined && this.#followed.size < this.#limit / 2) this.#closeWideWatch();
  }

  #forget(key: ObjectKey): void {
    this.#known.delete(key);
    this.#refusals.delete(key);
    this.#closeSingle(key);
    const { namespace, name } = parseResourceKey(key);
    const record = this.#options.index.find(key);
    const isKept = record !== undefined && this.#isRelevant?.(record) === true;
    if (!isKept) this.#feed.withdraw(namespace, name);
  }

  /** Whether an object that is not in the index does not exist. */
  isKnown(key: ObjectKey): boolean {
    return this.#known.has(key);
  }

  /** Why the process may not know the object, in words for its author; `undefined`: it may. */
  refusalOf(key: ObjectKey): string | undefined {
    return this.#refusals.get(key);
  }

  get health(): readonly BackendWatch[] {
    const singles = Array.from(this.#singles, ([key, { health }]): BackendWatch => {
      // Any author can name an object that the process may not read. It concerns only the rules that do, and they report it.
      if (health.connected || !this.#refusals.has(key)) return health;
      return { ...health, advice: `${health.name}: no permission to watch it`, isExcused: true };
    });
    return this.#wide === undefined ? singles : [...singles, ...this.#wide.health];
  }

  /** Opens watches without events for `silentMs` again. */
  reopenSilent(silentMs: number): void {
    for (const watcher of this.#singles.values()) watcher.reopenIfSilent(silentMs);
    this.#wide?.reopenIfSilent(silentMs);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#stop.abort();
    for (const key of this.#singles.keys()) this.#closeSingle(key);
    if (this.#wide !== undefined) this.#close(this.#wide);
    await Promise.all(this.#running);
  }

  /** Later, because many objects may be followed at once: too many for single-object watches. */
  #openSingleSoon(key: ObjectKey): void {
    if (this.#followedNow.size === 0) {
      setImmediate(() => {
        const keys = [...this.#followedNow];
        this.#followedNow.clear();
        if (this.#stopped || this.#wide !== undefined) return;
        const isDue = (one: ObjectKey): boolean => this.#followed.has(one) && !this.#singles.has(one);
        for (const one of keys) if (isDue(one) && this.#isServed(one)) this.#openSingle(one);
      });
    }
    this.#followedNow.add(key);
  }

  #openSingle(key: ObjectKey): void {
    const { api, kind, watcher } = this.#options;
    const { namespace, name } = parseResourceKey(key);
    const { sink } = this.#feed;
    const single = new Watcher({
      ...watcher,
      onTrouble: (error, retryInMs) => {
        watcher?.onTrouble?.(error, retryInMs);
        this.#noteRefusal(key, error);
      },
      api,
      target: {
        collection: kind.plural,
        scope: `${namespace}/${name}`,
        path: collectionPath(kind, key),
        fieldSelector: `metadata.name=${name}`,
        metadataOnly: true,
      },
      sink: {
        ...sink,
        prune: (keys, resourceVersion) => {
          this.#feed.listed(keys, resourceVersion);
          if (!keys.has(`${namespace}/${name}`)) this.#feed.withdraw(namespace, name, resourceVersion);
          this.#markKnown(key);
        },
      },
    });
    this.#singles.set(key, single);
    single.start();
  }

  #markKnown(key: ObjectKey): void {
    if (!this.#followed.has(key)) return;
    const isNew = !this.#known.has(key);
    this.#known.add(key);
    this.#refusals.delete(key);
    if (this.#wide?.isSyncedIn(parseResourceKey(key).namespace) === true) this.#closeSingle(key);
    if (isNew) this.#options.onKnown(key);
  }

  #noteRefusal(key: ObjectKey, error: unknown): void {
    if (!isForbidden(error) || !this.#followed.has(key) || this.#known.has(key) || this.#refusals.has(key)) return;
    this.#refuse(key, error.statusMessage);
  }

  #refuse(key: ObjectKey, why: string): void {
    this.#refusals.set(key, why);
    this.#options.onKnown(key);
  }

  #accepts(meta: ObjectMeta): boolean {
    if (this.#followed.has(this.#keyOf(meta))) return true;
    if (this.#isRelevant === undefined) return false;
    // Whatever the index has must stay up to date.
    return this.#isRelevant(meta) || this.#options.index.get(meta.namespace ?? '', meta.name) !== undefined;
  }

  #keyOf({ namespace = '', name }: Pick<ObjectMeta, 'namespace' | 'name'>): ObjectKey {
    const { index, kind } = this.#options;
    return resourceKey(index.cluster, kind.kind, namespace, name);
  }

  #isServed(key: ObjectKey): boolean {
    return this.#options.served?.has(parseResourceKey(key).namespace) !== false;
  }

  /** Gets an object that the wide watch may have skipped. */
  #lookUp(key: ObjectKey): void {
    if (!this.#isServed(key)) return;
    if (this.#options.index.find(key) !== undefined) {
      this.#markKnown(key);
      return;
    }
    const running = this.#lookUps.get(key);
    if (running !== undefined) {
      // That GET belongs to an earlier `follow`. The watch may have skipped events of the object since.
      running.stale = true;
      return;
    }
    const lookUp = { stale: false };
    this.#lookUps.set(key, lookUp);
    const getting = this.#getWithRetries(key, lookUp).catch((error: unknown) => {
      if (!this.#stop.signal.aborted) throw error;
    });
    this.#awaitAtStop(getting);
  }

  async #getWithRetries(key: ObjectKey, lookUp: { stale: boolean }): Promise<void> {
    const { api, kind, watcher } = this.#options;
    const { signal } = this.#stop;
    const backoff = new Backoff({ ...RECONNECT, ...watcher?.reconnect });
    try {
      while (this.#isServed(key)) {
        lookUp.stale = false;
        try {
          const object = await getObject(api, kind, key, { accept: METADATA_ONLY, signal });
          // The wide watch was closed, so a single-object watch follows the object; or it lists again, and looks the object up after that.
          if (this.#wide?.isListedIn(parseResourceKey(key).namespace) !== true) return;
          if (lookUp.stale) continue;
          if (object !== undefined) this.#feed.sink.upsert(object, false);
          this.#markKnown(key);
          return;
        } catch (error) {
          signal.throwIfAborted();
          const retryInMs = backoff.next(retryAfterMs(error));
          watcher?.onTrouble?.(error, retryInMs);
          this.#noteRefusal(key, error);
          await sleep(retryInMs, signal);
        }
      }
    } finally {
      // Not later, because the next `follow` needs another GET.
      this.#lookUps.delete(key);
    }
  }

  #openWideWatch(): WatchGroup {
    const { api, kind, watcher, served } = this.#options;
    const { sink } = this.#feed;
    const options: WatchGroupOptions = {
      ...watcher,
      onTrouble: (error, retryInMs, missing) => {
        watcher?.onTrouble?.(error, retryInMs, missing);
        if (missing !== undefined) {
          for (const key of this.#followed.keys()) if (isIn(key, missing.namespace)) this.#noteRefusal(key, error);
        } else if (isForbidden(error) && this.#isRelevant === undefined) this.#keepSingles();
      },
      api,
      target: {
        collection: kind.plural,
        scope: 'all',
        path: `${kind.groupPath}/${kind.plural}`,
        metadataOnly: true,
        inPages: true,
      },
      sink: {
        ...sink,
        remove: (object) => {
          const lookUp = this.#lookUps.get(this.#keyOf(object.metadata));
          if (lookUp !== undefined) lookUp.stale = true;
          sink.remove(object);
        },
        prune: (keys, resourceVersion, only) => {
          const isListed = (key: ObjectKey): boolean => this.#isServed(key) && isIn(key, only);
          for (const lookUp of this.#lookUps.values()) lookUp.stale = true;
          sink.prune(keys, resourceVersion, only);
          for (const key of this.#followed.keys()) if (!this.#known.has(key) && isListed(key)) this.#lookUp(key);
          // The others are closed when they are known (`#markKnown`).
          for (const key of this.#singles.keys()) if (this.#known.has(key) && isListed(key)) this.#closeSingle(key);
        },
      },
    };
    this.#wide = new WatchGroup(options, served).start();
    return this.#wide;
  }

  #closeWideWatch(): void {
    if (this.#wide === undefined) return;
    this.#close(this.#wide);
    this.#wide = undefined;
    for (const key of this.#followed.keys()) if (!this.#singles.has(key) && this.#isServed(key)) this.#openSingle(key);
  }

  /** Later, because the wide watch is in the call that reports its failure. */
  #keepSingles(): void {
    this.#isWideForbidden = true;
    setImmediate(() => {
      if (!this.#stopped) this.#closeWideWatch();
    });
  }

  #closeSingle(key: ObjectKey): void {
    const single = this.#singles.get(key);
    this.#singles.delete(key);
    if (single !== undefined) this.#close(single);
  }

  #close(watcher: Pick<Watcher, 'stop'>): void {
    this.#awaitAtStop(watcher.stop());
  }

  #awaitAtStop(work: Promise<void>): void {
    const running = work.finally(() => this.#running.delete(running));
    this.#running.add(running);
  }
}

/** @param namespace `undefined`: all */
function isIn(key: ObjectKey, namespace: string | undefined): boolean {
  return namespace === undefined || parseResourceKey(key).namespace === namespace;
}
