/**
 * What the permissions of the process allow: the namespaces that it serves, and whether it may read stores. With the Role of the original alone,
 * the generator serves one namespace with the token of the process, as the original did.
 */
import type { GeneratorConfig } from '../../../config/config.ts';
import type { KubeApi } from '../../../kube/api.ts';
import { isForbidden } from '../../../kube/errors.ts';
import type { Log } from '../../../observe/log.ts';
import { CRD_COLLECTION, EXTERNAL_SECRET_CRD } from '../request/condition-mode.ts';

export interface Reach {
  /** `undefined`: all. */
  readonly namespaces: readonly string[] | undefined;
  readonly stores: boolean;
  readonly clusterStores: boolean;
  /** The CRD of ExternalSecrets can be read. */
  readonly crd: boolean;
}

export interface ReachOptions {
  readonly api: KubeApi;
  /** `/apis/external-secrets.io/v1` */
  readonly groupPath: string;
  readonly config: GeneratorConfig;
  /** Of the process. */
  readonly ownNamespace: string;
  readonly log: Log;
}

/**
 * Tries one small list of each kind.
 * @returns `undefined` if no ExternalSecret can be listed @throws ApiError, ConnectionError
 */
export async function reachOf(options: ReachOptions, signal: AbortSignal): Promise<Reach | undefined> {
  const { api, groupPath, config, ownNamespace, log } = options;
  const mayList = async (path: string): Promise<boolean> => {
    try {
      await api.request({ method: 'GET', path, query: { limit: 1 }, signal });
      return true;
    } catch (error) {
      if (isForbidden(error)) return false;
      throw error;
    }
  };
  const listed = config.namespaces.length > 0 ? config.namespaces : undefined;
  const mayListAll = listed === undefined && (await mayList(`${groupPath}/externalsecrets`));
  const namespaces = mayListAll ? undefined : (listed ?? [ownNamespace]);
  if (listed === undefined && !mayListAll) {
    if (!(await mayList(`${groupPath}/namespaces/${ownNamespace}/externalsecrets`))) return undefined;
    const advice = 'to serve all, permit to list and watch externalsecrets in all namespaces';
    log.warn('cannot list ExternalSecrets in all namespaces, serving one', { namespace: ownNamespace, advice });
  }
  const first = namespaces?.[0];
  const storesPath = first === undefined ? groupPath : `${groupPath}/namespaces/${first}`;
  const wantsStores = config.credentials === 'stores';
  const stores = wantsStores && (await mayList(`${storesPath}/secretstores`));
  if (wantsStores && !stores) {
    const advice = 'to use the stores, permit to list and watch secretstores';
    log.warn('cannot list SecretStores, using $VAULT_ADDR and $VAULT_TOKEN for all', { advice });
  }
  const crd = await mayList(`${CRD_COLLECTION}/${EXTERNAL_SECRET_CRD}`);
  if (!crd) {
    const advice = `to use the condition, permit to get, list and watch customresourcedefinitions ${EXTERNAL_SECRET_CRD}`;
    log.warn('cannot read the CRD of ExternalSecrets, neither writing nor removing the condition Created', { advice });
  }
  return { namespaces, stores, clusterStores: stores && (await mayList(`${groupPath}/clustersecretstores`)), crd };
}
