/** The flags of config-syncer (kubed), and those of an API server that its command line may have. */
import { isIP } from 'node:net';
import { join } from 'node:path';
import type { ListenAddress } from '../../observe/listen-address.ts';
import type { LogLevel } from '../../observe/log.ts';
import { isLabelValue } from '../../runtime/text/dns-names.ts';
import { UsageError } from '../usage-error.ts';
import { namespaceFlag } from './common-flags.ts';
import { flag, type Flag, type FlagTable, type FlagValues, variableOf } from './flags.ts';

const RUN_PREFIX = 'config-syncer-';

function settings(prefix: '' | typeof RUN_PREFIX) {
  const clusterName = flag.parsed(
    `${prefix}cluster-name`,
    'name',
    '',
    'name of this cluster, in the label origin.cluster of the copies of config-syncer (kubed)',
    parseLabelValue,
  );
  const sourceNamespace = namespaceFlag(
    prefix === '' ? 'config-source-namespace' : `${prefix}source-namespace`,
    'the only namespace in which annotations of config-syncer (kubed) count (default: all)',
  );
  const kubeconfigFile = flag.text(
    `${prefix}kubeconfig-file`,
    'path',
    'kubeconfig file with the contexts that the annotation sync-contexts of config-syncer (kubed) may name',
  );
  return {
    kubeconfigFile,
    clusterName: { ...clusterName, variable: variableOf(`${RUN_PREFIX}cluster-name`) },
    sourceNamespace: { ...sourceNamespace, variable: variableOf(`${RUN_PREFIX}source-namespace`) },
  } satisfies FlagTable;
}

function parseLabelValue(text: string): string {
  if (isLabelValue(text)) return text;
  throw new RangeError('must be a value of a label: at most 63 letters, digits, -, _ and .');
}

/** The flags under `run`. */
export const configSyncerFlags = settings(RUN_PREFIX);
const { kubeconfigFile: _, ...readFlags } = configSyncerFlags;
/** Those that decide how annotations are read. */
export const readSyncerFlags = readFlags;
/** The flags of the original. */
export const originalSyncerFlags = settings('');

export type ConfigSyncerValues = FlagValues<typeof configSyncerFlags>;

/** Where the original serves its probes over HTTPS. */
export const servingFlags = {
  port: flag.count('secure-port', 8443, 0, 65_535, 'port of /healthz, /livez and /readyz over HTTPS; 0 to disable'),
  address: flag.parsed('bind-address', 'ip', '0.0.0.0', 'IP address to listen on for --secure-port', (text) => {
    if (text === '' || isIP(text) !== 0) return text;
    throw new RangeError('must be an IP address');
  }),
  folder: flag.text(
    'cert-dir',
    'path',
    'folder with apiserver.crt and apiserver.key, used if --tls-cert-file is not given',
  ),
  certificate: flag.text(
    'tls-cert-file',
    'path',
    'certificate for --secure-port; without one, there are no probes over HTTPS',
  ),
  key: flag.text('tls-private-key-file', 'path', 'private key of --tls-cert-file'),
} satisfies FlagTable;

/** A listener for probes over HTTPS. */
export interface SecureSetting {
  readonly address: ListenAddress;
  /** The flag that sets the address, for errors. */
  readonly flag: string;
  readonly certificateFile: string;
  readonly keyFile: string;
}

/** @returns `undefined`: there is no certificate, or no port @throws UsageError: a certificate without its key */
export function secureAddress(values: FlagValues<typeof servingFlags>): SecureSetting | undefined {
  const { port, address, folder, certificate, key } = values;
  if ((certificate === undefined) !== (key === undefined))
    throw new UsageError('--tls-cert-file and --tls-private-key-file belong together');
  if (port === 0) return undefined;
  const inFolder = (name: string): string | undefined => (folder === undefined ? undefined : join(folder, name));
  const [certificateFile, keyFile] = [certificate ?? inFolder('apiserver.crt'), key ?? inFolder('apiserver.key')];
  if (certificateFile === undefined || keyFile === undefined) return undefined;
  const host = address === '0.0.0.0' || address === '::' ? '' : address;
  return { address: { host, port }, flag: servingFlags.port.name, certificateFile, keyFile };
}

