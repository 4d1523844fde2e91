/** The flags for SecretMirrors, annotated objects, ExternalSecrets and Vault, and those of commands that read rules. */
import { parseAddressPattern } from '../../runtime/text/address-patterns.ts';
import { isSubdomain } from '../../runtime/text/dns-names.ts';
import { parsePattern } from '../../runtime/text/whole-patterns.ts';
import { LOG_LEVELS, type LogLevel } from '../../observe/log.ts';
import { CONTROLLERS } from '../controller-names.ts';
import { DEFAULT_CONTROLLERS } from '../controllers.ts';
import { NO_VAULT_ENVIRONMENT, type VaultEnvironment } from '../vault-environment.ts';
import { namespaceListFlag, namespacesFlag, originalAddressFlags } from './common-flags.ts';
import { readSyncerFlags } from './config-syncer-flags.ts';
import { limitFlags, limitsConfig, orphanFlags, pushFlags } from './limit-flags.ts';
import {
  flag,
  type FlagSections,
  flagsOf,
  type FlagTable,
  type FlagValues,
  mapValues,
  prefixed,
  type SectionValues,
  variableOf,
  withVariables,
} from './flags.ts';
import { travelFlags } from './syncsecret-flags.ts';
import { parseLabels, parseList } from './values.ts';

const CONTROLLER_LIST = CONTROLLERS.join(', ');

/** The flag of `run`. Without it, commands read the rules of its default controllers, and of those that made a copy. */
export const controllersFlag = {
  controllers: {
    ...flag.list(
      'controllers',
      'list',
      `comma-separated list of ${CONTROLLER_LIST} (default: ${DEFAULT_CONTROLLERS.join(', ')})`,
      (item) => {
        if (!CONTROLLERS.some((known) => known === item)) throw new RangeError(`must be a list of ${CONTROLLER_LIST}`);
      },
    ),
    variable: variableOf('controllers'),
  },
} satisfies FlagTable;

/** Flags for SecretMirrors that the original does not have. Under `run` they have the same names. */
export const mirrorsFlags = {
  regexMode: {
    ...flag.choice(
      'mirrors-regex',
      ['full', 'search'],
      'full',
      'how a pattern matches a namespace name: full: the whole name; search: any part of it, as in ktsstudio/mirrors',
    ),
    variable: variableOf('mirrors-regex'),
  },
  allowCrossNamespaceAuth: flag.bool(
    'allow-cross-namespace-auth',
    'allow a SecretMirror to use a Vault login Secret of another namespace',
  ),
} satisfies FlagTable;

/** The address flags of the original mirrors operator. */
export const mirrorsAddressFlags = originalAddressFlags('metrics-bind-address', ':8080');

/** Settings of the original that have no effect in Keyferry, as sentences for the log. */
export function mirrorsNotes(env: Readonly<Record<string, string | undefined>>): string[] {
  if (env['ENABLE_WEBHOOKS'] === undefined) return [];
  return ['ENABLE_WEBHOOKS has no effect: the CRD validates SecretMirrors, there is no webhook'];
}

const KINDS = ['secret', 'configmap'] as const;

/** The flags of the original k8s-replicator that say how annotations are read. */
const annotationFlags = withVariables(
  {
    annotationsPrefix: flag.parsed(
      'annotations-prefix',
      'prefix',
      'k8s-replicator',
      'prefix of the annotations, before the slash',
      parsePrefix,
    ),
    allowAll: flag.bool('allow-all', 'allow replication of every source, also without an annotation that allows it'),
    ignoreUnknown: flag.bool(
      'ignore-unknown',
      'ignore unknown annotations with the prefix; by default, an object that has one is not replicated',
    ),
    runReplicators: flag.parsed(
      'run-replicators',
      'kinds',
      'all',
      'the kinds to replicate: comma-separated list of secret, configmap; or all',
      parseKinds,
    ),
  },
  'replicator-',
);

/** The flags of the original k8s-replicator, which have a prefix under `run`, and `--source-grace`, which has none. */
export const replicatorFlags = {
  ...annotationFlags,
  resyncPeriodMs: {
    ...flag.duration('resync-period', '30m', 'accepted; watches show every change'),
    note: () => 'the resync period has no effect: watches show every change',
  },
  createWithLabels: flag.parsed(
    'create-with-labels',
    'labels',
    'app.kubernetes.io/managed-by=k8s-replicator',
    'labels for created objects, as k=v,k=v; may be empty',
    parseLabels,
  ),
  sourceGraceMs: flag.duration(
    'source-grace',
    '5s',
    'time that a source must be gone before its copies are deleted or emptied; 0: at once, as k8s-replicator does',
  ),
} satisfies FlagTable;

