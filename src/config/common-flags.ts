/** The flags that every daemon has, and what they become. */
import { LOG_LEVELS } from '../observe/log-level.ts';
import type { LeaderElectConfig, Surroundings } from './config.ts';
import {
  addressFlag,
  boolFlag,
  choiceFlag,
  countFlag,
  durationFlag,
  nameFlag,
  textFlag,
  type Flag,
  type FlagTable,
  type FlagValues,
} from './flags.ts';
import { isDnsLabel, isSubdomain } from '../runtime/dns-names.ts';
import { shown, UsageError } from './usage-error.ts';

const LABEL_LETTERS = "lower case letters, digits and '-'";

/** `statusAddress` is the default of --status-address; empty for systems whose original had addresses of its own. */
export function commonFlags(statusAddress: string, leaseName: string) {
  return {
    kubeconfig: textFlag('kubeconfig', 'path', 'cluster to work on (else $KUBECONFIG, ~/.kube/config, in-cluster)'),
    context: textFlag('context', 'name', 'context of the kubeconfig (else its current one)'),
    statusAddress: addressFlag('status-address', statusAddress, 'serves /metrics, /healthz and /readyz; 0 for nowhere'),
    logLevel: choiceFlag('log-level', LOG_LEVELS, 'info', 'least level that is logged'),
    maxConcurrentWrites: countFlag('kube-max-concurrent-writes', 8, 1, 256, 'writes to one API server at once'),
    watchIdleTimeout: durationFlag(
      'watch-idle-timeout',
      '90s',
      1000,
      'a watch without a byte for so long is opened again; servers send one every 60 to 75 s',
    ),
    deletionTimeout: durationFlag(
      'deletion-timeout',
      '60s',
      0,
      'longest that a SecretMirror which is being deleted waits for its copies to go; copies that are left go later',
    ),
    leaderElect: boolFlag('leader-elect', false, 'work only while holding a Lease, so that several replicas can run'),
    leaderElectNamespace: leaseNamespaceFlag(
      'leader-elect-namespace',
      'namespace of the Lease (else that of the Pod; outside of a cluster that of the context)',
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
      'a Lease not renewed for so long may be taken over',
    ),
    leaderElectRenewDeadline: durationFlag(
      'leader-elect-renew-deadline',
      '10s',
      500,
      'a leader that cannot renew for so long stops working',
    ),
    leaderElectRetryPeriod: durationFlag('leader-elect-retry-period', '2s', 100, 'between attempts to get or renew'),
  } satisfies FlagTable;
}

/** A flag for the namespace of the Lease. */
export function leaseNamespaceFlag(name: string, help: string): Flag<string | undefined> {
  return nameFlag(name, help, isDnsLabel, LABEL_LETTERS);
}

export type CommonValues = FlagValues<ReturnType<typeof commonFlags>>;

/**
 * The leader election's part. `enabled` overrides --leader-elect for originals with a flag of their own.
 * @throws UsageError if the three durations cannot work together
 */
export function leaderElectConfig(
  values: CommonValues,
  leaseName: string,
  surroundings: Surroundings,
  enabled = values.leaderElect,
): LeaderElectConfig {
  const leaseDurationMs = values.leaderElectLeaseDuration;
  const renewDeadlineMs = values.leaderElectRenewDeadline;
  const retryPeriodMs = values.leaderElectRetryPeriod;
  // As client-go demands, so that a leader notices its loss before another one can take over.
  if (leaseDurationMs <= renewDeadlineMs) {
    const text = `--leader-elect-lease-duration (${leaseDurationMs} ms) must be more than --leader-elect-renew-deadline`;
    throw new UsageError(`${text} (${renewDeadlineMs} ms)`);
  }
  if (renewDeadlineMs <= retryPeriodMs * 1.2) {
    const text = `--leader-elect-renew-deadline (${renewDeadlineMs} ms) must be more than 1.2 times`;
    throw new UsageError(`${text} --leader-elect-retry-period (${retryPeriodMs} ms)`);
  }
  const { env, hostname, uniqueId } = surroundings;
  const here = nonEmpty(env['POD_NAMESPACE']);
  if (here !== undefined && !isDnsLabel(here)) {
    throw new UsageError(`$POD_NAMESPACE: bad value ${shown(here)}: must be a name of ${LABEL_LETTERS}`);
  }
  return {
    enabled,
    namespace: values.leaderElectNamespace ?? here,
    leaseName: values.leaderElectLeaseName ?? leaseName,
    identity: `${nonEmpty(env['POD_NAME']) ?? hostname}_${uniqueId}`,
    leaseDurationMs,
    renewDeadlineMs,
    retryPeriodMs,
  };
}

/** An environment variable's value; empty counts as not set. */
export function nonEmpty(value: string | undefined): string | undefined {
  return value === '' ? undefined : value;
}
