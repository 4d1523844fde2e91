/**
 * Follows objects by name: sources, and objects of users that have the name of a copy.
 *
 * Up to `SINGLES_LIMIT` objects, each has a single-object watch (with a field selector). For more objects, one wide
 * watch replaces these: it brings the metadata of the whole collection, and only the followed objects are kept. If the
 * permissions forbid it, the single-object watches stay. All are one feed of the index: objects move between watches.
 * - An object is *known* when a list or GET that started after `follow` is complete.
 * - While the wide watch is open, a newly followed object needs one GET, because the watch may have skipped the object.
 *   If the watch reports a deletion during the GET, the response may be older. So the GET is repeated.
 * - If only some namespaces are served, each of them has a wide watch, and objects of other namespaces are refused
 *   without a request.
 * - `watchAll` opens the wide watch permanently, for a controller whose objects no selector of the API finds. Objects
 *   that are relevant for the controller are then kept, too.
 */
import { type KubeApi, METADATA_ONLY, type ObjectMeta } from '../../../kube/api.ts';
import { isForbidden } from '../../../kube/errors.ts';
import { RECONNECT } from '../../../runtime/queue/backoff.ts';
import { KeyedQueue } from '../../../runtime/queue/keyed-queue.ts';
import type { ServedNamespaces } from '../../../kube/watch/served-namespaces.ts';
import { WatchGroup, type WatchGroupOptions } from '../../../kube/watch/watch-group.ts';
import { Watcher } from '../../../kube/watch/watcher.ts';
import type { WatchHealth } from '../../../kube/watch/watch-target.ts';
import { collectionPath, type Kind } from '../../model/kind.ts';
import { getObject } from '../objects/get-object.ts';
import type { ObjectFeed, ObjectIndex } from '../objects/object-index.ts';
import { namespaceOf, parseResourceKey, resourceKey, type ObjectKey } from '../../model/keys.ts';

export interface ObjectWatchesOptions {
  readonly api: KubeApi;
  readonly kind: Kind;
  readonly index: ObjectIndex;
  /** The only namespaces whose objects are read; `undefined`: all. */
  readonly served?: ServedNamespaces | undefined;
  readonly watcher?:
    | Pick<WatchGroupOptions, 'clock' | 'reconnect' | 'idleLimitMs' | 'onTrouble' | 'onRollback'>
    | undefined;
  /** Called when it is known whether an object exists, or that it may not be read (`refusalOf`). */
  readonly onKnown: (key: ObjectKey) => void;
}

/** Maximum number of single-object watches. Each takes about 200 KiB of memory. */
const SINGLES_LIMIT = 40;
/** How many GETs run at the same time. */
const LOOK_UPS = 16;

export class ObjectWatches {
  readonly #options: ObjectWatchesOptions;
  readonly #feed: ObjectFeed;
  readonly #followed = new Map<ObjectKey, number>();
  readonly #known = new Set<ObjectKey>();
  /** Why an object may not be read: its namespace is not served, or the server's first refusal (later texts differ). */
  readonly #refusals = new Map<ObjectKey, string>();
  readonly #singles = new Map<ObjectKey, Watcher>();
  #isOpening = false;
  /** The ends of watches that were closed, but whose requests still run. */
  readonly #running = new Set<Promise<void>>();
  /** GETs of objects that the wide watch may have skipped. */
  readonly #lookUps: KeyedQueue<ObjectKey>;
  /** Objects for which the response to the running GET may be out of date. */
  readonly #outdated = new Set<ObjectKey>();
  #stopped = false;
  /** Whether the server refused the watch of the whole collection. */
  #isWideForbidden = false;
  #isRelevant: ((meta: Pick<ObjectMeta, 'annotations'>) => boolean) | undefined;
  #wide: WatchGroup | undefined;

