/** The flags of KubeLB's CCM and manager, and the flags of both roles under `run`. */
import { join } from 'node:path';
import { isDnsLabel } from '../../runtime/text/dns-names.ts';
import { parsePattern } from '../../runtime/text/whole-patterns.ts';
import type { Config, ProcessInfo, SyncSecretConfig } from '../config.ts';
import { LABEL_LETTERS } from './common-flags.ts';
import { addressFlag, boolFlag, listFlag, nameFlag, textFlag, type FlagTable, type FlagValues } from './flags.ts';
import { quoted, UsageError } from '../usage-error.ts';

/** The originals' Leases: an original and Keyferry never lead at the same time. */
export const CCM_LEASE = '19f32e7b.ccm.kubelb.k8c.io';
export const MANAGER_LEASE = '19f32e7b.kubelb.k8c.io';

/** The namespace in which KubeLB installs the manager. */
const MANAGER_NAMESPACE = 'kubelb';

/** The prefix of the tenants' namespaces in the management cluster. */
const TENANT_PREFIX = 'tenant-';

/** @throws RangeError for an item of a list that is not a pattern */
function checkPattern(item: string): void {
  if (item.includes('{') !== item.includes('}')) {
    throw new RangeError(`a comma ends a pattern, also in a repetition: ${JSON.stringify(item)}`);
  }
  parsePattern(item);
}

/** For CCM, manager and synchronizer. @param prefix of the names under `run` */
export function travelFlags(prefix: string) {
  const help = (what: string): string =>
    `comma-separated list of patterns (RE2) of whole keys, may be repeated: the ${what} that travel with SyncSecrets; .* for all`;
  const flag = (name: string, what: string) => ({
    ...listFlag(`${prefix}${name}`, 'patterns', help(what), checkPattern),
    initialText: 'none',
  });
  return {
    propagateLabels: flag('propagate-labels', 'labels'),
    propagateAnnotations: flag('propagate-annotations', 'annotations'),
  } satisfies FlagTable;
}

/** @param prefix of the names under `run` */
export function managerFlags(prefix: string) {
  // Only `run`, whose flags have a prefix, can have a CCM in the process.
  const initial = prefix === '' ? 'all' : `all; with syncsecret-ccm in the process ${TENANT_PREFIX}.*`;
  return {
    servedNamespaces: listFlag(
      `${prefix}served-namespaces`,
      'patterns',
      `comma-separated list of patterns (RE2) of whole names, may be repeated: the namespaces whose SyncSecrets become Secrets (default: ${initial})`,
      checkPattern,
    ),
  } satisfies FlagTable;
}

type SyncSecretValues = Partial<FlagValues<ReturnType<typeof managerFlags>>> &
  FlagValues<ReturnType<typeof travelFlags>>;

/** @param managementNamespace of the CCM */
export function syncSecretConfig(
  { propagateLabels, propagateAnnotations, servedNamespaces = [] }: SyncSecretValues,
  managementNamespace?: string,
): SyncSecretConfig {
  return { managementNamespace, servedNamespaces, propagateLabels, propagateAnnotations };
}

/** @param prefix of the names under `run` */
export function ccmFlags(prefix: string) {
  return {
    clusterName: textFlag(
      `${prefix}cluster-name`,
      'name',
      `name of the tenant; its namespace in the management cluster is ${TENANT_PREFIX}<name>`,
    ),
    kubelbKubeconfig: textFlag(
      `${prefix}kubelb-kubeconfig`,
      'path',
      'kubeconfig file of the management cluster (default: ~/.kube/kubelb); it is read again when it changes',
    ),
    enableSecretSynchronizer: boolFlag(
      `${prefix}enable-secret-synchronizer`,
      false,
      'make a SyncSecret of each Secret with the label kubelb.k8c.io/managed-by=kubelb',
    ),
  } satisfies FlagTable;
}

export type CcmValues = FlagValues<ReturnType<typeof ccmFlags>> & SyncSecretValues;

/** @throws UsageError naming the flag, if there is no tenant or its namespace is not a valid name */
export function ccmConfig(
  values: CcmValues,
  prefix: string,
  { env }: Pick<ProcessInfo, 'env'>,
): Pick<Config, 'syncsecret' | 'management'> {
  const { clusterName, kubelbKubeconfig } = values;
  const flag = `--${prefix}cluster-name`;
  if (clusterName === undefined) throw new UsageError(`${flag} is required: the name of the tenant`);
  const managementNamespace = clusterName.startsWith(TENANT_PREFIX) ? clusterName : `${TENANT_PREFIX}${clusterName}`;
  if (!isDnsLabel(managementNamespace) || managementNamespace === TENANT_PREFIX) {
    const rule = "of lower case letters, digits and '-', with a letter or digit at the end, and at most 63 characters";
    throw new UsageError(
      `${flag}: bad value ${quoted(clusterName)}: ${TENANT_PREFIX}<name> must be a namespace ${rule}`,
    );
  }
  const home = env['HOME'];
  const file = kubelbKubeconfig ?? (home ? join(home, '.kube', 'kubelb') : undefined);
  const fileFlag = `--${prefix}kubelb-kubeconfig`;
  if (file === undefined) throw new UsageError(`${fileFlag} is required, because $HOME is not set`);
  return {
    syncsecret: syncSecretConfig(values, managementNamespace),
    management: { kubeconfig: file, flag: fileFlag },
  };
}

