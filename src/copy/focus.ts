/**
 * Follows single objects by name, wherever they are: sources, and what stands in the way of a copy.
 *
 * While they are few, each has a watch of its own (a field selector), and nothing else is read. Above `singlesLimit` one
 * metadata-only watch of the whole collection takes over, of which only the wanted objects are kept. All of these are one
 * feed of the index, so that an object can pass from one watch to another:
 * - an object is *known* once a list that was begun after it was wanted is complete;
 * - in wide mode a newly wanted object is listed by a single watch first, because the wide watch has passed it over; every later
 *   event of it arrives through the wide watch, and older ones are refused by the index.
 */
import type { KubeApi } from '../kube/api.ts';
import { Watcher, type WatchHealth, type WatcherOptions } from '../kube/watcher.ts';
import type { Kind } from './kind.ts';
import type { ObjectFeed, ObjectIndex } from './object-index.ts';
import { parseHolderKey, type HolderKey } from './keys.ts';

export interface FocusOptions {
  readonly api: KubeApi;
  readonly kind: Kind;
  readonly index: ObjectIndex;
  /** Most watches of single objects. One costs about 200 KiB of memory. Default 40. */
  readonly singlesLimit?: number;
  readonly watcher?: Pick<WatcherOptions, 'clock' | 'random' | 'reconnect' | 'idleLimitMs' | 'onTrouble' | 'onChange'>;
  /** Something is now known to be there or not, that was unknown. */
  readonly onKnown: (key: HolderKey) => void;
}

export class Focus {
  readonly #options: FocusOptions;
  readonly #limit: number;
  readonly #feed: ObjectFeed;
  readonly #wanted = new Map<HolderKey, number>();
  readonly #known = new Set<HolderKey>();
  readonly #singles = new Map<HolderKey, Watcher>();
  readonly #closing = new Set<Promise<void>>();
  #wide: Watcher | undefined;
  #stopped = false;

  constructor(options: FocusOptions) {
    this.#options = options;
    this.#limit = options.singlesLimit ?? 40;
    this.#feed = options.index.feed(({ namespace = '', name }) =>
      this.#wanted.has(`${options.index.cluster}:${options.kind.kind}/${namespace}/${name}`),
    );
  }

  /** Follows an object from now on. Counts: as many `unwant` calls end it. */
  want(key: HolderKey): void {
    const users = this.#wanted.get(key) ?? 0;
    this.#wanted.set(key, users + 1);
    if (users > 0 || this.#stopped) return;
    if (this.#wide === undefined && this.#wanted.size > this.#limit) this.#goWide();
    this.#followSingle(key);
  }

  unwant(key: HolderKey): void {
    const users = this.#wanted.get(key) ?? 0;
    if (users > 1) {
      this.#wanted.set(key, users - 1);
      return;
    }
    if (!this.#wanted.delete(key)) return;
    this.#known.delete(key);
    this.#closeSingle(key);
    const { namespace, name } = parseHolderKey(key);
    this.#feed.withdraw(namespace, name);
    if (this.#wide !== undefined && this.#wanted.size < this.#limit / 2) this.#goNarrow();
  }

  /** Whether "not in the index" means that the object is not there. */
  isKnown(key: HolderKey): boolean {
    return this.#known.has(key);
  }

  get health(): readonly WatchHealth[] {
    const watchers = [...this.#singles.values()];
    if (this.#wide !== undefined) watchers.push(this.#wide);
    return watchers.map((watcher) => watcher.health);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    for (const key of [...this.#singles.keys()]) this.#closeSingle(key);
    if (this.#wide !== undefined) this.#close(this.#wide);
    await Promise.all(this.#closing);
  }

  #followSingle(key: HolderKey): void {
    const { api, kind, watcher } = this.#options;
    const { namespace, name } = parseHolderKey(key);
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
        prune: (keys) => {
          if (!keys.has(`${namespace}/${name}`)) this.#feed.withdraw(namespace, name);
          this.#becomeKnown(key);
        },
      },
    });
    this.#singles.set(key, single);
    single.start();
  }

  #becomeKnown(key: HolderKey): void {
    if (!this.#wanted.has(key)) return;
    const news = !this.#known.has(key);
    this.#known.add(key);
    if (this.#wide?.health.synced === true) this.#closeSingle(key);
    if (news) this.#options.onKnown(key);
  }

  #goWide(): void {
    const { api, kind, watcher } = this.#options;
    const { sink } = this.#feed;
    this.#wide = new Watcher({
      ...watcher,
      api,
      target: { name: `${kind.plural}/all`, path: `${kind.groupPath}/${kind.plural}`, metadataOnly: true },
      sink: {
        ...sink,
        prune: (keys, resourceVersion) => {
          sink.prune(keys, resourceVersion);
          // What was wanted before this list began is covered by it; what came later has a single watch still listing.
          for (const key of this.#singles.keys()) if (this.#known.has(key)) this.#closeSingle(key);
        },
      },
    }).start();
  }

  #goNarrow(): void {
    if (this.#wide !== undefined) this.#close(this.#wide);
    this.#wide = undefined;
    for (const key of this.#wanted.keys()) if (!this.#singles.has(key)) this.#followSingle(key);
  }

  #closeSingle(key: HolderKey): void {
    const single = this.#singles.get(key);
    this.#singles.delete(key);
    if (single !== undefined) this.#close(single);
  }

  #close(watcher: Watcher): void {
    const closing = watcher.stop().finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }
}
