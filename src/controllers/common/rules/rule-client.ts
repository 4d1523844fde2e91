/** Reads and patches rules on the API server. `liveRules` reads the rule of a copy before the copy is deleted. */
import type { RuleReconciler } from '../../../copy/engine/controller.ts';
import { namespaceOf, parseRuleKey, type RuleKey } from '../../../copy/model/keys.ts';
import type { Kind } from '../../../copy/model/kind.ts';
import { FIELD_MANAGER } from '../../../copy/model/observed.ts';
import type { RuleState } from '../../../copy/model/rule-set.ts';
import { type KubeApi, type KubeObject, METADATA_ONLY } from '../../../kube/api.ts';
import { isObjectGone } from '../../../kube/errors.ts';
import { parseJson } from '../../../kube/json.ts';
import { SingleFlight } from '../../../runtime/queue/single-flight.ts';
import type { RuleStore } from './rule-store.ts';

export interface RuleClientOptions {
  readonly api: KubeApi;
  readonly kind: Pick<Kind, 'groupPath' | 'plural'>;
  /** Receives the objects from the responses to patches. */
  readonly store?: Pick<RuleStore<KubeObject>, 'storeResponse'>;
  /** Requests only the metadata of objects. `writeStatus` then adds the written status to the object that it stores. */
  readonly metadataOnly?: boolean;
  /**
   * Default: `FIELD_MANAGER`. Rules that are Secrets, and so may be copies too, need another name. Reason: the write of
   * a copy removes labels and annotations that `FIELD_MANAGER` wrote and that the copy does not need.
   */
  readonly fieldManager?: string;
}

/** Changes of a merge patch: `null` removes a field. */
interface Changes {
  readonly annotations?: Readonly<Record<string, string | null>> | undefined;
  readonly spec?: object | undefined;
}

export class RuleClient {
  readonly #options: RuleClientOptions;

  constructor(options: RuleClientOptions) {
    this.#options = options;
  }

  /** Reads a rule. @param path `<namespace>/<name>` @throws ApiError, ConnectionError */
  async get(path: string, signal: AbortSignal): Promise<KubeObject> {
    const [namespace = '', name = ''] = path.split('/');
    return await this.#send({ method: 'GET', path: this.#pathOf(namespace, name), signal });
  }

  /**
   * Sends a merge patch and stores the response. With a status, it patches only the status.
   * @param patch its metadata must contain the uid or resourceVersion that the object is expected to have
   * @throws ApiError, ConnectionError
   */
  async patch(
    rule: KubeObject,
    patch: { readonly metadata: object; readonly spec?: object | undefined; readonly status?: object },
    signal: AbortSignal,
  ): Promise<void> {
    const subresource = patch.status === undefined ? '' : '/status';
    this.#options.store?.storeResponse(await this.#patch(rule, subresource, patch, signal));
  }

  /** Replaces the whole status and stores the response. A deleted object is not an error. @throws ApiError */
  async writeStatus(rule: KubeObject, status: object, signal: AbortSignal): Promise<void> {
    const { uid, name } = rule.metadata;
    // A JSON patch, because a merge patch cannot test the uid and so could change a new object with the same name.
    const patch = [
      { op: 'test', path: '/metadata/uid', value: uid },
      { op: 'add', path: '/status', value: status },
    ];
    try {
      const object = await this.#patch(rule, '/status', patch, signal);
      const whole = this.#options.metadataOnly === true ? Object.assign(object, { status }) : object;
      this.#options.store?.storeResponse(whole);
    } catch (error) {
      if (!isObjectGone(error, name)) throw error;
    }
  }

