/** Reads and patches the objects of rules on the API server. */
import { type KubeApi, type KubeObject, METADATA_ONLY } from '../../../kube/api.ts';
import { parseJson } from '../../../kube/json.ts';
import { parseRuleKey, type RuleKey } from '../../model/keys.ts';
import type { Kind } from '../../model/kind.ts';
import { RULES_MANAGER } from '../../model/observed.ts';

export class RuleClient {
  readonly #api: KubeApi;
  readonly #kindOf: (rule: RuleKey) => Pick<Kind, 'groupPath' | 'plural'>;
  readonly #accept: string | undefined;

  /** @param isWhole whether answers have the whole objects. Otherwise they have only the metadata */
  constructor(api: KubeApi, kindOf: (rule: RuleKey) => Pick<Kind, 'groupPath' | 'plural'>, isWhole = false) {
    this.#api = api;
    this.#kindOf = kindOf;
    this.#accept = isWhole ? undefined : METADATA_ONLY;
  }

  /** @throws ApiError, ConnectionError */
  async get(rule: RuleKey, signal: AbortSignal): Promise<KubeObject> {
    return await this.#send({ method: 'GET', path: this.#pathOf(rule), signal });
  }

  /**
   * @param patch a merge patch whose metadata has the uid or resourceVersion that the object is expected to have, or a
   * JSON patch that tests one. With a status, it patches only the status
   * @throws ApiError, ConnectionError
   */
  async patch(rule: RuleKey, patch: object, signal: AbortSignal): Promise<KubeObject> {
    const isJson = Array.isArray(patch);
    const isStatus = isJson || 'status' in patch;
    return await this.#send({
      method: 'PATCH',
      path: this.#pathOf(rule) + (isStatus ? '/status' : ''),
      query: { fieldManager: RULES_MANAGER },
      body: JSON.stringify(patch),
      contentType: `application/${isJson ? 'json' : 'merge'}-patch+json`,
      signal,
    });
  }

  /** Replaces the whole status, if the object still has this uid. @throws ApiError, ConnectionError */
  async putStatus(rule: RuleKey, uid: string, status: object, signal: AbortSignal): Promise<KubeObject> {
    // A merge patch cannot test the uid, and so could change a new object with the same name.
    const patch = [
      { op: 'test', path: '/metadata/uid', value: uid },
      { op: 'add', path: '/status', value: status },
    ];
    return await this.patch(rule, patch, signal);
  }

  async #send(request: Parameters<KubeApi['request']>[0]): Promise<KubeObject> {
    const { body } = await this.#api.request({ ...request, accept: this.#accept });
    return parseJson(body, `the answer to ${request.method} ${request.path}`) as KubeObject;
  }

  #pathOf(rule: RuleKey): string {
    const { groupPath, plural } = this.#kindOf(rule);
    const { namespace, name } = parseRuleKey(rule);
    return `${groupPath}/namespaces/${encodeURIComponent(namespace)}/${plural}/${encodeURIComponent(name)}`;
  }
}
