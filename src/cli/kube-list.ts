/** Whole collections for the short commands, page by page. */
import type { KubeApi, KubeObject } from '../kube/api.ts';
import { isNotFound } from '../kube/errors.ts';
import { parseJson } from '../kube/json.ts';

/** As in client-go. */
const PAGE_SIZE = 500;
const METADATA_LIST = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1';

export interface ListOptions {
  readonly labelSelector?: string;
  readonly metadataOnly?: boolean;
  readonly signal?: AbortSignal;
}

/**
 * All objects of a collection; `undefined` if the server does not know the collection.
 * @throws what `api.request` throws
 */
export async function listAll(
  api: KubeApi,
  path: string,
  { labelSelector, metadataOnly = false, signal }: ListOptions = {},
): Promise<KubeObject[] | undefined> {
  const items: KubeObject[] = [];
  let token: string | undefined;
  do {
    const page = await listPage();
    if (page === undefined) return undefined;
    // An empty list of metadata has `null` here.
    for (const item of page.items ?? []) items.push(item);
    token = page.metadata.continue;
  } while (token !== undefined && token !== '');
  return items;

  async function listPage() {
    try {
      const { body } = await api.request({
        method: 'GET',
        path,
        query: { limit: PAGE_SIZE, labelSelector, continue: token },
        ...(metadataOnly ? { accept: METADATA_LIST } : {}),
        ...(signal === undefined ? {} : { signal }),
      });
      return parseJson(body, `the list of ${path}`) as {
        readonly metadata: { readonly continue?: string };
        readonly items: readonly KubeObject[] | null;
      };
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }
}
