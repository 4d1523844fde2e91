/** The commands that run controllers: `run` for all controllers, and for each original a command with its flags. */
import { base, controllerCommand, type ControllerCommand } from './command.ts';
import { commonFlags, deletionFlag, namespacesFlag, RUN_LEASE, zapFlags } from './flags/common-flags.ts';
import { CONTROLLERS } from './controller-names.ts';
import { type ControllerName, DEFAULT_CONTROLLERS } from './controllers.ts';
import {
  controllersFlag,
  generatorFlags,
  kubeConfigFlag,
  mirrorsAddressFlags,
  mirrorsFlags,
  mirrorsNotes,
  mittwaldCommandFlags,
  mittwaldFlags,
  mittwaldLogLevel,
  mittwaldNoEffectFlags,
  reflectorFlags,
  replicatorFlags,
  vaultFlags,
} from './flags/controller-flags.ts';
import { type FlagTable, prefixed } from './flags/flags.ts';
import {
  limitFlags,
  NO_LABELS,
  orphanFlags,
  patternLimitFlags,
  pushFlags,
  refuseSelectors,
} from './flags/limit-flags.ts';
import {
  ccmAddressFlags,
  ccmConfig,
  ccmFlags,
  managerAddressFlags,
  managerFlags,
  managerNamespace,
  originalCcmFlags,
  originalManagerFlags,
  SERVED_UNDER_RUN,
  TENANT_NAMESPACES,
  travelFlags,
} from './flags/syncsecret-flags.ts';
import {
  apiServerFlags,
  configSyncerFlags,
  klogFlags,
  originalArguments,
  originalSyncerFlags,
  secureAddress,
  servingFlags,
} from './flags/config-syncer-flags.ts';
import { reflectorConfig } from './reflector-environment.ts';
import { UsageError } from './usage-error.ts';

/** The Leases. If an original has a Lease, Keyferry uses the same, so that both never lead at the same time. */
const MIRRORS_LEASE = '7e6f5103.kts.studio';
const CCM_LEASE = '19f32e7b.ccm.kubelb.k8c.io';
const MANAGER_LEASE = '19f32e7b.kubelb.k8c.io';
const REPLICATOR_LEASE = 'k8s-replicator.keyferry';
const REFLECTOR_LEASE = 'keyferry-reflector';
const CONFIG_SYNCER_LEASE = 'keyferry-config-syncer';
const MITTWALD_LEASE = 'keyferry-mittwald';
const GENERATOR_LEASE = 'keyferry-generator';
const USING_VAULT: ReadonlySet<ControllerName> = new Set<ControllerName>(['mirrors', 'generator']);
/** The controllers that copy into namespaces which may consent. */
const CONSENTED: ReadonlySet<ControllerName> = new Set<ControllerName>([
  'mirrors',
  'replicator',
  'reflector',
  'config-syncer',
  'mittwald',
]);
/** The prefixes of annotations that are fixed, so that --replicator-annotations-prefix cannot be the same. */
const PREFIXES: Readonly<Partial<Record<ControllerName, string>>> = {
  reflector: 'reflector.v1.k8s.emberstack.com',
  'config-syncer': 'kubed.appscode.com',
  mittwald: 'replicator.v1.mittwald.de',
};
const SYNC_SECRET_PREFIX = 'syncsecret-';
const { sourceGraceMs, ...originalFlags } = replicatorFlags;
const K8S_REPLICATOR: ReadonlySet<string> = new Set(flagNames(originalFlags));

/** The commands in the order in which the help lists them. */
export const CONTROLLER_COMMANDS: readonly ControllerCommand[] = [
  runCommand(),
  mirrorsCommand(),
  replicatorCommand(),
  ccmCommand(),
  managerCommand(),
  generatorCommand(),
  reflectorCommand(),
  configSyncerCommand(),
  mittwaldCommand(),
];

/** @returns `undefined`: no command of this name runs controllers */
export function findControllerCommand(name: string): ControllerCommand | undefined {
  return CONTROLLER_COMMANDS.find((command) => command.name === name);
}

