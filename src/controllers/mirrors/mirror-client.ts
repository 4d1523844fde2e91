/** Reads and patches SecretMirrors on the API server. */
import type { KubeApi, KubeObject } from '../../kube/api.ts';
import { parseJson } from '../../kube/json.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import { FIELD_MANAGER } from '../../copy/model/observed.ts';
import { ruleName } from '../common/rule-store.ts';
import { MIRRORS_API_PATH, SECRET_MIRROR_PLURAL, type SecretMirror } from './api.ts';

/** @throws ApiError, ConnectionError */
export async function getMirror(api: KubeApi, rule: RuleKey, signal: AbortSignal): Promise<SecretMirror> {
  const [namespace = '', name = ''] = ruleName(rule).split('/');
  const path = pathOf(namespace, name);
  const { body } = await api.request({ method: 'GET', path, signal });
  return parseJson(body, `the answer to GET ${path}`) as SecretMirror;
}

/**
 * Sends a merge patch. Its `metadata` has the uid or resourceVersion that must still be that of the mirror.
 * @throws ApiError, ConnectionError
 */
export async function patchMirror(
  api: KubeApi,
  { metadata }: SecretMirror,
  patch: { readonly metadata: object; readonly spec?: object | undefined; readonly status?: object },
  signal: AbortSignal,
): Promise<KubeObject> {
  const path = pathOf(metadata.namespace ?? '', metadata.name) + (patch.status === undefined ? '' : '/status');
  const { body } = await api.request({
    method: 'PATCH',
    path,
    query: { fieldManager: FIELD_MANAGER },
    body: JSON.stringify(patch),
    contentType: 'application/merge-patch+json',
    signal,
  });
  return parseJson(body, `the answer to PATCH ${path}`) as KubeObject;
}

function pathOf(namespace: string, name: string): string {
  return `${MIRRORS_API_PATH}/namespaces/${encodeURIComponent(namespace)}/${SECRET_MIRROR_PLURAL}/${encodeURIComponent(name)}`;
}
