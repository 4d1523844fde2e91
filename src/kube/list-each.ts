/** Reads a whole collection once, page by page. */
import type { KubeApi, KubeObject } from './api.ts';
import { parseJson } from './json.ts';

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
  /** Of each page, ms. As in `KubeRequest`. */
  readonly timeoutMs?: number;
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
  { fieldSelector, metadataOnly = false, withContent = false, timeoutMs, signal }: ListOptions = {},
): Promise<void> {
  let token: string | undefined;
  do {
    const { body } = await api.request({
      method: 'GET',
      path,
      query: { limit: withContent ? CONTENT_PAGE_SIZE : PAGE_SIZE, fieldSelector, continue: token },
      ...(metadataOnly ? { accept: METADATA_LIST } : {}),
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
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