/** `run`: all controllers in one process. If several originals have a flag, it begins with its controller's name. */
function runCommand(): ControllerCommand {
  const sections = {
    run: controllersFlag,
    ...commonFlags(':8080', RUN_LEASE),
    deletion: deletionFlag('SecretMirror or SyncSecret'),
    scope: namespacesFlag,
    limits: { ...limitFlags, ...pushFlags, ...orphanFlags },
    mirrors: mirrorsFlags,
    vault: vaultFlags,
    replicator: { ...prefixed('replicator-', replicatorFlags), sourceGraceMs },
    reflector: reflectorFlags,
    configSyncer: configSyncerFlags,
    mittwald: mittwaldFlags,
    ccm: prefixed(SYNC_SECRET_PREFIX, ccmFlags),
    manager: prefixed(SYNC_SECRET_PREFIX, managerFlags(SERVED_UNDER_RUN)),
    travel: prefixed(SYNC_SECRET_PREFIX, travelFlags),
    generator: prefixed('generator-', generatorFlags),
  };
  return controllerCommand({
    name: 'run',
    summary:
      'run mirrors, replicator and generator as far as their APIs are installed, or the controllers that --controllers names',
    examples: [
      'keyferry run',
      'keyferry run --controllers mirrors --leader-elect --status-address :9102',
      'keyferry run --controllers mirrors,syncsecret-ccm --syncsecret-cluster-name primary',
    ],
    sections,
    toConfig: (parsed, processInfo) => {
      const { values, given } = parsed;
      const { namespaces } = values.scope;
      const controllersNamed = values.run.controllers.length > 0;
      const named = controllersNamed
        ? CONTROLLERS.filter((name) => values.run.controllers.includes(name))
        : DEFAULT_CONTROLLERS;
      const hasCcm = named.includes('syncsecret-ccm');
      if (!hasCcm) refuseFlags(sections.ccm, given, 'syncsecret-ccm');
      if (!named.includes('syncsecret-manager')) refuseFlags(sections.manager, given, 'syncsecret-manager');
      const controllers = withSynchronizer(named, hasCcm && values.ccm.enableSecretSynchronizer);
      const wide = controllers.find((name) => name.startsWith(SYNC_SECRET_PREFIX));
      if (wide === undefined) refuseFlags(sections.travel, given, 'a controller of SyncSecrets');
      if (namespaces.length > 0 && wide !== undefined) {
        throw new UsageError(`--namespaces: ${wide} serves every namespace, because tenants come and go`);
      }
      const { vault: _, ...others } = values;
      const usesVault = controllers.some((name) => USING_VAULT.has(name));
      const config = base(usesVault ? parsed : { ...parsed, values: others }, processInfo);
      if (wide !== undefined) refuseSelectors(config.limits, NO_LABELS);
      if (!controllers.includes('reflector'))
        refuseFlags({ ...sections.reflector, push: pushFlags.reflectorPush }, given, 'reflector');
      if (!controllers.includes('config-syncer')) refuseFlags(sections.configSyncer, given, 'config-syncer');
      if (!controllers.includes('mittwald'))
        refuseFlags({ ...sections.mittwald, push: pushFlags.mittwaldPush }, given, 'mittwald');
      const { annotationsPrefix } = values.replicator;
      const same = controllers.find((name) => PREFIXES[name] === annotationsPrefix);
      if (same !== undefined && controllers.includes('replicator'))
        throw new UsageError(`--replicator-annotations-prefix: ${annotationsPrefix} is the prefix of ${same}`);
      if (!controllers.some((name) => CONSENTED.has(name)))
        refuseFlags({ consent: limitFlags.requireConsent }, given, `one of ${[...CONSENTED].join(', ')}`);
      const ccm = hasCcm ? ccmConfig(sections.ccm, values.ccm, processInfo.env) : undefined;
      // In one cluster, a manager that serves all namespaces would serve the SyncSecrets of the CCM, too.
      const hasBoth = hasCcm && named.includes('syncsecret-manager');
      const { servedNamespaces } = config.syncsecret;
      const served = hasBoth && servedNamespaces.length === 0 ? TENANT_NAMESPACES : servedNamespaces;
      return {
        ...config,
        controllers,
        controllersNamed,
        generator: values.generator.namespaces.length > 0 ? values.generator : { ...values.generator, namespaces },
        syncsecret: {
          ...config.syncsecret,
          servedNamespaces: served,
          managementNamespace: ccm?.managementNamespace,
        },
        management: ccm?.management,
      };
    },
  });
}

/** @throws UsageError if a flag of this table is given: without its controller it would have no effect */
function refuseFlags(table: FlagTable, given: ReadonlySet<string>, controller: string): void {
  for (const { name } of Object.values(table)) {
    if (given.has(name)) throw new UsageError(`--${name} needs ${controller} in --controllers`);
  }
}