/** The log level of the original: a number. */
export const klogFlags = {
  level: {
    ...flag.parsed('v', 'number', '0', '4 or more: same as --log-level debug', parseLevel),
    initial: undefined,
    sets: 'log-level',
  } satisfies Flag<LogLevel | undefined>,
} satisfies FlagTable;

function parseLevel(text: string): LogLevel {
  if (!/^-?\d{1,9}$/.test(text)) throw new RangeError('must be a whole number');
  return Number(text) >= 4 ? 'debug' : 'info';
}

/** The flags of the original that Keyferry has no use for. After a `!`: a switch, which takes no value. */
const WITHOUT_EFFECT = [
  ...['log', 'webhook'].flatMap((backend) =>
    'batch-buffer-size batch-max-size batch-max-wait batch-throttle-burst !batch-throttle-enable batch-throttle-qps mode !truncate-enabled truncate-max-batch-size truncate-max-event-size version'
      .split(' ')
      .map((name) => name.replace(/^!?/, `$&audit-${backend}-`)),
  ),
  ...[
    '!audit-log-compress audit-log-format audit-log-maxage audit-log-maxbackup audit-log-maxsize audit-log-path audit-policy-file',
    'audit-webhook-config-file audit-webhook-initial-backoff !audit-dynamic-configuration',
    'authentication-kubeconfig !authentication-skip-lookup authentication-token-webhook-cache-ttl !authentication-tolerate-lookup-failure',
    'authorization-always-allow-paths authorization-kubeconfig authorization-webhook-cache-authorized-ttl',
    'authorization-webhook-cache-unauthorized-ttl burst client-ca-file !contention-profiling egress-selector-config-file',
    '!enable-swagger-ui http2-max-streams-per-connection !permit-address-sharing !permit-port-sharing !profiling qps',
    'requestheader-allowed-names requestheader-client-ca-file requestheader-extra-headers-prefix requestheader-group-headers',
    'requestheader-uid-headers requestheader-username-headers resync-period tls-cipher-suites tls-min-version tls-sni-cert-key',
    'tracing-config-file !disable-http2-serving debug-socket-path feature-gates',
    '!use-kubeapiserver-fqdn-for-aks !bypass-validating-webhook-xray !enable-analytics !analytics',
    '!alsologtostderr !logtostderr log-backtrace-at log-dir log-file log-file-max-size log-flush-frequency !one-output !add-dir-header',
    '!skip-headers !skip-log-headers stderrthreshold vmodule',
  ].flatMap((line) => line.split(' ')),
];

/** Accepted, with one line in the log for all of them. */
export const apiServerFlags: FlagTable = Object.fromEntries(
  WITHOUT_EFFECT.map((item) => {
    const name = item.replace('!', '');
    const help = 'accepted, without effect';
    const one = item.startsWith('!') ? flag.bool(name, help) : flag.text(name, 'value', help);
    return [name, { ...one, note: () => NO_EFFECT }];
  }),
);

const NO_EFFECT =
  'the flags of an API server, its audit and its authentication have no effect: metrics are at --status-address';

/**
 * The command line without its first word, if it is `run`, and with `-` for each `_` in the names of flags, as the original
 * reads it.
 */
export function originalArguments(argv: readonly string[]): readonly string[] {
  const first = argv.findIndex((word) => !word.startsWith('-'));
  const words = argv[first] === 'run' ? argv.toSpliced(first, 1) : argv;
  return words.map((word) => word.replace(/^--?[a-z][^=]*/i, (name) => name.replaceAll('_', '-')));
}
