/**
 * Lists that watches keep up to date, in place of listing anew for each report. A path is listed and watched from its
 * first use on.
 *
 *   unused ──probe──▶ watched ──403 or 404 of the watch──▶ listed anew at each use
 *     └──404: throws, the next use probes again
 *
 * A path that may be listed but not watched is listed anew at each use (`isPartial`).
 */
import type { KubeApi, KubeObject } from '../../kube/api.ts';
import { isForbidden, isNotFound } from '../../kube/errors.ts';
import { type Listed, listEach, type ListOptions, METADATA_LIST } from '../../kube/list-each.ts';
import { Watcher } from '../../kube/watch/watcher.ts';
import { type Lister, listerBy } from '../snapshot/inventory.ts';

interface Kept {
  readonly items: ReadonlyMap<string, Listed>;
  readonly watcher: Watcher;
}

const keyOf = ({ metadata: { namespace = '', name } }: KubeObject): string =>
  namespace === '' ? name : `${namespace}/${name}`;

export class KeptLists implements AsyncDisposable {
  readonly lister: Lister = listerBy(async (path, take, options) => await this.#list(path, take, options));
  readonly #api: KubeApi;
  readonly #onChange: () => void;
  readonly #kept = new Map<string, Kept>();
  readonly #unwatched = new Set<string>();

  /** @param onChange called after a change of a listed object */
  constructor(api: KubeApi, onChange: () => void) {
    this.#api = api;
    this.#onChange = onChange;
  }

  /** Why the lists may be out of date; `undefined`: they are up to date. */
  get trouble(): string | undefined {
    for (const { watcher } of this.#kept.values()) {
      const { connected, error } = watcher.health;
      if (!connected && error !== undefined) return error;
    }
    return undefined;
  }

  /** Whether a list is not watched, so that its changes are seen only when it is listed anew. */
  get isPartial(): boolean {
    return this.#unwatched.size > 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(Array.from(this.#kept.values(), async ({ watcher }) => await watcher.stop()));
    this.#kept.clear();
  }

  async #list(path: string, take: (item: Listed) => void, options: ListOptions = {}): Promise<void> {
    const kept = this.#unwatched.has(path) ? undefined : (this.#kept.get(path) ?? (await this.#keep(path, options)));
    if (kept === undefined) await listEach(this.#api, path, take, options);
    else for (const item of kept.items.values()) take(item);
  }

  /** @returns `undefined`: the path cannot be watched */
  async #keep(path: string, { metadataOnly = false, signal }: ListOptions): Promise<Kept | undefined> {
    // A watcher tries again after every refusal. So a path that is missing or not permitted is found out before.
    const accept = metadataOnly ? METADATA_LIST : undefined;
    await this.#api.request({ method: 'GET', path, query: { limit: 1 }, accept, signal });
    const items = new Map<string, Listed>();
    const refused = Promise.withResolvers<undefined>();
    const watcher = new Watcher({
      api: this.#api,
      target: { collection: path, path, metadataOnly },
      sink: {
        upsert: (object, initial) => {
          items.set(keyOf(object), object as Listed);
          if (!initial) this.#onChange();
          return true;
        },
        remove: (object) => {
          items.delete(keyOf(object));
          this.#onChange();
        },
        prune: (keys) => {
          for (const key of items.keys()) if (!keys.has(key)) items.delete(key);
          this.#onChange();
        },
      },
      onTrouble: (error) => {
        if (!isForbidden(error) && !isNotFound(error)) return;
        // The API was removed, or the caller may only list it.
        if (isForbidden(error)) this.#unwatched.add(path);
        this.#kept.delete(path);
        void watcher.stop();
        refused.resolve(undefined);
        this.#onChange();
      },
    }).start();
    const kept = { items, watcher };
    this.#kept.set(path, kept);
    const onAbort = (): void => refused.resolve(undefined);
    signal?.addEventListener('abort', onAbort);
    try {
      return await Promise.race([watcher.synced.then(() => kept), refused.promise]);
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }
}
