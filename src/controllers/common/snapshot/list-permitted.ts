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

/**
 * Lists a collection in the whole cluster. Without the right to do so, lists it in the given namespace.
 * @throws the errors of `api.request` except 403 and 404
 */
export async function listPermitted(
  api: KubeApi,
  { groupPath, olderGroupPaths = [], ...collection }: Collection,
  namespace: string | undefined,
  take: (item: Listed) => void,
  options: ListOptions = {},
): Promise<Reach> {
  const { plural } = collection;
  try {
    await listEach(api, `${groupPath}/${plural}`, take, options);
    return { extent: 'cluster' };
  } catch (error) {
    const [next, ...others] = olderGroupPaths;
    if (isNotFound(error)) {
      if (next === undefined) return { extent: 'not installed' };
      const older = { ...collection, groupPath: next, olderGroupPaths: others };
      return await listPermitted(api, older, namespace, take, options);
    }
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
