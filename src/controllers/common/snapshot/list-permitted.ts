/** Lists collections for the short commands, as far as the rights of the user allow. */
import type { KubeApi } from '../../../kube/api.ts';
import { isForbidden, isNotFound } from '../../../kube/errors.ts';
import { type Listed, listEach, type ListOptions } from '../../../kube/list-each.ts';

/** `Secret`, `/api/v1` and `secrets`. */
export interface Collection {
  readonly kind: string;
  readonly groupPath: string;
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