  /**
   * Adds a finalizer, together with other changes, by one request. Sends no request if nothing changes. A deleted object
   * is not an error.
   * @param changes `replaces`: finalizers that are removed when this one is added
   * @throws ApiError: a conflict if the object has changed since it was stored; Error if the server stored no finalizer
   */
  async addFinalizer(
    rule: KubeObject,
    finalizer: string,
    { replaces = [], ...changes }: Changes & { readonly replaces?: readonly string[] },
    signal: AbortSignal,
  ): Promise<void> {
    const { name, uid, resourceVersion, finalizers = [] } = rule.metadata;
    const { annotations, spec } = changes;
    const others = finalizers.filter((one) => !replaces.includes(one));
    const added = finalizers.includes(finalizer) ? undefined : [...others, finalizer];
    if (added === undefined && annotations === undefined && spec === undefined) return;
    const patch = { metadata: { uid, resourceVersion, finalizers: added, annotations }, spec };
    try {
      const object = await this.#patch(rule, '', patch, signal);
      this.#options.store?.storeResponse(object);
      if (object.metadata.finalizers?.includes(finalizer) !== true)
        throw new Error('the API server did not store the finalizer');
    } catch (error) {
      if (!isObjectGone(error, name)) throw error;
    }
  }

  /**
   * Removes the named finalizers, together with other changes, by one request. Sends no request if nothing changes. A
   * deleted object is not an error.
   * @throws ApiError: a conflict if the object has changed since it was stored
   */
  async removeFinalizers(
    rule: KubeObject,
    names: readonly string[],
    { annotations }: Pick<Changes, 'annotations'>,
    signal: AbortSignal,
  ): Promise<void> {
    const { name, uid, resourceVersion, finalizers = [] } = rule.metadata;
    const rest = finalizers.filter((finalizer) => !names.includes(finalizer));
    if (rest.length === finalizers.length && annotations === undefined) return;
    try {
      const patch = { metadata: { uid, resourceVersion, finalizers: rest, annotations } };
      const object = await this.#patch(rule, '', patch, signal);
      this.#options.store?.storeResponse(object);
    } catch (error) {
      if (!isObjectGone(error, name)) throw error;
    }
  }

  async #patch({ metadata }: KubeObject, subresource: string, patch: object, signal: AbortSignal): Promise<KubeObject> {
    const { fieldManager = FIELD_MANAGER } = this.#options;
    const request = {
      method: 'PATCH',
      path: this.#pathOf(metadata.namespace ?? '', metadata.name) + subresource,
      query: { fieldManager },
      body: JSON.stringify(patch),
      contentType: `application/${Array.isArray(patch) ? 'json' : 'merge'}-patch+json`,
      signal,
    } as const;
    return await this.#send(request);
  }

  async #send(request: Parameters<KubeApi['request']>[0]): Promise<KubeObject> {
    const accept = this.#options.metadataOnly === true ? METADATA_ONLY : undefined;
    const { body } = await this.#options.api.request({ ...request, accept });
    return parseJson(body, `the answer to ${request.method} ${request.path}`) as KubeObject;
  }

  #pathOf(namespace: string, name: string): string {
    const { groupPath, plural } = this.#options.kind;
    return `${groupPath}/namespaces/${encodeURIComponent(namespace)}/${plural}/${encodeURIComponent(name)}`;
  }
}

/** No evaluation has this version. So Keyferry deletes no orphan of the rule before the next evaluation. */
const NOT_EVALUATED = '';

/**
 * Makes the function `RuleReconciler.getLive`. Simultaneous reads of the same rule share one request.
 * @param readVersion gives the rule's version on the server; `undefined`: it is no longer a rule. @throws ApiError
 * @param isOutdated see `NamespaceChanges.isOutdated`. Default: no rule depends on namespaces
 */
export function liveRules(
  readVersion: (rule: RuleKey, signal: AbortSignal) => Promise<string | undefined>,
  isOutdated?: (rule: RuleKey, namespace: string, signal: AbortSignal) => Promise<boolean>,
): RuleReconciler['getLive'] {
  const reads = new SingleFlight<RuleState>();
  const read = async (rule: RuleKey, signal: AbortSignal): Promise<RuleState> => {
    try {
      const version = await readVersion(rule, signal);
      if (version === undefined) return { state: 'gone' };
      return { state: 'there', version };
    } catch (error) {
      if (isObjectGone(error, parseRuleKey(rule).name)) return { state: 'gone' };
      throw error;
    }
  };
  return async (rule, target, signal) => {
    const live = await reads.run(rule, async (shared) => await read(rule, shared), signal);
    if (live.state === 'gone' || (await isOutdated?.(rule, namespaceOf(target), signal)) !== true) return live;
    return { ...live, version: NOT_EVALUATED };
  };
}