  constructor(options: ObjectWatchesOptions) {
    this.#options = options;
    this.#feed = options.index.feed((meta) => this.#accepts(meta));
    const { watcher } = options;
    const { baseMs: retryBaseMs, maxMs: retryMaxMs } = { ...RECONNECT, ...watcher?.reconnect };
    this.#lookUps = new KeyedQueue<ObjectKey>({
      name: 'look-ups',
      retryBaseMs,
      retryMaxMs,
      onError: (key, error, retryInMs) => {
        if (retryInMs === undefined) return;
        watcher?.onTrouble?.(error, retryInMs);
        this.#noteRefusal(key, error);
      },
    });
    this.#lookUps.start(async (key, signal) => await this.#get(key, signal), { concurrency: LOOK_UPS });
  }

  /**
   * Opens the wide watch, which also keeps objects that `isRelevant`. Must be called before the first `follow`, and
   * before the first list. Several callers share the watch.
   */
  watchAll(isRelevant: (meta: Pick<ObjectMeta, 'annotations'>) => boolean): WatchGroup {
    const others = this.#isRelevant;
    this.#isRelevant = others === undefined ? isRelevant : (meta) => others(meta) || isRelevant(meta);
    return this.#wide ?? this.#openWideWatch();
  }

  /**
   * Follows an object: by a watch or a GET. If its namespace is not served, the object is refused. For each call,
   * `unfollow` must be called one time: the last call ends the watch.
   */
  follow(key: ObjectKey): void {
    const users = this.#followed.get(key) ?? 0;
    this.#followed.set(key, users + 1);
    if (users > 0 || this.#stopped) return;
    const namespace = namespaceOf(key);
    const { served } = this.#options;
    if (served !== undefined && !this.#isServed(key)) {
      this.#refuse(key, `the namespace ${namespace} is not one of those ${served.which}`);
      return;
    }
    const isMany = this.#followed.size > SINGLES_LIMIT && !this.#isWideForbidden;
    if (this.#wide === undefined && isMany) this.#openWideWatch();
    if (this.#wide === undefined) this.#openSinglesSoon();
    else if (this.#wide.isListedIn(namespace)) this.#lookUp(key);
  }

  unfollow(key: ObjectKey): void {
    const users = (this.#followed.get(key) ?? 0) - 1;
    if (users > 0) this.#followed.set(key, users);
    if (users !== 0) return;
    this.#followed.delete(key);
    this.#known.delete(key);
    this.#refusals.delete(key);
    this.#lookUps.forget(key);
    this.#outdated.delete(key);
    this.#closeSingle(key);
    const { namespace, name } = parseResourceKey(key);
    const record = this.#options.index.find(key);
    if (record === undefined || this.#isRelevant?.(record) !== true) this.#feed.withdraw(namespace, name);
    if (this.#isRelevant === undefined && this.#followed.size < SINGLES_LIMIT / 2) this.#closeWideWatch();
  }

  /** If a followed object is not in the index: whether this shows that it does not exist. */
  isKnown(key: ObjectKey): boolean {
    return this.#known.has(key);
  }

  /** Why Keyferry may not read the object, as text for the author of the rule; `undefined`: no refusal is known. */
  refusalOf(key: ObjectKey): string | undefined {
    return this.#refusals.get(key);
  }

  get health(): readonly WatchHealth[] {
    const singles = Array.from(this.#singles, ([key, { health }]): WatchHealth => {
      // Any author can name an object that Keyferry has no permission to read. So this does not count as a failure of
      // the operator: the rules that name the object report the refusal.
      if (health.connected || !this.#refusals.has(key)) return health;
      return { ...health, advice: `${health.name}: no permission to watch it`, isExcused: true };
    });
    return this.#wide === undefined ? singles : [...singles, ...this.#wide.health];
  }

  /** Opens each watch again that had no event for `silentMs`. */
  reopenSilent(silentMs: number): void {
    for (const watcher of this.#singles.values()) watcher.reopenIfSilent(silentMs);
    this.#wide?.reopenIfSilent(silentMs);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    for (const key of this.#singles.keys()) this.#closeSingle(key);
    this.#close(this.#wide);
    await Promise.all([...this.#running, this.#lookUps.stop()]);
  }

  /** Opens the single-object watches after the current event, in which `follow` may be called for too many objects. */
  #openSinglesSoon(): void {
    if (this.#isOpening) return;
    this.#isOpening = true;
    setImmediate(() => {
      this.#isOpening = false;
      this.#openSingles();
    });
  }

  #openSingles(): void {
    if (this.#stopped || this.#wide !== undefined) return;
    for (const key of this.#followed.keys()) if (!this.#singles.has(key) && this.#isServed(key)) this.#openSingle(key);
  }

  #openSingle(key: ObjectKey): void {
    const { api, kind, watcher } = this.#options;
    const { namespace, name } = parseResourceKey(key);
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
        ...this.#feed.sink,
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
    if (this.#wide?.isSyncedIn(namespaceOf(key)) === true) this.#closeSingle(key);
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
    // If another feed has put the object into the index, this watch must keep it up to date, too.
    return this.#isRelevant(meta) || this.#options.index.get(meta.namespace ?? '', meta.name) !== undefined;
  }

  /** @param namespace `undefined`: all */
  #followedIn(namespace: string | undefined): readonly ObjectKey[] {
    return [...this.#followed.keys()].filter((key) => namespace === undefined || namespaceOf(key) === namespace);
  }

  #keyOf({ namespace = '', name }: Pick<ObjectMeta, 'namespace' | 'name'>): ObjectKey {
    const { index, kind } = this.#options;
    return resourceKey(index.cluster, kind.kind, namespace, name);
  }

  #isServed(key: ObjectKey): boolean {
    return this.#options.served?.has(namespaceOf(key)) !== false;
  }

  /** Requests a GET for an object that the wide watch may have skipped, if the index does not have the object. */
  #lookUp(key: ObjectKey): void {
    if (!this.#isServed(key)) return;
    if (this.#options.index.find(key) !== undefined) {
      this.#markKnown(key);
      return;
    }
    // A GET that is already running belongs to an earlier `follow`: later events may have been skipped by the watch.
    this.#outdated.add(key);
    this.#lookUps.add(key);
  }

  async #get(key: ObjectKey, signal: AbortSignal): Promise<void> {
    const { api, kind } = this.#options;
    this.#outdated.delete(key);
    const object = await getObject(api, kind, key, { accept: METADATA_ONLY, signal });
    // Without a listed wide watch the response is not needed. Either a single-object watch follows the object now, or
    // the wide watch lists again, and the object is looked up after this list.
    if (this.#wide?.isListedIn(namespaceOf(key)) !== true) return;
    if (this.#outdated.has(key)) {
      this.#lookUps.add(key);
      return;
    }
    if (object !== undefined) this.#feed.sink.upsert(object);
    this.#markKnown(key);
  }

  #openWideWatch(): WatchGroup {
    const { api, kind, watcher, served } = this.#options;
    const { sink } = this.#feed;
    const options: WatchGroupOptions = {
      ...watcher,
      onTrouble: (error, retryInMs, cause) => {
        watcher?.onTrouble?.(error, retryInMs, cause);
        const { excused } = cause ?? {};
        if (excused !== undefined) {
          for (const key of this.#followedIn(excused.namespace)) this.#noteRefusal(key, error);
        } else if (isForbidden(error) && this.#isRelevant === undefined) this.#keepSingles();
      },
      api,
      target: {
        collection: kind.plural,
        scope: 'all',
        path: `${kind.groupPath}/${kind.plural}`,
        metadataOnly: true,
      },
      sink: {
        ...sink,
        remove: (object) => {
          const key = this.#keyOf(object.metadata);
          if (this.#followed.has(key)) this.#outdated.add(key);
          sink.remove(object);
        },
        prune: (keys, resourceVersion, only) => {
          sink.prune(keys, resourceVersion, only);
          for (const key of this.#followedIn(only)) {
            if (this.#known.has(key)) this.#closeSingle(key);
            else this.#lookUp(key);
          }
        },
      },
    };
    this.#wide = new WatchGroup(options, served).start();
    return this.#wide;
  }

  #closeWideWatch(): void {
    this.#close(this.#wide);
    this.#wide = undefined;
    this.#openSingles();
  }

  /** Closes the wide watch after the current call, because the watch itself makes this call to report its failure. */
  #keepSingles(): void {
    this.#isWideForbidden = true;
    setImmediate(() => {
      if (!this.#stopped) this.#closeWideWatch();
    });
  }

  #closeSingle(key: ObjectKey): void {
    this.#close(this.#singles.get(key));
    this.#singles.delete(key);
  }

  #close(watcher: Pick<Watcher, 'stop'> | undefined): void {
    if (watcher === undefined) return;
    const running = watcher.stop().finally(() => this.#running.delete(running));
    this.#running.add(running);
  }
}
