/** Reads and patches the rule objects of one kind on the API server. */
import type { KubeApi, KubeObject, ObjectMeta } from '../../kube/api.ts';
import { parseJson } from '../../kube/json.ts';
import { FIELD_MANAGER } from '../../copy/model/observed.ts';

/** Where the objects of a kind are. */
export interface RuleCollectionPath {
  /** `/apis/<group>/<version>`, or `/api/v1`. */
  readonly groupPath: string;
  readonly plural: string;
}

export interface RulePatch {
  /** Has the uid or resourceVersion that must still be that of the object. */
  readonly metadata: object;
  readonly spec?: object | undefined;
  /** Sent to the subresource. */
  readonly status?: object;
}

export class RuleClient {
  readonly #api: KubeApi;
  readonly #collection: RuleCollectionPath;
  readonly #fieldManager: string;

  /**
   * @param fieldManager another one than `FIELD_MANAGER` for objects that Keyferry also copies: it removes labels and annotations from a
   *   copy that it wrote itself and that are no longer desired
   */
  constructor(api: KubeApi, collection: RuleCollectionPath, fieldManager = FIELD_MANAGER) {
    this.#api = api;
    this.#collection = collection;
    this.#fieldManager = fieldManager;
  }

  /** @param path `<namespace>/<name>` @throws ApiError, ConnectionError */
  async get(path: string, signal: AbortSignal, accept?: string): Promise<KubeObject> {
    const [namespace = '', name = ''] = path.split('/');
    return await this.#send({ method: 'GET', path: this.#pathOf(namespace, name), accept, signal });
  }

  /** Sends a merge patch. @throws ApiError, ConnectionError */
  async patch(
    { name, namespace = '' }: Pick<ObjectMeta, 'name' | 'namespace'>,
    patch: RulePatch,
    signal: AbortSignal,
    accept?: string,
  ): Promise<KubeObject> {
    return await this.#send({
      method: 'PATCH',
      path: this.#pathOf(namespace, name) + (patch.status === undefined ? '' : '/status'),
      query: { fieldManager: this.#fieldManager },
      body: JSON.stringify(patch),
      contentType: 'application/merge-patch+json',
      accept,
      signal,
    });
  }

  async #send(request: Parameters<KubeApi['request']>[0]): Promise<KubeObject> {
    const { body } = await this.#api.request(request);
    return parseJson(body, `the answer to ${request.method} ${request.path}`) as KubeObject;
  }

  #pathOf(namespace: string, name: string): string {
    const { groupPath, plural } = this.#collection;
    return `${groupPath}/namespaces/${encodeURIComponent(namespace)}/${plural}/${encodeURIComponent(name)}`;
  }
}
