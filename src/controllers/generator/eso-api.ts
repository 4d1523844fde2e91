/**
 * Finds out which version of ESO's API the server serves, and which of its objects Keyferry has permission to read.
 * With only the original's Role, the generator serves one namespace with the process's token, as the original does.
 */
import type { KubeApi, KubeObject } from '../../kube/api.ts';
import { isForbidden, isNotFound } from '../../kube/errors.ts';
import { ServedNamespaces } from '../../kube/watch/served-namespaces.ts';
import type { CustomApi } from '../../kube/watch/watch-group.ts';
import { parseJson } from '../../kube/json.ts';
import type { ControllerContext } from '../common/context.ts';
import type { Log } from '../../observe/log.ts';
import { ESO_ADVICE, ESO_GROUP, ESO_VERSIONS, type EsoVersion, GENERATOR } from './api.ts';
import type { ConditionMode } from './request/external-secret.ts';

export const EXTERNAL_SECRETS = 'externalsecrets';
export const CRD_COLLECTION = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
export const EXTERNAL_SECRET_CRD = `${EXTERNAL_SECRETS}.${ESO_GROUP}`;

/**
 * The version of ESO's API that the server serves. An update of ESO may change it at any time: ESO up to 0.15 serves
 * only v1beta1, 0.16 both versions, and newer releases only v1.
 */
export class ServedVersion {
  readonly kind = 'ExternalSecret';
  readonly plural = EXTERNAL_SECRETS;
  readonly #api: KubeApi;
  readonly #log: Log;
  #version: EsoVersion = ESO_VERSIONS[0];

  constructor(api: KubeApi, log: Log) {
    this.#api = api;
    this.#log = log;
  }

  get version(): EsoVersion {
    return this.#version;
  }

  get apiVersion(): string {
    return `${ESO_GROUP}/${this.#version}`;
  }

  /** `/apis/external-secrets.io/v1` */
  get groupPath(): string {
    return `/apis/${this.apiVersion}`;
  }

  /** Finds out the served version. @returns whether ExternalSecrets are served @throws ApiError, ConnectionError */
  async refresh(signal: AbortSignal): Promise<boolean> {
    for (const version of ESO_VERSIONS) {
      const path = `/apis/${ESO_GROUP}/${version}`;
      try {
        const { body } = await this.#api.request({ method: 'GET', path, signal });
        const { resources = [] } = parseJson(body, `the answer to GET ${path}`) as { resources?: { name?: string }[] };
        if (!resources.some(({ name }) => name === EXTERNAL_SECRETS)) continue;
        this.#version = version;
        return true;
      } catch (error) {
        if (!isNotFound(error)) throw error;
      }
    }
    return false;
  }

  /**
   * For a watch that gets 404, because ESO's CRDs are gone or serve another version. After each 404 the served version is
   * requested again, and the next try of the watch uses it. If this request fails, the next 404 repeats it.
   * @param isNamed whether the user named the controller in `--controllers`. If so, a missing API is an error
   * @param signal aborts the request for the version
   */
  custom(isNamed: boolean, signal: AbortSignal): CustomApi {
    const refresh = async (): Promise<void> => {
      try {
        await this.refresh(signal);
      } catch (error) {
        if (!signal.aborted) this.#log.warn('API discovery failed, retrying', { controller: GENERATOR, error });
      }
    };
    return {
      advice: ESO_ADVICE,
      isOptional: !isNamed,
      onMissing: () => void refresh(),
    };
  }
}

export interface EsoRights {
  /** The namespaces whose ExternalSecrets are served; `undefined`: all. */
  readonly namespaces: ServedNamespaces | undefined;
  readonly stores: boolean;
  readonly clusterStores: boolean;
  /** Whether the process has permission to read the CRD of ExternalSecrets. */
  readonly crd: boolean;
}

/**
 * Finds out the permissions of the process: it requests a list of one object of each kind.
 * @param groupPath `/apis/external-secrets.io/v1`
 * @returns `undefined`: there is no permission to list ExternalSecrets @throws ApiError, ConnectionError
 */
export async function rightsOf(
  { cluster: { api, served }, config: { generator: config }, namespace: ownNamespace, log }: ControllerContext,
  groupPath: string,
  signal: AbortSignal,
): Promise<EsoRights | undefined> {
  /** Whether the server permits a list. @param refused log message and advice if the server does not permit it */
  const mayList = async (path: string, refused?: { text: string; advice: string }): Promise<boolean> => {
    try {
      await api.request({ method: 'GET', path, query: { limit: 1 }, signal });
      return true;
    } catch (error) {
      if (!isForbidden(error)) throw error;
      if (refused !== undefined) log.warn(refused.text, { advice: refused.advice });
      return false;
    }
  };
  const listed = ServedNamespaces.of(config.namespaces) ?? served;
  const mayListAll = listed === undefined && (await mayList(`${groupPath}/${EXTERNAL_SECRETS}`));
  const namespaces = mayListAll ? undefined : (listed ?? new ServedNamespaces([ownNamespace]));
  if (listed === undefined && !mayListAll) {
    if (!(await mayList(`${groupPath}/namespaces/${ownNamespace}/${EXTERNAL_SECRETS}`))) return undefined;
    const advice = 'to serve all namespaces, permit to list and watch externalsecrets in all of them';
    log.warn('cannot list ExternalSecrets in all namespaces, serving only one', { namespace: ownNamespace, advice });
  }
  /** Whether one of the namespaces permits it: the others may get their Roles later. */
  const mayListStores = async (): Promise<boolean> => {
    const places = namespaces?.names.map((name) => `${groupPath}/namespaces/${name}`) ?? [groupPath];
    for (const place of places) if (await mayList(`${place}/secretstores`)) return true;
    const advice = 'to use the stores, permit to list and watch secretstores';
    log.warn('cannot list SecretStores, using $VAULT_ADDR and $VAULT_TOKEN for all ExternalSecrets', { advice });
    return false;
  };
  const stores = config.credentials === 'stores' && (await mayListStores());
  const crd = await mayList(`${CRD_COLLECTION}/${EXTERNAL_SECRET_CRD}`, {
    text: 'cannot read the CRD of ExternalSecrets, so the condition Created is not written and not removed',
    advice: `to use the condition, permit to get, list and watch customresourcedefinitions ${EXTERNAL_SECRET_CRD}`,
  });
  return { namespaces, stores, clusterStores: stores && (await mayList(`${groupPath}/clustersecretstores`)), crd };
}

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly enum?: readonly unknown[];
}

interface CustomResourceDefinition extends KubeObject {
  readonly spec?: {
    readonly versions?: readonly {
      readonly served?: boolean;
      readonly schema?: { readonly openAPIV3Schema?: Schema };
    }[];
  };
}

/**
 * Whether the CRD allows the condition `Created`. Since ESO 0.20.2, the CRD lists the allowed types. The server then
 * refuses `Created`; or it accepts `Created` in another API version, but then refuses each status from ESO. Pure.
 * @param crd the CRD of ExternalSecrets
 */
export function conditionModeOf(crd: KubeObject): ConditionMode {
  const { spec } = crd as CustomResourceDefinition;
  const served = spec?.versions?.filter((version) => version.served === true) ?? [];
  const isLimited = served.some(({ schema }) => {
    const conditions = schema?.openAPIV3Schema?.properties?.['status']?.properties?.['conditions'];
    return conditions?.items?.properties?.['type']?.enum !== undefined;
  });
  return isLimited ? 'limited' : 'allowed';
}
