/** Whole collections for the short commands, page by page. */
import type { KubeApi, KubeObject } from '../kube/api.ts';
import { isForbidden, isNotFound } from '../kube/errors.ts';
import { parseJson } from '../kube/json.ts';

/** An object as a list has it: metadata alone, or all of it. */
export type Listed = KubeObject & Readonly<Record<string, unknown>>;

/** As in client-go. */
const PAGE_SIZE = 500;
/** Objects with content have up to 1.5 MB each, and a page of them has to stay below the largest answer that is read. */
const CONTENT_PAGE_SIZE = 40;
const METADATA_LIST = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1';

export interface ListOptions {
  readonly fieldSelector?: string;
  /** Metadata alone, without content. */
  readonly metadataOnly?: boolean;
  /** Whether the objects may be large. */
  readonly withContent?: boolean;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Hands every object of a collection to `take`. Of the pages only one is in memory at a time.
 * @throws what `api.request` throws
 */
export async function listEach(
  api: KubeApi,
  path: string,
  take: (item: Listed) => void,
  { fieldSelector, metadataOnly = false, withContent = false, signal }: ListOptions = {},
): Promise<void> {
  let token: string | undefined;
  do {
    const { body } = await api.request({
      method: 'GET',
      path,
      query: { limit: withContent ? CONTENT_PAGE_SIZE : PAGE_SIZE, fieldSelector, continue: token },
      ...(metadataOnly ? { accept: METADATA_LIST } : {}),
      ...(signal === undefined ? {} : { signal }),
    });
    const page = parseJson(body, `the list of ${path}`) as {
      readonly metadata: { readonly continue?: string };
      readonly items: readonly Listed[] | null;
    };
    // An empty list of metadata has `null` here.
    for (const item of page.items ?? []) take(item);
    token = page.metadata.continue;
  } while (token !== undefined && token !== '');
}

/** `/api/v1` and `secrets`. */
export interface Collection {
  readonly groupPath: string;
  readonly plural: string;
}

/** How much of a collection could be listed; `refused` has the server's words. */
export type Reach =
  | { readonly extent: 'cluster' | 'namespace' | 'not installed' }
  | { readonly extent: 'refused'; readonly message: string };

/**
 * Lists a collection in the whole cluster. Where the caller may not do that, in one namespace, if one is given.
 * @throws what `api.request` throws, but for 403 and 404
 */
export async function listReachable(
  api: KubeApi,
  { groupPath, plural }: Collection,
  namespace: string | undefined,
  take: (item: Listed) => void,
  options: ListOptions = {},
): Promise<Reach> {
  try {
    await listEach(api, `${groupPath}/${plural}`, take, options);
    return { extent: 'cluster' };
  } catch (error) {
    if (isNotFound(error)) return { extent: 'not installed' };
    if (!isForbidden(error)) throw error;
    if (namespace === undefined) return { extent: 'refused', message: error.message };
  }
  try {
    await listEach(api, `${groupPath}/namespaces/${encodeURIComponent(namespace)}/${plural}`, take, options);
    return { extent: 'namespace' };
  } catch (error) {
    if (!isForbidden(error)) throw error;
    return { extent: 'refused', message: error.message };
  }
}
