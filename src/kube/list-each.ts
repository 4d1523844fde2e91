/** Reads all objects of a collection, in compressed pages. Only one page at a time is in memory. */
import { type KubeApi, type KubeObject, METADATA_ONLY } from './api.ts';
import { ConnectionError } from './errors.ts';
import { parseJson } from './json.ts';

/** An object in a list: only its metadata, or all of it. */
export type Listed = KubeObject & Readonly<Record<string, unknown>>;

/** Most objects in a page, as in client-go. */
const PAGE_SIZE = 500;
/** Largest page, bytes, uncompressed. 500 usual objects take a quarter; one object can be as large as etcd allows. */
const PAGE_BYTES = 2 * 1024 * 1024;
/** A page above the limit is requested again with this many times fewer objects. */
const PAGE_SHRINK = 8;
/** The media type of a list of metadata. */
export const METADATA_LIST = METADATA_ONLY.replace('PartialObjectMetadata', 'PartialObjectMetadataList');

export interface ListOptions {
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  /** Only metadata is transferred. */
  readonly metadataOnly?: boolean;
  /** Most objects in a page. Default: as many as in client-go. Fewer take less memory. */
  readonly pageSize?: number | undefined;
  /** Time limit of each page, ms. As in `KubeRequest`. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

interface Page {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  /** `null` in an empty list of metadata. */
  readonly items: readonly Listed[] | null;
}

/**
 * Calls `take` for every object of a collection.
 * @returns the resourceVersion of the list
 * @throws as `api.request`, and Error if a page is not JSON
 */
export async function listEach(
  api: KubeApi,
  path: string,
  take: (item: Listed) => void,
  options: ListOptions = {},
): Promise<string> {
  const { pageSize = PAGE_SIZE } = options;
  let limit = pageSize;
  let token: string | undefined;
  for (;;) {
    const page = await readPage(api, path, limit, token, options);
    if (page === undefined) {
      limit = Math.ceil(limit / PAGE_SHRINK);
      continue;
    }
    for (const item of page.items ?? []) take(item);
    limit = Math.min(pageSize, limit * 2);
    const { resourceVersion, continue: next = '' } = page.metadata;
    if (next === '') return resourceVersion;
    token = next;
  }
}

/** @returns `undefined`: `limit` objects are too large together, so ask for fewer. One object can have any size. */
async function readPage(
  api: KubeApi,
  path: string,
  limit: number,
  token: string | undefined,
  { labelSelector, fieldSelector, metadataOnly = false, timeoutMs, signal }: ListOptions,
): Promise<Page | undefined> {
  try {
    const { body } = await api.request({
      method: 'GET',
      path,
      query: { limit, labelSelector, fieldSelector, continue: token },
      compressed: true,
      maxBytes: limit > 1 ? PAGE_BYTES : undefined,
      accept: metadataOnly ? METADATA_LIST : undefined,
      timeoutMs,
      signal,
      moves: true,
    });
    return parseJson(body, `the list of ${path}`) as Page;
  } catch (error) {
    if (limit > 1 && error instanceof ConnectionError && error.code === 'EMSGSIZE') return undefined;
    throw error;
  }
}
