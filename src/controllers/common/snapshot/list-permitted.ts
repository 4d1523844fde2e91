/** Lists collections for the short commands, as far as the rights of the user allow. */
import type { KubeApi } from '../../../kube/api.ts';
import { isForbidden, isNotFound } from '../../../kube/errors.ts';
import { type Listed, listEach, type ListOptions } from '../../../kube/list-each.ts';

/** `Secret`, `/api/v1` and `secrets`. */
export interface Collection {
  readonly kind: string;
  readonly groupPath: string;
  /** Tried one after another if the server does not serve the one above. */
  readonly olderGroupPaths?: readonly string[];
  readonly plural: string;
}

/** How much of a collection could be listed. */
export type Reach =
  | { readonly extent: 'cluster' | 'namespace' | 'not installed' }
  | { readonly extent: 'refused'; readonly message: string };

/** Passes all objects of a collection on: from lists, or from watches. @throws the errors of `api.request` except 403 and 404 */
export type Lister = (
  collection: Collection,
  namespace: string | undefined,
  take: (item: Listed) => void,
  options?: ListOptions,
) => Promise<Reach>;

/** Lists a collection in the whole cluster. Without the right to do so, lists it in the given namespace. */
export function listerOf(api: KubeApi): Lister {
  return async (collection, namespace, take, options) =>
    await tryPermitted(collection, namespace, async (path) => void (await listEach(api, path, take, options)));
}

/**
 * Tries the path of a collection in the whole cluster. Without the right to it, tries that in the given namespace.
 * @throws the errors of `attempt` except 403 and 404
 */
export async function tryPermitted(
  { groupPath, olderGroupPaths = [], ...collection }: Collection,
  namespace: string | undefined,
  attempt: (path: string) => Promise<void>,
): Promise<Reach> {
  const { plural } = collection;
  try {
    await attempt(`${groupPath}/${plural}`);
    return { extent: 'cluster' };
  } catch (error) {
    const [next, ...others] = olderGroupPaths;
    if (isNotFound(error)) {
      if (next === undefined) return { extent: 'not installed' };
      return await tryPermitted({ ...collection, groupPath: next, olderGroupPaths: others }, namespace, attempt);
    }
    if (!isForbidden(error)) throw error;
    if (namespace === undefined) return { extent: 'refused', message: error.message };
  }
  try {
    await attempt(`${groupPath}/namespaces/${encodeURIComponent(namespace)}/${plural}`);
    return { extent: 'namespace' };
  } catch (error) {
    if (!isForbidden(error)) throw error;
    return { extent: 'refused', message: error.message };
  }
}