/** The setting of reflector. There it is only an environment variable. Under `run` it has the same name. */
export const reflectorFlags = {
  excludedNamespaces: {
    ...flag.list(
      'reflector-excluded-namespaces',
      'globs',
      'comma-separated list of globs (* and ?): annotations of reflector on objects in these namespaces have no effect, but mirrors are made there',
      () => undefined,
    ),
    variable: variableOf('reflector-excluded-namespaces'),
  },
} satisfies FlagTable;

/** Keeps the sign of an empty list: the original has this default. @throws RangeError */
function parseExcluded(text: string): readonly string[] {
  const items = parseList(text);
  for (const item of items) parsePattern(item);
  return items;
}

/** The flags of mittwald/kubernetes-replicator that have an effect, which have a prefix under `run`. */
export const originalMittwaldFlags = {
  allowAll: flag.bool('allow-all', 'allow to pull from every source, also from one that forbids it'),
  excludeNamespaces: flag.parsed(
    'exclude-namespaces',
    'patterns',
    '',
    'comma-separated list of patterns (RE2); annotations push nothing into a namespace if one matches a part of its name',
    parseExcluded,
  ),
  replicateSecrets: flag.bool('replicate-secrets', 'serve Secrets', true),
  replicateConfigMaps: flag.bool('replicate-configmaps', 'serve ConfigMaps', true),
  // Keyferry never copies what gives permissions. It says so on the objects.
  replicateRoles: flag.bool('replicate-roles', 'warn of Roles with the annotations: they are not copied', true),
  replicateRoleBindings: flag.bool('replicate-role-bindings', 'the same for RoleBindings', true),
  replicateServiceAccounts: flag.bool('replicate-service-accounts', 'the same for ServiceAccounts', true),
} satisfies FlagTable;

/** What the original lacks. Under `run` these flags have the same names. */
const ownMittwaldFlags = {
  regex: flag.choice(
    'mittwald-regex',
    ['whole', 'original'],
    'whole',
    'how a pattern such as a|b matches a namespace name: whole: all of it; original: names that begin with a or end with b',
  ),
  configMapsUngated: flag.bool(
    'mittwald-configmaps-ungated',
    'as in the original, everybody may pull every ConfigMap, without a permission of its source',
  ),
  mergeForeign: flag.bool(
    'mittwald-merge-foreign',
    'as in the original, annotations push keys into objects of users that did not consent',
  ),
} satisfies FlagTable;

/** Under `run`, and for commands that read rules. */
export const mittwaldFlags = withVariables({ ...prefixed('mittwald-', originalMittwaldFlags), ...ownMittwaldFlags });

/** For `keyferry mittwald`. */
export const mittwaldCommandFlags = {
  ...withVariables(originalMittwaldFlags, 'mittwald-'),
  ...withVariables(ownMittwaldFlags),
} satisfies FlagTable;

/** The flags of the original that have no effect, or set a flag of Keyferry. */
export const mittwaldNoEffectFlags = {
  statusAddr: { ...flag.address('status-addr', '', 'same as --status-address'), sets: 'status-address' },
  resyncPeriod: {
    ...flag.duration('resync-period', '30m', 'accepted; watches show every change'),
    note: () => 'the resync period has no effect: watches show every change',
  },
  syncByContent: flag.bool('sync-by-content', 'accepted; data are always compared'),
} satisfies FlagTable;

/** The log levels of the original are those of logrus. */
export const mittwaldLogLevel = flag.parsed('log-level', 'level', 'info', 'minimum log level', (text): LogLevel => {
  const level = text.toLowerCase();
  if (level === 'trace') return 'debug';
  if (level === 'warning') return 'warn';
  if (level === 'fatal' || level === 'panic') return 'error';
  const known = LOG_LEVELS.find((one) => one === level);
  if (known === undefined) throw new RangeError('must be trace, debug, info, warn, error, fatal or panic');
  return known;
});

/** The original k8s-replicator has this flag in place of --kubeconfig. */
export const kubeConfigFlag = {
  kubeConfig: { ...flag.text('kube-config', 'path', 'same as --kubeconfig'), sets: 'kubeconfig' },
} satisfies FlagTable;

/** As in the original, a trailing slash is allowed. The empty prefix means annotations without a prefix. */
function parsePrefix(text: string): string {
  const prefix = text.endsWith('/') ? text.slice(0, -1) : text;
  if (text !== '' && !isSubdomain(prefix)) {
    throw new RangeError('must be a DNS name, for example k8s-replicator or replicator.example.com');
  }
  return prefix;
}

