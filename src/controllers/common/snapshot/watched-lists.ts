/**
 * Collections that watches keep up to date, in place of lists: the first list of a collection opens its watch, later ones are answered from
 * memory. Values are dropped on arrival.
 */
import { LAST_APPLIED } from '../../../copy/model/observed.ts';
import type { Kind } from '../../../copy/model/kind.ts';
import { type KubeApi, METADATA_ONLY } from '../../../kube/api.ts';
import { isNotFound } from '../../../kube/errors.ts';
import type { Listed } from '../../../kube/list-each.ts';
import { ServedNamespaces } from '../../../kube/watch/served-namespaces.ts';
import { WatchGroup } from '../../../kube/watch/watch-group.ts';
import { objectKey, type WatchSink } from '../../../kube/watch/watcher.ts';
import { orAborted } from '../../../runtime/abort.ts';
import { type Collection, type Lister, type Place, type Coverage, tryPermitted } from './inventory.ts';

interface WatchedList {
  /** Where the objects are. */
  readonly place: Place;
  /** When the watch was opened. */
  readonly coverage: Coverage;
  /** By namespace and name. */
  readonly items: Map<string, Listed>;
  /** `undefined`: the permissions of the caller do not allow it. */
  readonly watcher: WatchGroup | undefined;
}

/** The collection of a controller's rules may hold content. */
type Watched = Collection & { readonly content?: Kind };

export class WatchedLists {
  readonly #api: KubeApi;
  readonly #onChange: () => void;
  readonly #lists = new Map<string, WatchedList>();

  /** @param onChange an object has changed, or a watch was lost */
  constructor(api: KubeApi, onChange: () => void) {
    this.#api = api;
    this.#onChange = onChange;
  }

  readonly list: Lister = async (collection, namespace, take, { metadataOnly = false, signal } = {}) => {
    const { kind } = collection;
    let list = this.#lists.get(kind);
    // A label selects other namespaces now.
    if (list !== undefined && String(list.place) !== String(namespace)) {
      await list.watcher?.stop();
      list = undefined;
    }
    list ??= await this.#open(collection, namespace, metadataOnly, signal);
    for (const item of list.items.values()) take(item);
    // The API may have been installed since.
    const isInstalled = list.coverage.extent === 'not installed' && list.watcher?.isSynced === true;
    return isInstalled ? { extent: 'cluster' } : list.coverage;
  };

  /** Why the objects are perhaps not up to date; `undefined`: they are. */
  get trouble(): string | undefined {
    for (const [kind, { watcher }] of this.#lists) {
      // Until the API is installed there is nothing to watch.
      const lost = watcher?.health.find(({ connected, synced, error }) => !connected && synced && error !== undefined);
      if (lost !== undefined) return `the watch of ${kind}s is lost: ${lost.error ?? ''}`;
    }
    return undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(Array.from(this.#lists.values(), async ({ watcher }) => await watcher?.stop()));
  }

  async #open(
    collection: Watched,
    namespace: Place,
    metadataOnly: boolean,
    signal: AbortSignal | undefined,
  ): Promise<WatchedList> {
    const served = typeof namespace === 'object' ? namespace : undefined;
    let path = `${collection.groupPath}/${collection.plural}`;
    const coverage = await tryPermitted(collection, namespace, async (tried) => {
      const accept = METADATA_ONLY.replace('PartialObjectMetadata', 'PartialObjectMetadataList');
      await this.#api.request({ method: 'GET', path: tried, query: { limit: 1 }, accept, signal });
      path = served === undefined ? tried : tried.replace(/\/namespaces\/[^/]+/, '');
    });
    const permitted = served?.filter((name) => coverage.without?.includes(name) !== true);
    const items = new Map<string, Listed>();
    const watcher =
      coverage.extent === 'refused'
        ? undefined
        : new WatchGroup(
            {
              api: this.#api,
              // In pages, so that the permission to watch is not necessary to start.
              target: { collection: collection.plural, path, metadataOnly, inPages: true },
              sink: this.#sinkOf(items, collection),
              onTrouble: (error) => {
                // Before the API is installed, the watcher looks for it every few seconds.
                if (!isNotFound(error)) this.#onChange();
              },
            },
            permitted && new ServedNamespaces(permitted),
          ).start();
    const list = { place: namespace, coverage, items, watcher };
    this.#lists.set(collection.kind, list);
    if (coverage.extent === 'cluster' || coverage.extent === 'namespace') {
      await orAborted(watcher?.synced ?? Promise.resolve(), signal, `the list of ${collection.kind}s`);
    }
    return list;
  }

  #sinkOf(items: Map<string, Listed>, { content }: Watched): WatchSink {
    return {
      upsert: (object) => {
        items.set(objectKey(object), withoutValues(object as Listed, content));
        this.#onChange();
        return true;
      },
      remove: (object) => {
        items.delete(objectKey(object));
        this.#onChange();
      },
      prune: (keys, _, only) => {
        const isListed = (key: string): boolean => only === undefined || key.startsWith(`${only}/`);
        for (const key of items.keys()) if (isListed(key) && !keys.has(key)) items.delete(key);
        this.#onChange();
      },
    };
  }
}

/** Without content, and without the annotation that repeats it. */
function withoutValues(object: Listed, content: Kind | undefined): Listed {
  const { metadata } = object;
  const { [LAST_APPLIED]: _, ...annotations } = metadata.annotations ?? {};
  const kept: Record<string, unknown> = { ...object };
  for (const { name } of content?.fields ?? []) delete kept[name];
  if (content?.overlay !== undefined) delete kept[content.overlay];
  return { ...kept, metadata: { ...metadata, annotations } };
}
