/**
 * Follows single objects by name, wherever they are: sources, and what stands in the way of a copy.
 *
 * While they are few, each has a watch of its own (a field selector), and nothing else is read. Above `singlesLimit` one
 * metadata-only watch of the whole collection takes over, of which only the wanted objects are kept. All of these are one
 * feed of the index, so that an object can pass from one watch to another:
 * - an object is *known* once a list that was begun after it was wanted is complete, or it was looked up since;
 * - `watchAll` opens the wide watch for good, for a system whose objects the server cannot select: what `isRelevant` to it is kept
 *   besides what is wanted.
 *
 * Where the wide watch is open, a newly wanted object is looked up by one GET, because the watch may have passed it over; every later
 * event of it arrives through the wide watch, and older ones are refused by the index:
 *
 *   wanted ──wide watch listed──▶ looking up ──answer──▶ known
 *                                    ▲ │ the wide watch brings its deletion meanwhile: the answer may be older than that
 *                                    └─┘
 */
import { type KubeApi, type KubeObject, METADATA_ONLY, type ObjectMeta } from '../../kube/api.ts';
import { isObjectGone, retryAfterMs } from '../../kube/errors.ts';
import { parseJson } from '../../kube/json.ts';
import { sleep } from '../../runtime/abort.ts';
import { Backoff, RECONNECT } from '../../runtime/backoff.ts';
import { Watcher, type WatchHealth, type WatcherOptions } from '../../kube/watch/watcher.ts';
import type { Kind } from '../model/kind.ts';
import type { ObjectFeed, ObjectIndex } from './object-index.ts';
import { parseResourceKey, type ResourceKey } from '../model/keys.ts';

export interface ObjectWatchesOptions {
  readonly api: KubeApi;
  readonly kind: Kind;
  readonly index: ObjectIndex;
  /** Most watches of single objects. One costs about 200 KiB of memory. Default 40. */
  readonly singlesLimit?: number;
  readonly watcher?:
    | Pick<WatcherOptions, 'clock' | 'random' | 'reconnect' | 'idleLimitMs' | 'onTrouble' | 'onRollback'>
    | undefined;
  /** Something is now known to be there or not, that was unknown. */
  readonly onKnown: (key: ResourceKey) => void;
}

export class ObjectWatches {
  readonly #options: ObjectWatchesOptions;
  readonly #limit: number;
  readonly #feed: ObjectFeed;
  readonly #wanted = new Map<ResourceKey, number>();
  /** Wanted since the event loop last came round. */
  readonly #wantedNow = new Set<ResourceKey>();
  readonly #known = new Set<ResourceKey>();
  readonly #singles = new Map<ResourceKey, Watcher>();
  readonly #closing = new Set<Promise<void>>();
  /** Objects whose look-up is under way. `stale`: what it answers may be overtaken. */
  readonly #lookUps = new Map<ResourceKey, { stale: boolean }>();
  readonly #stop = new AbortController();
  #isRelevant: ((meta: Pick<ObjectMeta, 'annotations'>) => boolean) | undefined;
  #wide: Watcher | undefined;
  #stopped = false;

  constructor(options: ObjectWatchesOptions) {
    this.#options = options;
    this.#limit = options.singlesLimit ?? 40;
    this.#feed = options.index.feed((meta) => this.#accepts(meta));
  }

  /**
   * From now on one watch follows the whole collection and keeps, besides what is wanted, what `isRelevant`. To be called before
   * anything is wanted.
   */
  watchAll(isRelevant: (meta: Pick<ObjectMeta, 'annotations'>) => boolean): Watcher {
    this.#isRelevant = isRelevant;
    return this.#openWideWatch();
  }

