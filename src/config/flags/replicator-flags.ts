/** The flags of the original `k8s-replicator`; with a prefix under `run`. */
import type { ReplicatedKind, ReplicatorConfig } from '../config.ts';
import { boolFlag, durationFlag, parsedFlag, textFlag, type FlagTable, type FlagValues } from './flags.ts';
import { isSubdomain } from '../../runtime/text/dns-names.ts';
import { parseLabels, parseList } from './values.ts';

export const REPLICATOR_LEASE = 'k8s-replicator.keyferry';
/** The original's --status-address. */
export const REPLICATOR_STATUS_ADDRESS = ':9102';

const KINDS = ['secret', 'configmap'] as const;

export function replicatorFlags(prefix: '' | 'replicator-') {
  return {
    annotationsPrefix: parsedFlag(
      `${prefix}annotations-prefix`,
      'prefix',
      'k8s-replicator',
      'prefix of the annotations, before the slash',
      parsePrefix,
    ),
    allowAll: boolFlag(
      `${prefix}allow-all`,
      false,
      'allow replication of every source, also without an annotation that allows it',
    ),
    ignoreUnknown: boolFlag(`${prefix}ignore-unknown`, false, 'ignore unknown annotations with the prefix'),
    resyncPeriod: durationFlag(
      `${prefix}resync-period`,
      '30m',
      0,
      'reconcile every object again this often; 0 to disable',
    ),
    runReplicators: parsedFlag(
      `${prefix}run-replicators`,
      'kinds',
      'all',
      'comma-separated list of secret, configmap; or all',
      parseKinds,
    ),
    createWithLabels: parsedFlag(
      `${prefix}create-with-labels`,
      'labels',
      'app.kubernetes.io/managed-by=k8s-replicator',
      'labels for created objects, as k=v,k=v; may be empty',
      parseLabels,
    ),
  } satisfies FlagTable;
}

/** The original's name for --kubeconfig. */
export const kubeConfigFlag = {
  kubeConfig: textFlag('kube-config', 'path', 'same as --kubeconfig'),
} satisfies FlagTable;

export function replicatorConfig(values: FlagValues<ReturnType<typeof replicatorFlags>>): ReplicatorConfig {
  return {
    annotationsPrefix: values.annotationsPrefix,
    allowAll: values.allowAll,
    ignoreUnknown: values.ignoreUnknown,
    resyncPeriodMs: values.resyncPeriod,
    runReplicators: values.runReplicators,
    createWithLabels: values.createWithLabels,
  };
}

/** As in the original: a trailing slash is allowed, and without a prefix the annotations are bare names. */
function parsePrefix(text: string): string {
  const prefix = text.endsWith('/') ? text.slice(0, -1) : text;
  if (text !== '' && !isSubdomain(prefix)) {
    throw new RangeError('must be a DNS name, for example k8s-replicator or replicator.example.com');
  }
  return prefix;
}

function parseKinds(text: string): readonly ReplicatedKind[] {
  const items = parseList(text.toLowerCase());
  if (items.includes('all')) {
    if (items.length > 1) throw new RangeError('all cannot be combined with other kinds');
    return KINDS;
  }
  const unknown = items.find((item) => item !== 'secret' && item !== 'configmap');
  if (items.length === 0 || unknown !== undefined) throw new RangeError('must be all, or a list of secret, configmap');
  return KINDS.filter((kind) => items.includes(kind));
}
