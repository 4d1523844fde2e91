/** Reads one object from the API server. */
import type { KubeApi, KubeObject, KubeRequest } from '../../../kube/api.ts';
import { isObjectGone } from '../../../kube/errors.ts';
import { parseJson } from '../../../kube/json.ts';
import { parseResourceKey, type ObjectKey } from '../../model/keys.ts';
import { type Kind, objectPath } from '../../model/kind.ts';

/**
 * @returns undefined if the object does not exist
 * @throws ApiError, ConnectionError
 */
export async function getObject(
  api: KubeApi,
  kind: Kind,
  key: ObjectKey,
  options: Pick<KubeRequest, 'accept' | 'signal'>,
): Promise<(KubeObject & Readonly<Record<string, unknown>>) | undefined> {
  const path = objectPath(kind, key);
  try {
    const { body } = await api.request({ method: 'GET', path, ...options });
    return parseJson(body, `the answer to GET ${path}`) as KubeObject & Readonly<Record<string, unknown>>;
  } catch (error) {
    if (isObjectGone(error, parseResourceKey(key).name)) return undefined;
    throw error;
  }
}