  /** Follows an object from now on. Counts: as many `unwant` calls end it. */
  want(key: ResourceKey): void {
    const users = this.#wanted.get(key) ?? 0;
    this.#wanted.set(key, users + 1);
    if (users > 0 || this.#stopped) return;
    if (this.#wide === undefined && this.#wanted.size > this.#limit) this.#openWideWatch();
    if (this.#wide === undefined) this.#followSoon(key);
    else if (this.#wide.isListed) this.#lookUp(key);
  }

  unwant(key: ResourceKey): void {
    const users = this.#wanted.get(key) ?? 0;
    if (users > 1) {
      this.#wanted.set(key, users - 1);
      return;
    }
    if (!this.#wanted.delete(key)) return;
    this.#known.delete(key);
    this.#closeSingle(key);
    const { namespace, name } = parseResourceKey(key);
    if (this.#isRelevant !== undefined) {
      const record = this.#options.index.get(namespace, name);
      if (record === undefined || !this.#isRelevant(record)) this.#feed.withdraw(namespace, name);
      return;
    }
    this.#feed.withdraw(namespace, name);
    if (this.#wide !== undefined && this.#wanted.size < this.#limit / 2) this.#closeWideWatch();
  }

  /** Whether "not in the index" means that the object is not there. */
  isKnown(key: ResourceKey): boolean {
    return this.#known.has(key);
  }

  get health(): readonly WatchHealth[] {
    const watchers = [...this.#singles.values()];
    if (this.#wide !== undefined) watchers.push(this.#wide);
    return watchers.map((watcher) => watcher.health);
  }

  /** Opens those watches again that have brought nothing for so long (ms). */
  reopenSilent(silentMs: number): void {
    for (const watcher of this.#singles.values()) watcher.reopenIfSilent(silentMs);
    this.#wide?.reopenIfSilent(silentMs);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#stop.abort();
    for (const key of this.#singles.keys()) this.#closeSingle(key);
    if (this.#wide !== undefined) this.#close(this.#wide);
    await Promise.all(this.#closing);
  }

  /** Not at once: many may be wanted in one go, and be too many for watches of their own. */
  #followSoon(key: ResourceKey): void {
    if (this.#wantedNow.size === 0) {
      setImmediate(() => {
        const keys = [...this.#wantedNow];
        this.#wantedNow.clear();
        if (this.#stopped || this.#wide !== undefined) return;
        for (const one of keys) if (this.#wanted.has(one) && !this.#singles.has(one)) this.#followSingle(one);
      });
    }
    this.#wantedNow.add(key);
  }

  #followSingle(key: ResourceKey): void {
    const { api, kind, watcher } = this.#options;
    const { namespace, name } = parseResourceKey(key);
    const { sink } = this.#feed;
    const single = new Watcher({
      ...watcher,
      api,
      target: {
        name: `${kind.plural}/${namespace}/${name}`,
        path: `${kind.groupPath}/namespaces/${namespace}/${kind.plural}`,
        fieldSelector: `metadata.name=${name}`,
        metadataOnly: true,
      },
      sink: {
        ...sink,
        prune: (keys, resourceVersion) => {
          this.#feed.listed(keys, resourceVersion);
          if (!keys.has(`${namespace}/${name}`)) this.#feed.withdraw(namespace, name, resourceVersion);
          this.#becomeKnown(key);
        },
      },
    });
    this.#singles.set(key, single);
    single.start();
  }

  #becomeKnown(key: ResourceKey): void {
    if (!this.#wanted.has(key)) return;
    const news = !this.#known.has(key);
    this.#known.add(key);
    if (this.#wide?.health.synced === true) this.#closeSingle(key);
    if (news) this.#options.onKnown(key);
  }

  #accepts(meta: ObjectMeta): boolean {
    if (this.#wanted.has(this.#keyOf(meta))) return true;
    if (this.#isRelevant === undefined) return false;
    // What the index holds for whatever reason must not grow old in it.
    return this.#isRelevant(meta) || this.#options.index.get(meta.namespace ?? '', meta.name) !== undefined;
  }

  #keyOf({ namespace = '', name }: Pick<ObjectMeta, 'namespace' | 'name'>): ResourceKey {
    const { index, kind } = this.#options;
    return `${index.cluster}:${kind.kind}/${namespace}/${name}`;
  }

  /** Learns once what the wide watch has passed over. What it has not passed over is known. */
  #lookUp(key: ResourceKey): void {
    const { index } = this.#options;
    const { namespace, name } = parseResourceKey(key);
    if (index.get(namespace, name) !== undefined) {
      this.#becomeKnown(key);
      return;
    }
    const running = this.#lookUps.get(key);
    if (running !== undefined) {
      // Begun when it was wanted before; what happened to it in between was passed over.
      running.stale = true;
      return;
    }
    const lookUp = { stale: false };
    this.#lookUps.set(key, lookUp);
    const asking = this.#askUntilAnswered(key, lookUp)
      .catch((error: unknown) => {
        if (!this.#stop.signal.aborted) throw error;
      })
      .finally(() => this.#closing.delete(asking));
    this.#closing.add(asking);
  }

  async #askUntilAnswered(key: ResourceKey, lookUp: { stale: boolean }): Promise<void> {
    const backoff = new Backoff({ ...RECONNECT, ...this.#options.watcher?.reconnect });
    try {
      for (;;) {
        lookUp.stale = false;
        try {
          const object = await this.#get(key);
          // Gone narrow meanwhile: a single watch tells. Or a list is under way: when it is complete this will be asked again.
          if (this.#wide?.isListed !== true) return;
          if (lookUp.stale) continue;
          if (object !== undefined) this.#feed.sink.upsert(object, false);
          this.#becomeKnown(key);
          return;
        } catch (error) {
          this.#stop.signal.throwIfAborted();
          const retryInMs = backoff.next(retryAfterMs(error));
          this.#options.watcher?.onTrouble?.(error, retryInMs);
          await sleep(retryInMs, this.#stop.signal);
        }
      }
    } finally {
      // Not later: whoever wants it from here on has to ask.
      this.#lookUps.delete(key);
    }
  }

  async #get(key: ResourceKey): Promise<KubeObject | undefined> {
    const { api, kind } = this.#options;
    const { namespace, name } = parseResourceKey(key);
    const path = `${kind.groupPath}/namespaces/${namespace}/${kind.plural}/${name}`;
    try {
      const { body } = await api.request({ method: 'GET', path, accept: METADATA_ONLY, signal: this.#stop.signal });
      return parseJson(body, `the answer to GET ${path}`) as KubeObject;
    } catch (error) {
      if (isObjectGone(error, name)) return undefined;
      throw error;
    }
  }

  #openWideWatch(): Watcher {
    const { api, kind, watcher } = this.#options;
    const { sink } = this.#feed;
    this.#wide = new Watcher({
      ...watcher,
      api,
      target: {
        name: `${kind.plural}/all`,
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
        prune: (keys, resourceVersion) => {
          for (const lookUp of this.#lookUps.values()) lookUp.stale = true;
          sink.prune(keys, resourceVersion);
          this.#knowAll();
          // What a single watch still lists is let go when it knows (`#becomeKnown`).
          for (const key of this.#singles.keys()) if (this.#known.has(key)) this.#closeSingle(key);
        },
      },
    }).start();
    return this.#wide;
  }

  /** A list of everything is complete: what was wanted when it was begun was not passed over. */
  #knowAll(): void {
    for (const key of this.#wanted.keys()) if (!this.#known.has(key)) this.#lookUp(key);
  }

  #closeWideWatch(): void {
    if (this.#wide !== undefined) this.#close(this.#wide);
    this.#wide = undefined;
    for (const key of this.#wanted.keys()) if (!this.#singles.has(key)) this.#followSingle(key);
  }

  #closeSingle(key: ResourceKey): void {
    const single = this.#singles.get(key);
    this.#singles.delete(key);
    if (single !== undefined) this.#close(single);
  }

  #close(watcher: Watcher): void {
    const closing = watcher.stop().finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }
}