function mirrorsCommand(): ControllerCommand {
  const sections = {
    ...commonFlags('', MIRRORS_LEASE),
    deletion: deletionFlag('SecretMirror'),
    addresses: mirrorsAddressFlags,
    zap: zapFlags,
    scope: namespacesFlag,
    limits: limitFlags,
    mirrors: mirrorsFlags,
    vault: vaultFlags,
  };
  return controllerCommand({
    name: 'mirrors',
    summary: 'run only the SecretMirror controller, with the flags of the original mirrors operator',
    examples: ['keyferry mirrors --leader-elect --metrics-bind-address=127.0.0.1:8080'],
    original: {
      binary: 'manager',
      flags: ['kubeconfig', 'leader-elect', ...flagNames(mirrorsAddressFlags, zapFlags)],
    },
    sections,
    toConfig: (parsed, processInfo) => {
      const config = base(parsed, processInfo);
      return { ...config, controllers: ['mirrors'], notes: [...mirrorsNotes(processInfo.env), ...config.notes] };
    },
  });
}

function replicatorCommand(): ControllerCommand {
  const sections = {
    // `:9102` is the default of the original's --status-address.
    ...commonFlags(':9102', REPLICATOR_LEASE),
    scope: namespacesFlag,
    limits: { ...limitFlags, replicatorPush: pushFlags.replicatorPush, ...orphanFlags },
    original: kubeConfigFlag,
    replicator: replicatorFlags,
  };
  return controllerCommand({
    name: 'replicator',
    summary: 'run only the controller for annotated Secrets and ConfigMaps, with the flags of k8s-replicator',
    examples: ['keyferry replicator -allow-all -resync-period 1h'],
    original: { binary: 'k8s-replicator', flags: ['status-address', ...flagNames(kubeConfigFlag, originalFlags)] },
    sections,
    toConfig: (parsed, processInfo) => ({ ...base(parsed, processInfo), controllers: ['replicator'] }),
  });
}

function ccmCommand(): ControllerCommand {
  const common = { ...commonFlags('', CCM_LEASE), deletion: deletionFlag('SyncSecret'), limits: patternLimitFlags };
  const own = { ccm: ccmFlags, addresses: ccmAddressFlags, original: originalCcmFlags };
  const sections = { ...common, ...own, travel: travelFlags, zap: zapFlags };
  return controllerCommand({
    name: 'syncsecret-ccm',
    summary: 'run only the SyncSecret controller of a tenant cluster, with the flags of the KubeLB CCM',
    examples: ['keyferry syncsecret-ccm --cluster-name primary --kubelb-kubeconfig ~/.kube/kubelb'],
    original: {
      binary: 'ccm',
      flags: ['kubeconfig', ...flagNames(ccmFlags, ccmAddressFlags, originalCcmFlags, zapFlags)],
    },
    sections,
    toConfig: (parsed, processInfo) => {
      const { ccm } = parsed.values;
      const common = base(parsed, processInfo);
      const { managementNamespace, management } = ccmConfig(ccmFlags, ccm, processInfo.env);
      return {
        ...common,
        controllers: withSynchronizer(['syncsecret-ccm'], ccm.enableSecretSynchronizer),
        syncsecret: { ...common.syncsecret, managementNamespace },
        management,
      };
    },
  });
}

function managerCommand(): ControllerCommand {
  const sections = {
    ...commonFlags('', MANAGER_LEASE),
    deletion: deletionFlag('SyncSecret'),
    limits: patternLimitFlags,
    addresses: managerAddressFlags,
    zap: zapFlags,
    original: originalManagerFlags,
    manager: managerFlags(),
    travel: travelFlags,
  };
  return controllerCommand({
    name: 'syncsecret-manager',
    summary: 'run only the SyncSecret controller of the management cluster, with the flags of the KubeLB manager',
    examples: ['keyferry syncsecret-manager --namespace kubelb'],
    original: {
      binary: 'kubelb',
      flags: ['kubeconfig', ...flagNames(managerAddressFlags, originalManagerFlags, zapFlags)],
    },
    sections,
    toConfig: (parsed, processInfo) => {
      const { common, election } = parsed.values;
      const namespace = election.namespace ?? managerNamespace(processInfo.env, common.kubeconfig);
      const values = { ...parsed.values, election: { ...election, namespace } };
      return { ...base({ ...parsed, values }, processInfo), controllers: ['syncsecret-manager'] };
    },
  });
}

