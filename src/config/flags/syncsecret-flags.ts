/** The flags of KubeLB's CCM and manager, and of both roles under `run`. */
import { join } from 'node:path';
import { isDnsLabel } from '../../runtime/text/dns-names.ts';
import { parsePattern } from '../../runtime/text/whole-patterns.ts';
import { quoted, UsageError } from '../usage-error.ts';
import { namespaceFlag, namespaceIn, originalAddressFlags } from './common-flags.ts';
import { flag, type Flag, type FlagTable, type FlagValues, type ProcessInfo, withVariables } from './flags.ts';

/** KubeLB installs its manager in this namespace. */
const MANAGER_NAMESPACE = 'kubelb';

/** The prefix of tenants' namespaces in the management cluster. */
const TENANT_PREFIX = 'tenant-';

/** @throws RangeError: the item of a list is no pattern */
function checkPattern(item: string): void {
  if (item.includes('{') !== item.includes('}')) {
    throw new RangeError(`a comma ends a pattern, even inside a repetition: ${JSON.stringify(item)}`);
  }
  parsePattern(item);
}

function travelFlag(name: string, what: string): Flag<readonly string[]> {
  const help = `comma-separated list of patterns (RE2) of whole keys, may be repeated: the ${what} that copies of SyncSecrets get; .* for all`;
  return { ...flag.list(name, 'patterns', help, checkPattern), initialText: 'none' };
}

/** For CCM, manager and synchronizer. Under `run` they have a prefix. */
export const travelFlags = withVariables(
  {
    propagateLabels: travelFlag('propagate-labels', 'labels'),
    propagateAnnotations: travelFlag('propagate-annotations', 'annotations'),
  },
  'syncsecret-',
);

/** @param initial the text that the help shows as the default */
export function managerFlags(initial = 'all') {
  return {
    servedNamespaces: flag.list(
      'served-namespaces',
      'patterns',
      `comma-separated list of patterns (RE2) of whole names, may be repeated: the namespaces whose SyncSecrets become Secrets (default: ${initial})`,
      checkPattern,
    ),
  } satisfies FlagTable;
}

/** The default of --syncsecret-served-namespaces if a CCM runs in the same process. */
export const TENANT_NAMESPACES: readonly string[] = [`${TENANT_PREFIX}.*`];
/** The default of --syncsecret-served-namespaces in the help of `run`. */
export const SERVED_UNDER_RUN = `all; if syncsecret-ccm runs in the same process, ${TENANT_NAMESPACES.join(',')}`;

export const ccmFlags = {
  clusterName: flag.text(
    'cluster-name',
    'name',
    `name of the tenant; its namespace in the management cluster is ${TENANT_PREFIX}<name>`,
  ),
  kubelbKubeconfig: flag.text(
    'kubelb-kubeconfig',
    'path',
    'kubeconfig file of the management cluster (default: ~/.kube/kubelb); it is read again when it changes',
  ),
  enableSecretSynchronizer: flag.bool(
    'enable-secret-synchronizer',
    'make a SyncSecret of each Secret with the label kubelb.k8c.io/managed-by=kubelb',
  ),
} satisfies FlagTable;

export interface ManagementConfig {
  /** Path of a kubeconfig file. It is read again when it changes. */
  readonly kubeconfig: string;
  /** The flag that names the file, for messages: `--kubelb-kubeconfig`. */
  readonly flag: string;
}

/**
 * The tenant's namespace in the management cluster, and the kubeconfig of that cluster.
 * @throws UsageError, with the flag: no tenant is named, or its namespace has no valid name
 */
export function ccmConfig(
  flags: typeof ccmFlags,
  { clusterName, kubelbKubeconfig }: FlagValues<typeof ccmFlags>,
  env: ProcessInfo['env'],
): { readonly managementNamespace: string; readonly management: ManagementConfig } {
  const nameFlag = `--${flags.clusterName.name}`;
  if (clusterName === undefined) throw new UsageError(`${nameFlag} is required: the name of the tenant`);
  const managementNamespace = clusterName.startsWith(TENANT_PREFIX) ? clusterName : `${TENANT_PREFIX}${clusterName}`;
  if (!isDnsLabel(managementNamespace) || managementNamespace === TENANT_PREFIX) {
    const rule = "of lower case letters, digits and '-', with a letter or digit at the end, and at most 63 characters";
    throw new UsageError(
      `${nameFlag}: bad value ${quoted(clusterName)}: ${TENANT_PREFIX}<name> must be a namespace ${rule}`,
    );
  }
  const home = env['HOME'];
  const file = kubelbKubeconfig ?? (home ? join(home, '.kube', 'kubelb') : undefined);
  const fileFlag = `--${flags.kubelbKubeconfig.name}`;
  if (file === undefined) throw new UsageError(`${fileFlag} is required, because $HOME is not set`);
  return { managementNamespace, management: { kubeconfig: file, flag: fileFlag } };
}

/** The CCM and the manager of KubeLB share this flag. */
const electionFlag: Flag<unknown> = {
  ...flag.bool('enable-leader-election', 'same as --leader-elect', true),
  sets: 'leader-elect',
};

/** A flag of the original that concerns another part of KubeLB. */
const ignored = (name: string): Flag<unknown> => withoutEffect(flag.text(name, 'value', 'accepted; without effect'));
const ignoredSwitch = (name: string): Flag<unknown> => withoutEffect(flag.bool(name, 'accepted; without effect'));

function withoutEffect(one: Flag<unknown>): Flag<unknown> {
  return { ...one, note: () => `--${one.name} has no effect: Keyferry has only the SyncSecret part of KubeLB` };
}

export const ccmAddressFlags = originalAddressFlags('metrics-addr', ':9445');
export const managerAddressFlags = originalAddressFlags('metrics-addr', ':9443');

export const originalCcmFlags = {
  enableLeaderElection: electionFlag,
  leaderElectionNamespace: {
    ...namespaceFlag('leader-election-namespace', 'same as --leader-elect-namespace'),
    sets: 'leader-elect-namespace',
  },
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

export const originalManagerFlags = {
  enableLeaderElection: electionFlag,
  namespace: {
    ...namespaceFlag(
      'namespace',
      `namespace of the Lease (default: $NAMESPACE, the namespace of the Pod or, outside a cluster, ${MANAGER_NAMESPACE})`,
    ),
    sets: 'leader-elect-namespace',
  },
  debug: flag.sets('debug', 'log-level', 'debug', 'same as --log-level debug'),
  enableGatewayApi: ignoredSwitch('enable-gateway-api'),
  disableGatewayApi: ignoredSwitch('disable-gateway-api'),
  listenAddress: ignored('listen-address'),
  envoyCpMetricsAddr: ignored('envoy-cp-metrics-addr'),
  enableTenantMigration: ignoredSwitch('enable-tenant-migration'),
} satisfies FlagTable;

/**
 * The namespace of the manager's Lease if no flag names one; `undefined`: that of the Pod.
 * @param kubeconfig value of the flag
 * @throws UsageError for a bad $NAMESPACE
 */
export function managerNamespace(env: ProcessInfo['env'], kubeconfig: string | undefined): string | undefined {
  const hasKubeconfig = Boolean(kubeconfig || env['KUBECONFIG']);
  const named = namespaceIn(env, 'NAMESPACE');
  // In a Pod, Keyferry then uses $POD_NAMESPACE, or the namespace of the Pod's ServiceAccount.
  const isPod = env['POD_NAMESPACE'] || (env['KUBERNETES_SERVICE_HOST'] && !hasKubeconfig);
  return named ?? (isPod ? undefined : MANAGER_NAMESPACE);
}