function parseKinds(text: string): readonly (typeof KINDS)[number][] {
  const items = parseList(text.toLowerCase());
  if (items.includes('all')) {
    if (items.length > 1) throw new RangeError('all cannot be combined with other kinds');
    return KINDS;
  }
  const unknown = items.find((item) => item !== 'secret' && item !== 'configmap');
  if (items.length === 0 || unknown !== undefined) throw new RangeError('must be all, or a list of secret, configmap');
  return KINDS.filter((kind) => items.includes(kind));
}

/** The flags of the generator. Under `run` they have a prefix. The original has only environment variables. */
export const generatorFlags = {
  all: flag.bool(
    'all',
    'make values for every failing ExternalSecret, except with the annotation create: "false" (default: only with create: "true")',
  ),
  namespaces: namespaceListFlag(
    'namespaces',
    'comma-separated list of the namespaces to serve (default: all; without permission to list all, only its own)',
  ),
  credentials: flag.choice(
    'credentials',
    ['stores', 'environment'],
    'stores',
    'stores: log in to Vault as the SecretStore of each ExternalSecret does; environment: log in to $VAULT_ADDR with $VAULT_TOKEN for all (also used without permission to list SecretStores)',
  ),
} satisfies FlagTable;

/** The flags of all controllers that use Vault. */
export const vaultFlags = {
  addresses: flag.list(
    'vault-addresses',
    'patterns',
    'Vault servers that rules may use, for example https://*.vault.svc:8200 (default: all except link-local and metadata addresses). ServiceAccount tokens that the API server accepts are sent only to these servers',
    parseAddressPattern,
  ),
  timeoutMs: flag.duration(
    'vault-timeout',
    '60s',
    'timeout of Vault calls that create credentials; other calls time out after 10s at most',
    1,
  ),
} satisfies FlagTable;

export type VaultConfig = FlagValues<typeof vaultFlags> & {
  /** Settings from the environment variables of Vault's client. The fields of a rule win over them. */
  readonly environment: VaultEnvironment;
};

/** @param given the names of the flags on the command line */
export function vaultConfig(
  { addresses, timeoutMs }: FlagValues<typeof vaultFlags>,
  environment = NO_VAULT_ENVIRONMENT,
  given: ReadonlySet<string> = new Set(),
): VaultConfig {
  // In Vault's own client, VAULT_CLIENT_TIMEOUT=0 means the default.
  const fromEnvironment = given.has('vault-timeout') ? undefined : environment.timeoutMs || undefined;
  return { addresses, timeoutMs: fromEnvironment ?? timeoutMs, environment };
}

/** The flags of commands such as `status`, which read a cluster as the operator does, by sections of ReadingConfig. */
export const readingFlags = {
  operator: {
    controllers: {
      ...controllersFlag.controllers,
      sameAs: 'operator',
      help: 'its controllers (default: mirrors, replicator, generator, those of SyncSecrets, and the others if they made a copy)',
    },
  },
  scope: sameAsFor('operator', namespacesFlag),
  limits: sameAsFor('operator', { ...limitFlags, ...pushFlags, ...orphanFlags }),
  mirrors: sameAsFor('operator', { regexMode: mirrorsFlags.regexMode }),
  replicator: sameAsFor('replicator', prefixed('replicator-', annotationFlags)),
  reflector: sameAsFor('operator', reflectorFlags),
  configSyncer: sameAsFor('operator', readSyncerFlags),
  mittwald: sameAsFor('operator', mittwaldFlags),
  syncsecret: sameAsFor('CCM and manager', prefixed('syncsecret-', travelFlags)),
} satisfies FlagSections;

function sameAsFor<Table extends FlagTable>(runner: string, table: Table): Table {
  return mapValues(table, (one) => ({ ...one, sameAs: runner })) as Table;
}

/** @param texts the values of flags and variables, by the names of the flags @throws UsageError: flags exclude each other */
export function readingConfig(values: SectionValues<typeof readingFlags>, texts: ReadonlyMap<string, string>) {
  const { scope, limits, mirrors, replicator, reflector, configSyncer, mittwald, syncsecret } = values;
  const { controllers } = values.operator;
  return {
    ...scope,
    mirrors,
    replicator,
    reflector,
    configSyncer,
    mittwald,
    syncsecret,
    /** The controllers of the operator; `undefined`: unknown, so those that it seems to have. */
    controllers: controllers.length > 0 ? CONTROLLERS.filter((name) => controllers.includes(name)) : undefined,
    limits: limitsConfig(limits, scope.namespaces),
    /** The settings that have another value than the default, as `--name=value`. */
    assumed: flagsOf(readingFlags).flatMap(({ name, initialText }) => {
      const text = texts.get(name);
      return text === undefined || text === initialText ? [] : [`--${name}=${text}`];
    }),
  };
}