/** Flags that the CCM and the manager of KubeLB share. */
function originalFlags(metricsAddress: string) {
  return {
    metricsAddr: addressFlag('metrics-addr', metricsAddress, 'address of /metrics; 0 to disable'),
    healthProbeBindAddress: addressFlag(
      'health-probe-bind-address',
      ':8081',
      'address of /healthz and /readyz; 0 to disable',
    ),
    enableLeaderElection: boolFlag('enable-leader-election', true, 'same as --leader-elect'),
  } satisfies FlagTable;
}

/** A flag of the original for another part of KubeLB. */
const ignored = (name: string) => textFlag(name, 'value', 'accepted; without effect');
const ignoredSwitch = (name: string) => boolFlag(name, false, 'accepted; without effect');

const ccmIgnored = {
  nodeAddressType: ignored('node-address-type'),
  enableCloudProvider: ignoredSwitch('enable-cloud-provider'),
  useIngressClass: ignoredSwitch('use-ingress-class'),
  useLoadbalancerClass: ignoredSwitch('use-loadbalancer-class'),
  useGatewayClass: ignoredSwitch('use-gateway-class'),
  disableIngressController: ignoredSwitch('disable-ingress-controller'),
  disableGatewayController: ignoredSwitch('disable-gateway-controller'),
  disableHttprouteController: ignoredSwitch('disable-httproute-controller'),
  disableGrpcrouteController: ignoredSwitch('disable-grpcroute-controller'),
  disableGatewayApi: ignoredSwitch('disable-gateway-api'),
  enableGatewayApi: ignoredSwitch('enable-gateway-api'),
  installGatewayApiCrds: ignoredSwitch('install-gateway-api-crds'),
  gatewayApiCrdsChannel: ignored('gateway-api-crds-channel'),
} satisfies FlagTable;

const managerIgnored = {
  enableGatewayApi: ignoredSwitch('enable-gateway-api'),
  disableGatewayApi: ignoredSwitch('disable-gateway-api'),
  listenAddress: ignored('listen-address'),
  envoyCpMetricsAddr: ignored('envoy-cp-metrics-addr'),
  enableTenantMigration: ignoredSwitch('enable-tenant-migration'),
} satisfies FlagTable;

export const originalCcmFlags = {
  ...originalFlags(':9445'),
  leaderElectionNamespace: nameFlag(
    'leader-election-namespace',
    'same as --leader-elect-namespace',
    isDnsLabel,
    LABEL_LETTERS,
  ),
  ...ccmIgnored,
} satisfies FlagTable;

export const originalManagerFlags = {
  ...originalFlags(':9443'),
  namespace: nameFlag(
    'namespace',
    `namespace of the Lease (default: $NAMESPACE, the namespace of the Pod or, outside a cluster, ${MANAGER_NAMESPACE})`,
    isDnsLabel,
    LABEL_LETTERS,
  ),
  debug: boolFlag('debug', false, 'same as --log-level debug'),
  ...managerIgnored,
} satisfies FlagTable;

/**
 * The namespace of the manager's Lease without a flag.
 * @param kubeconfig of the flag
 * @throws UsageError for a bad $NAMESPACE
 */
export function managerNamespace(
  { env }: Pick<ProcessInfo, 'env'>,
  kubeconfig: string | undefined,
): string | undefined {
  const hasKubeconfig = Boolean(kubeconfig || env['KUBECONFIG']);
  const named = env['NAMESPACE'] || undefined;
  if (named !== undefined && !isDnsLabel(named)) {
    throw new UsageError(`$NAMESPACE: bad value ${quoted(named)}: must be a name of ${LABEL_LETTERS}`);
  }
  // Without a namespace, that of the Pod is used: $POD_NAMESPACE, or that of its ServiceAccount.
  const isPod = env['POD_NAMESPACE'] || (env['KUBERNETES_SERVICE_HOST'] && !hasKubeconfig);
  return named ?? (isPod ? undefined : MANAGER_NAMESPACE);
}

/** Flags of the original that were given and have no effect, as sentences for the log. */
export function ignoredNotes(given: ReadonlySet<PropertyKey>): string[] {
  const table: FlagTable = { ...ccmIgnored, ...managerIgnored };
  return Object.entries(table)
    .filter(([key]) => given.has(key))
    .map(([, { name }]) => `--${name} has no effect: Keyferry has only the SyncSecret part of KubeLB`);
}
