/** The flags of every command that runs controllers. */
import { LOG_LEVELS } from '../../observe/log-level.ts';
import type { LeaderElectConfig, ProcessInfo } from '../config.ts';
import {
  addressFlag,
  boolFlag,
  choiceFlag,
  countFlag,
  durationFlag,
  listFlag,
  nameFlag,
  textFlag,
  type FlagTable,
  type FlagValues,
} from './flags.ts';
import { isDnsLabel, isSubdomain } from '../../runtime/text/dns-names.ts';
import { quoted, UsageError } from '../usage-error.ts';

/** The characters of a namespace's name, for errors. */
export const LABEL_LETTERS = "lower case letters, digits and '-'";

/** @param statusAddress the default of --status-address; empty if the original has other address flags */
export function commonFlags(statusAddress: string, leaseName: string) {
  return {
    kubeconfig: textFlag('kubeconfig', 'path', 'kubeconfig file (default: $KUBECONFIG, ~/.kube/config, in-cluster)'),
    context: textFlag('context', 'name', 'context of the kubeconfig (default: its current context)'),
    statusAddress: addressFlag(
      'status-address',
      statusAddress,
      'address of /metrics, /healthz and /readyz; 0 to disable',
    ),
    logLevel: choiceFlag('log-level', LOG_LEVELS, 'info', 'minimum log level'),
    maxConcurrentWrites: countFlag(
      'kube-max-concurrent-writes',
      8,
      1,
      256,
      'maximum number of concurrent writes to an API server',
    ),
    watchIdleTimeout: durationFlag(
      'watch-idle-timeout',
      '90s',
      1000,
      'reopen a watch that receives no data for this long; API servers send data every 60 to 75s',
    ),
    deletionTimeout: durationFlag(
      'deletion-timeout',
      '60s',
      0,
      'how long a deleted SecretMirror or SyncSecret waits until its copies are deleted; remaining copies are deleted later',
    ),
    leaderElect: boolFlag(
      'leader-elect',
      false,
      'run controllers only while holding a Lease; required for several replicas',
    ),
    leaderElectNamespace: nameFlag(
      'leader-elect-namespace',
      'namespace of the Lease (default: the namespace of the Pod or, outside a cluster, of the context)',
      isDnsLabel,
      LABEL_LETTERS,
    ),
    leaderElectLeaseName: {
      ...nameFlag(
        'leader-elect-lease-name',
        'name of the Lease',
        isSubdomain,
        "lower case letters, digits, '-' and '.'",
      ),
      initialText: leaseName,
    },
    leaderElectLeaseDuration: durationFlag(
      'leader-elect-lease-duration',
      '15s',
      1000,
      'other replicas can take over a Lease that is not renewed for this long',
    ),
    leaderElectRenewDeadline: durationFlag(
      'leader-elect-renew-deadline',
      '10s',
      500,
      'a leader that cannot renew the Lease for this long stops',
    ),
    leaderElectRetryPeriod: durationFlag(
      'leader-elect-retry-period',
      '2s',
      100,
      'time between attempts to acquire or renew the Lease',
    ),
  } satisfies FlagTable;
}

/** Of controllers that can do without rights to the whole cluster. */
export const namespacesFlag = {
  namespaces: listFlag(
    'namespaces',
    'list',
    'comma-separated list of the only namespaces to read and write, with Roles there instead of a ClusterRole (default: all)',
    (item) => {
      if (!isDnsLabel(item)) throw new RangeError(`must consist of ${LABEL_LETTERS}`);
    },
  ),
} satisfies FlagTable;

export type CommonValues = FlagValues<ReturnType<typeof commonFlags>>;

/** @throws UsageError if the three durations do not fit together */
export function leaderElectConfig(
  values: CommonValues,
  leaseName: string,
  processInfo: ProcessInfo,
): LeaderElectConfig {
  const leaseDurationMs = values.leaderElectLeaseDuration;
  const renewDeadlineMs = values.leaderElectRenewDeadline;
  const retryPeriodMs = values.leaderElectRetryPeriod;
  // The rules of client-go: a leader stops before another replica can take over.
  if (leaseDurationMs <= renewDeadlineMs) {
    const text = `--leader-elect-lease-duration (${leaseDurationMs} ms) must be more than --leader-elect-renew-deadline`;
    throw new UsageError(`${text} (${renewDeadlineMs} ms)`);
  }
  if (renewDeadlineMs <= retryPeriodMs * 1.2) {
    const text = `--leader-elect-renew-deadline (${renewDeadlineMs} ms) must be more than 1.2 times`;
    throw new UsageError(`${text} --leader-elect-retry-period (${retryPeriodMs} ms)`);
  }
  const { env, hostname, uniqueId } = processInfo;
  const here = env['POD_NAMESPACE'] || undefined;
  if (here !== undefined && !isDnsLabel(here)) {
    throw new UsageError(`$POD_NAMESPACE: bad value ${quoted(here)}: must be a name of ${LABEL_LETTERS}`);
  }
  return {
    enabled: values.leaderElect,
    namespace: values.leaderElectNamespace ?? here,
    leaseName: values.leaderElectLeaseName ?? leaseName,
    identity: `${env['POD_NAME'] || hostname}_${uniqueId}`,
    leaseDurationMs,
    renewDeadlineMs,
    retryPeriodMs,
  };
}
