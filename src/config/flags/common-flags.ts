/** The flags of all commands that run controllers, and flags that several of these commands share. */
import { LOG_FORMATS, LOG_LEVELS, type LogLevel } from '../../observe/log.ts';
import { isDnsLabel, isSubdomain } from '../../runtime/text/dns-names.ts';
import { quoted, UsageError } from '../usage-error.ts';
import {
  flag,
  type Flag,
  type FlagSections,
  type FlagTable,
  type FlagValues,
  type ListenSetting,
  type ProcessInfo,
  type SectionValues,
  variableOf,
} from './flags.ts';

/** The characters that the name of a namespace may have, for error messages. */
const LABEL_LETTERS = "lower case letters, digits and '-'";

/** A flag for the name of a namespace. */
export function namespaceFlag(name: string, help: string): Flag<string | undefined> {
  return flag.name(name, help, isDnsLabel, LABEL_LETTERS);
}

export function namespaceListFlag(name: string, help: string): Flag<readonly string[]> {
  return flag.list(name, 'list', help, (item) => {
    if (!isDnsLabel(item)) throw new RangeError(`must consist of ${LABEL_LETTERS}`);
  });
}

/** The namespace in an environment variable; `undefined`: not set. @throws UsageError: not a valid name */
export function namespaceIn(env: ProcessInfo['env'], variable: string): string | undefined {
  const name = env[variable] || undefined;
  if (name === undefined || isDnsLabel(name)) return name;
  throw new UsageError(`$${variable}: bad value ${quoted(name)}: must be a name of ${LABEL_LETTERS}`);
}

/** For all commands that use a cluster. */
export const clusterFlags = {
  kubeconfig: flag.text('kubeconfig', 'path', 'kubeconfig file (default: $KUBECONFIG, ~/.kube/config, in-cluster)'),
  context: flag.text('context', 'name', 'context of the kubeconfig (default: its current context)'),
} satisfies FlagTable;

/** @param statusAddress default of --status-address; empty: no default, because the original has other address flags */
export function commonFlags(statusAddress: string, leaseName: string) {
  return {
    common: {
      ...clusterFlags,
      statusAddress: flag.address(
        'status-address',
        statusAddress,
        'address of /metrics, /healthz and /readyz; 0 to disable',
      ),
      logLevel: flag.choice('log-level', LOG_LEVELS, 'info', 'minimum log level'),
      logFormat: {
        ...flag.choice('log-format', LOG_FORMATS, 'json', 'format of the log'),
        initial: undefined,
        initialText: 'text where standard error is a terminal, else json',
      },
    },
    kube: {
      maxConcurrentWrites: flag.count(
        'kube-max-concurrent-writes',
        8,
        1,
        256,
        'maximum number of concurrent writes to an API server',
      ),
      watchIdleMs: flag.duration(
        'watch-idle-timeout',
        '90s',
        'reopen a watch that receives no data for this long; API servers send data every 60 to 75s',
        1000,
      ),
    },
    election: {
      enabled: flag.bool('leader-elect', 'run controllers only while holding a Lease; required for several replicas'),
      namespace: namespaceFlag(
        'leader-elect-namespace',
        'namespace of the Lease (default: the namespace of the Pod or, outside a cluster, of the context)',
      ),
      leaseName: leaseNameFlag(leaseName),
      leaseDurationMs: flag.duration(
        'leader-elect-lease-duration',
        '15s',
        'other replicas can take over a Lease that is not renewed for this long',
        1000,
      ),
      renewDeadlineMs: flag.duration(
        'leader-elect-renew-deadline',
        '10s',
        'a leader that cannot renew the Lease for this long stops',
        500,
      ),
      retryPeriodMs: flag.duration(
        'leader-elect-retry-period',
        '2s',
        'time between attempts to acquire or renew the Lease',
        100,
      ),
    },
  } satisfies FlagSections;
}

/** For the commands with rules whose deletion waits. @param kinds the kinds of these rules, for the help */
export function deletionFlag(kinds: string) {
  const help = `maximum time for which a deleted ${kinds} waits for the deletion of its copies; copies that remain are deleted later`;
  return { deletionTimeoutMs: flag.duration('deletion-timeout', '60s', help) } satisfies FlagTable;
}

export type DeletionValues = FlagValues<ReturnType<typeof deletionFlag>>;

/** The default name of the Lease of `run`. */
export const RUN_LEASE = 'keyferry';

/** An empty text means the default name. */
export function leaseNameFlag(initial: string): Flag<string> {
  const letters = "lower case letters, digits, '-' and '.'";
  const optional = flag.name('leader-elect-lease-name', 'name of the Lease', isSubdomain, letters);
  const parse = (text: string): string => optional.parse(text) ?? initial;
  return { ...optional, initial, initialText: initial, parse, variable: variableOf(optional.name) };
}