function generatorCommand(): ControllerCommand {
  const sections = {
    ...commonFlags(':8080', GENERATOR_LEASE),
    generator: generatorFlags,
    vault: vaultFlags,
  };
  return controllerCommand({
    name: 'generator',
    summary:
      'run only the generator of values that ExternalSecrets miss in Vault, with the environment variables of the original Bash controller',
    examples: ['keyferry generator', 'VAULT_ADDR=http://vault.vault:8200 keyferry generator --credentials environment'],
    // The Bash controller has no flags.
    original: { binary: 'controller.sh', flags: [] },
    sections,
    toConfig: (parsed, processInfo) => {
      const { values, given } = parsed;
      const { env } = processInfo;
      return {
        ...base(parsed, processInfo),
        controllers: ['generator'],
        // As in the original, any text in $DEBUG, even `false`, means the log level debug.
        logLevel: env['DEBUG'] && !given.has('log-level') ? 'debug' : values.common.logLevel,
      };
    },
  });
}

function reflectorCommand(): ControllerCommand {
  const sections = {
    ...commonFlags(':8080', REFLECTOR_LEASE),
    scope: namespacesFlag,
    limits: { ...limitFlags, reflectorPush: pushFlags.reflectorPush, ...orphanFlags },
    reflector: reflectorFlags,
  };
  return controllerCommand({
    name: 'reflector',
    summary:
      'run only the controller for the annotations of emberstack/kubernetes-reflector, with its environment variables',
    examples: ['keyferry reflector --reflector-excluded-namespaces "kube-*"'],
    // The original has no flags.
    original: { binary: 'ES.Kubernetes.Reflector', flags: [] },
    sections,
    toConfig: (parsed, processInfo) => reflectorConfig(parsed, base(parsed, processInfo), processInfo.env),
  });
}

function configSyncerCommand(): ControllerCommand {
  const sections = {
    ...commonFlags(':8080', CONFIG_SYNCER_LEASE),
    scope: namespacesFlag,
    limits: limitFlags,
    configSyncer: originalSyncerFlags,
    serving: servingFlags,
    klog: klogFlags,
    apiServer: apiServerFlags,
  };
  return controllerCommand({
    name: 'config-syncer',
    summary: 'run only the controller for the annotations of config-syncer (kubed), with its flags',
    examples: [
      'keyferry config-syncer run --cluster-name=unicorn --config-source-namespace=configs --v=3',
      'keyferry config-syncer --tls-cert-file=/certs/tls.crt --tls-private-key-file=/certs/tls.key',
    ],
    original: { binary: 'config-syncer', olderBinary: 'kubed', flags: [] },
    sections,
    rewrite: originalArguments,
    toConfig: (parsed, processInfo) => ({
      ...base(parsed, processInfo),
      controllers: ['config-syncer'],
      secureAddress: secureAddress(parsed.values.serving),
    }),
  });
}

function mittwaldCommand(): ControllerCommand {
  const common = commonFlags(':9102', MITTWALD_LEASE);
  const { logFormat } = common.common;
  // The original calls it plain.
  const parse: typeof logFormat.parse = (text) => logFormat.parse(text === 'plain' ? 'text' : text);
  const sections = {
    ...common,
    common: { ...common.common, logLevel: mittwaldLogLevel, logFormat: { ...logFormat, parse } },
    scope: namespacesFlag,
    limits: { ...limitFlags, mittwaldPush: pushFlags.mittwaldPush },
    mittwald: mittwaldCommandFlags,
    original: mittwaldNoEffectFlags,
  };
  return controllerCommand({
    name: 'mittwald',
    summary:
      'run only the controller for the annotations of mittwald/kubernetes-replicator, with the flags of the original',
    examples: ['keyferry mittwald -allow-all -exclude-namespaces "^kube-"'],
    // Flags that k8s-replicator has, too, mean k8s-replicator if no command is given.
    original: {
      binary: 'replicator',
      flags: flagNames(mittwaldNoEffectFlags, mittwaldCommandFlags).filter((name) => !K8S_REPLICATOR.has(name)),
    },
    sections,
    toConfig: (parsed, processInfo) => ({ ...base(parsed, processInfo), controllers: ['mittwald'] }),
  });
}

/** Adds the synchronizer, which is a separate controller. @param enabled the value of --enable-secret-synchronizer */
function withSynchronizer(controllers: readonly ControllerName[], enabled: boolean): readonly ControllerName[] {
  return enabled ? [...new Set<ControllerName>([...controllers, 'syncsecret-synchronizer'])] : controllers;
}

function flagNames(...tables: readonly FlagTable[]): string[] {
  return tables.flatMap((table) => Object.values(table).map(({ name }) => name));
}
