/** A list in compressed pages, of which one at a time is in memory. */
import type { KubeApi, KubeObject } from '../api.ts';
import { ConnectionError } from '../errors.ts';
import { parseJson } from '../json.ts';
import { acceptOf, selectorsOf, type WatchTarget } from './watch-query.ts';

/** Objects of a page, as in client-go. */
const PAGE_SIZE = 500;
/** Largest page that is read, uncompressed, in bytes: 500 objects are a quarter of it, but one can be as large as etcd takes. */
const PAGE_BYTES = 2 * 1024 * 1024;
/** A page that is larger is requested again with so many times fewer objects. */
const PAGE_SHRINK = 8;
/** Time limit of a page, ms. */
const PAGE_TIMEOUT_MS = 60_000;

interface Page {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  /** `null` in an empty list of metadata. */
  readonly items: readonly KubeObject[] | null;
}

/**
 * Calls `onObject` for every object of the collection.
 * @returns the resourceVersion of the list
 * @throws what `api.request` throws
 */
export async function listInPages(
  api: KubeApi,
  target: WatchTarget,
  onObject: (object: KubeObject) => void,
  signal: AbortSignal,
): Promise<string> {
  let limit = PAGE_SIZE;
  let token: string | undefined;
  for (;;) {
    const page = await readPage(api, target, limit, token, signal);
    if (page === undefined) {
      limit = Math.ceil(limit / PAGE_SHRINK);
      continue;
    }
    for (const object of page.items ?? []) onObject(object);
    limit = Math.min(PAGE_SIZE, limit * 2);
    const { resourceVersion, continue: next = '' } = page.metadata;
    if (next === '') return resourceVersion;
    token = next;
  }
}

/** @returns `undefined` if so many objects are too large together. A single object may have any size. */
async function readPage(
  api: KubeApi,
  target: WatchTarget,
  limit: number,
  token: string | undefined,
  signal: AbortSignal,
): Promise<Page | undefined> {
  try {
    const { body } = await api.request({
      method: 'GET',
      path: target.path,
      accept: acceptOf(target, 'List'),
      query: { limit, continue: token, ...selectorsOf(target) },
      compressed: true,
      ...(limit > 1 ? { maxBytes: PAGE_BYTES } : {}),
      timeoutMs: PAGE_TIMEOUT_MS,
      signal,
    });
    return parseJson(body, `a page of ${target.path}`) as Page;
  } catch (error) {
    if (limit > 1 && error instanceof ConnectionError && error.code === 'EMSGSIZE') return undefined;
    throw error;
  }
}