export type CommonValues = SectionValues<ReturnType<typeof commonFlags>>;

/** The flag of commands that can serve only some namespaces, with Roles there. */
export const namespacesFlag = {
  namespaces: {
    ...namespaceListFlag(
      'namespaces',
      'comma-separated list of the only namespaces to read and write, with Roles there instead of a ClusterRole',
    ),
    initialText: 'all',
    variable: variableOf('namespaces'),
  },
} satisfies FlagTable;

export type LeaderElectConfig = CommonValues['election'] & {
  /** Differs for each process, even after a restart in the same container. */
  readonly identity: string;
};

/** @throws UsageError: the three durations do not fit together */
export function leaderElectConfig(
  election: CommonValues['election'],
  { env, hostname, uniqueId }: ProcessInfo,
): LeaderElectConfig {
  const { leaseDurationMs, renewDeadlineMs, retryPeriodMs } = election;
  // As in client-go: a leader stops before another replica can take over.
  if (leaseDurationMs <= renewDeadlineMs) {
    const text = `--leader-elect-lease-duration (${leaseDurationMs} ms) must be more than --leader-elect-renew-deadline`;
    throw new UsageError(`${text} (${renewDeadlineMs} ms)`);
  }
  if (renewDeadlineMs <= retryPeriodMs * 1.2) {
    const text = `--leader-elect-renew-deadline (${renewDeadlineMs} ms) must be more than 1.2 times`;
    throw new UsageError(`${text} --leader-elect-retry-period (${retryPeriodMs} ms)`);
  }
  const here = namespaceIn(env, 'POD_NAMESPACE');
  // The uid is in the identity because the Pods of a StatefulSet reuse their names.
  const uid = env['POD_UID'] ? `${env['POD_UID']}_` : '';
  return {
    ...election,
    namespace: election.namespace ?? here,
    identity: `${env['POD_NAME'] || hostname}_${uid}${uniqueId}`,
  };
}

/** The address flags that several originals share. */
export function originalAddressFlags(metricsFlag: string, metricsAddress: string) {
  const health = 'address of /healthz and /readyz; 0 to disable';
  return {
    metricsAddress: flag.address(metricsFlag, metricsAddress, 'address of /metrics; 0 to disable'),
    healthAddress: flag.address('health-probe-bind-address', ':8081', health),
  } satisfies FlagTable;
}

export type AddressValues = FlagValues<ReturnType<typeof originalAddressFlags>>;

/** If the user gives only --status-address, the default addresses of the original do not apply. */
export function originalAddresses(addresses: AddressValues | undefined, given: ReadonlySet<string>): AddressValues {
  const unlessReplaced = (setting: ListenSetting | undefined): ListenSetting | undefined =>
    setting !== undefined && given.has('status-address') && !given.has(setting.flag) ? undefined : setting;
  const { metricsAddress, healthAddress } = addresses ?? {};
  return { metricsAddress: unlessReplaced(metricsAddress), healthAddress: unlessReplaced(healthAddress) };
}

/** The flags of controller-runtime's logger, which several originals share. */
export const zapFlags = {
  devel: flag.sets('zap-devel', 'log-level', 'debug', 'same as --log-level debug'),
  encoder: {
    ...flag.parsed('zap-encoder', 'json|console', 'json', 'console: same as --log-format text', (text) => {
      if (text !== 'json' && text !== 'console') throw new RangeError('must be one of json, console');
      return text === 'json' ? 'json' : 'text';
    }),
    initial: undefined,
    sets: 'log-format',
  },
  logLevel: {
    ...flag.parsed('zap-log-level', 'level', 'info', 'debug, info, error or a number', parseZapLevel),
    initial: undefined,
    sets: 'log-level',
  },
  stacktraceLevel: {
    ...flag.text('zap-stacktrace-level', 'level', 'accepted; stacks are logged at level debug'),
    note: () => '--zap-stacktrace-level has no effect: stacks are logged at --log-level debug',
  },
  timeEncoding: {
    ...flag.text('zap-time-encoding', 'format', 'accepted; times are always RFC 3339'),
    note: () => '--zap-time-encoding has no effect: times are RFC 3339',
  },
} satisfies FlagTable;

/** Parses a level as zap's flag does: a name, or a number above 0 for a debug level. */
function parseZapLevel(text: string): LogLevel {
  const name = text.toLowerCase();
  if (name === 'debug' || name === 'info' || name === 'warn' || name === 'error') return name;
  if (name === 'panic' || name === 'dpanic' || name === 'fatal') return 'error';
  if (/^[1-9]\d{0,8}$/.test(name)) return 'debug';
  throw new RangeError('must be debug, info, error or a number above 0');
}
