/** The flags of KubeLB's CCM and manager that concern SyncSecrets: as they were for their commands, prefixed under `run`. */
import { leaseNamespaceFlag, nonEmpty } from './common-flags.ts';
import type { Surroundings, SyncSecretConfig } from './config.ts';
import { addressFlag, boolFlag, parsedFlag, textFlag, type FlagTable, type FlagValues } from './flags.ts';
import { isSubdomain } from '../runtime/dns-names.ts';

/** The Leases of the originals, so that they and Keyferry never work at the same time. */
export const CCM_LEASE = '19f32e7b.ccm.kubelb.k8c.io';
export const MANAGER_LEASE = '19f32e7b.kubelb.k8c.io';

type Prefix = '' | 'syncsecret-';

export function ccmFlags(prefix: Prefix) {
  return {
    clusterName: parsedFlag(
      `${prefix}cluster-name`,
      'name',
      '',
      'name of the tenant; the CCM needs it',
      parseClusterName,
    ),
    kubelbKubeconfig: {
      ...textFlag(`${prefix}kubelb-kubeconfig`, 'path', 'kubeconfig of the management cluster'),
      initialText: '$HOME/.kube/kubelb',
    },
    enableSecretSynchronizer: boolFlag(
      `${prefix}enable-secret-synchronizer`,
      false,
      'make SyncSecrets of Secrets labelled kubelb.k8c.io/managed-by=kubelb',
    ),
  } satisfies FlagTable;
}

export function managerFlags(prefix: Prefix) {
  return {
    namespace: {
      ...textFlag(`${prefix}namespace`, 'name', 'own namespace of the manager (else $NAMESPACE)'),
      initialText: 'kubelb',
    },
  } satisfies FlagTable;
}

/** What only the CCM's own command has. */
export const originalCcmFlags = {
  leaderElectionNamespace: leaseNamespaceFlag('leader-election-namespace', 'same as --leader-elect-namespace'),
} satisfies FlagTable;

/** What only the manager's own command has. */
export const originalManagerFlags = {
  debug: boolFlag('debug', false, 'same as --log-level debug'),
} satisfies FlagTable;

/** What both originals have besides. `metrics` is the default of --metrics-addr. */
export function originalKubelbFlags(metrics: ':9445' | ':9443') {
  return {
    metricsAddr: addressFlag('metrics-addr', metrics, 'serves /metrics; 0 for nowhere'),
    healthProbeBindAddress: addressFlag('health-probe-bind-address', ':8081', 'serves /healthz and /readyz'),
    enableLeaderElection: boolFlag('enable-leader-election', true, 'as --leader-elect, which wins if both are given'),
  } satisfies FlagTable;
}

type Values = FlagValues<ReturnType<typeof ccmFlags>> & FlagValues<ReturnType<typeof managerFlags>>;

/** The SyncSecret part of the Config. */
export function syncSecretConfig(values: Partial<Values>, { env }: Surroundings): SyncSecretConfig {
  return {
    clusterName: values.clusterName,
    kubelbKubeconfig: values.kubelbKubeconfig ?? `${env['HOME'] ?? ''}/.kube/kubelb`,
    secretSynchronizer: values.enableSecretSynchronizer ?? false,
    namespace: values.namespace ?? nonEmpty(env['NAMESPACE']) ?? 'kubelb',
  };
}

function parseClusterName(text: string): string | undefined {
  if (text === '') return undefined;
  // It becomes part of a namespace's name.
  if (!isSubdomain(text) || text.includes('.') || text.length > 56) {
    throw new RangeError('must be lower case letters, digits and -, at most 56');
  }
  return text;
}
