/** The commands that run controllers: `run` for all of them, and one with the flags of each original. */
import { commonFlags, type CommonValues, namespacesFlag } from './flags/common-flags.ts';
import { base, controllerCommand, refuseRest, restNotes, type ControllerCommand } from './command.ts';
import { type Config, type ControllerName, CONTROLLERS, DEFAULT_CONTROLLERS } from './config.ts';
import { GENERATOR_LEASE, generatorConfig, generatorFlags } from './flags/generator-flags.ts';
import { listFlag, type FlagTable, type ListenSetting } from './flags/flags.ts';
import {
  MIRRORS_LEASE,
  mirrorsConfig,
  mirrorsFlags,
  mirrorsNotes,
  originalMirrorsFlags,
} from './flags/mirrors-flags.ts';
import {
  kubeConfigFlag,
  REPLICATOR_LEASE,
  REPLICATOR_STATUS_ADDRESS,
  replicatorConfig,
  replicatorFlags,
} from './flags/replicator-flags.ts';
import {
  CCM_LEASE,
  ccmConfig,
  ccmFlags,
  ignoredNotes,
  MANAGER_LEASE,
  managerFlags,
  managerNamespace,
  originalCcmFlags,
  originalManagerFlags,
  syncSecretConfig,
  travelFlags,
} from './flags/syncsecret-flags.ts';
import { vaultEnvironment } from './vault-environment.ts';
import { UsageError } from './usage-error.ts';
import { vaultConfig, vaultFlags } from './flags/vault-flags.ts';
import { zapFlags, zapLevel, zapNotes } from './flags/zap-flags.ts';

const RUN_LEASE = 'keyferry';
const USING_VAULT: ReadonlySet<ControllerName> = new Set<ControllerName>(['mirrors', 'generator']);
const SYNC_SECRET_PREFIX = 'syncsecret-';

/** In the order of the help. */
export const CONTROLLER_COMMANDS: readonly ControllerCommand[] = [
  runCommand(),
  mirrorsCommand(),
  replicatorCommand(),
  ccmCommand(),
  managerCommand(),
  generatorCommand(),
];

/** @returns `undefined` if no command of this name runs controllers */
export function findControllerCommand(name: string): ControllerCommand | undefined {
  return CONTROLLER_COMMANDS.find((command) => command.name === name);
}

/** Every controller in one process. The flags of a controller begin with its name, where its original shares them with others. */
function runCommand(): ControllerCommand {
  const list = CONTROLLERS.join(', ');
  const flags = {
    controllers: listFlag(
      'controllers',
      'list',
      `comma-separated list of ${list} (default: ${DEFAULT_CONTROLLERS.join(', ')})`,
      (item) => {
        if (!CONTROLLERS.some((known) => known === item)) throw new RangeError(`must be a list of ${list}`);
      },
    ),
    ...commonFlags(':8080', RUN_LEASE),
    ...namespacesFlag,
    ...mirrorsFlags,
    ...vaultFlags,
    ...replicatorFlags('replicator-'),
    ...ccmFlags(SYNC_SECRET_PREFIX),
    ...managerFlags(SYNC_SECRET_PREFIX),
    ...travelFlags(SYNC_SECRET_PREFIX),
    ...generatorFlags('generator-'),
  };
  const description = {
    name: 'run',
    summary: 'run every controller whose API is installed, but the two roles of SyncSecret only by name',
    examples: [
      'keyferry run',
      'keyferry run --controllers mirrors --leader-elect --status-address :9102',
      'keyferry run --controllers mirrors,syncsecret-ccm --syncsecret-cluster-name primary',
    ],
  } as const;
  return controllerCommand(description, flags, ({ values, given, rest }, processInfo) => {
    refuseRest(rest);
    const controllersNamed = values.controllers.length > 0;
    const named = controllersNamed
      ? CONTROLLERS.filter((name) => values.controllers.includes(name))
      : DEFAULT_CONTROLLERS;
    const hasCcm = named.includes('syncsecret-ccm');
    if (!hasCcm) refuseFlags(ccmFlags(SYNC_SECRET_PREFIX), given, 'syncsecret-ccm');
    if (!named.includes('syncsecret-manager')) {
      refuseFlags(managerFlags(SYNC_SECRET_PREFIX), given, 'syncsecret-manager');
    }
    const controllers = withSynchronizer(named, hasCcm && values.enableSecretSynchronizer);
    const wide = controllers.find((name) => name.startsWith(SYNC_SECRET_PREFIX));
    if (wide === undefined) refuseFlags(travelFlags(SYNC_SECRET_PREFIX), given, 'a controller of SyncSecrets');
    if (values.namespaces.length > 0 && wide !== undefined) {
      throw new UsageError(`--namespaces: ${wide} serves every namespace, because tenants come and go`);
    }
    const generator = generatorConfig(values);
    return {
      ...inNamespaces(base(values, RUN_LEASE, processInfo), values.namespaces),
      controllers,
      controllersNamed,
      vault: controllers.some((name) => USING_VAULT.has(name))
        ? vaultConfig(values, vaultEnvironment(processInfo.env), given)
        : vaultConfig(values),
      mirrors: mirrorsConfig(values),
      replicator: replicatorConfig(values),
      generator: generator.namespaces.length > 0 ? generator : { ...generator, namespaces: values.namespaces },
      syncsecret: syncSecretConfig(values),
      ...(hasCcm ? ccmConfig(values, SYNC_SECRET_PREFIX, processInfo) : {}),
    };
  });
}

/** @throws UsageError for a flag of this table: it would have no effect without the controller */
function refuseFlags(table: FlagTable, given: ReadonlySet<PropertyKey>, controller: string): void {
  for (const [key, { name }] of Object.entries(table)) {
    if (given.has(key)) throw new UsageError(`--${name} needs ${controller} in --controllers`);
  }
}

function mirrorsCommand(): ControllerCommand {
  const ownFlags = { ...namespacesFlag, ...mirrorsFlags, ...vaultFlags };
  const flags = { ...commonFlags('', MIRRORS_LEASE), ...originalMirrorsFlags, ...zapFlags, ...ownFlags };
  const description = {
    name: 'mirrors',
    summary: 'run only the SecretMirror controller, with the flags of the original mirrors operator',
    examples: ['keyferry mirrors --leader-elect --metrics-bind-address=127.0.0.1:8080'],
    original: {
      binary: 'manager',
      flags: ['kubeconfig', 'leader-elect', ...flagNames(originalMirrorsFlags), ...flagNames(zapFlags)],
    },
  } as const;
  return controllerCommand(description, flags, ({ values, given, rest }, processInfo) => ({
    ...inNamespaces(base(values, MIRRORS_LEASE, processInfo), values.namespaces),
    controllers: ['mirrors'],
    metricsAddress: originalAddress('metricsBindAddress', values.metricsBindAddress, given),
    healthAddress: originalAddress('healthProbeBindAddress', values.healthProbeBindAddress, given),
    logLevel: given.has('logLevel') ? values.logLevel : (zapLevel(values, given) ?? values.logLevel),
    vault: vaultConfig(values, vaultEnvironment(processInfo.env), given),
    mirrors: mirrorsConfig(values),
    notes: [...mirrorsNotes(processInfo.env), ...zapNotes(values), ...restNotes(rest)],
  }));
}

function replicatorCommand(): ControllerCommand {
  const originalFlags = { ...kubeConfigFlag, ...replicatorFlags('') };
  const flags = { ...commonFlags(REPLICATOR_STATUS_ADDRESS, REPLICATOR_LEASE), ...namespacesFlag, ...originalFlags };
  const description = {
    name: 'replicator',
    summary: 'run only the controller for annotated Secrets and ConfigMaps, with the flags of k8s-replicator',
    examples: ['keyferry replicator -allow-all -resync-period 1h'],
    original: { binary: 'k8s-replicator', flags: ['status-address', ...flagNames(originalFlags)] },
  } as const;
  return controllerCommand(description, flags, ({ values, rest }, processInfo) => ({
    ...inNamespaces(base(values, REPLICATOR_LEASE, processInfo), values.namespaces),
    controllers: ['replicator'],
    kubeconfig: values.kubeconfig ?? values.kubeConfig,
    replicator: replicatorConfig(values),
    notes: restNotes(rest),
  }));
}

function ccmCommand(): ControllerCommand {
  const ownFlags = { ...ccmFlags(''), ...originalCcmFlags };
  const flags = { ...commonFlags('', CCM_LEASE), ...ownFlags, ...travelFlags(''), ...zapFlags };
  const description = {
    name: 'syncsecret-ccm',
    summary: 'run only the SyncSecret controller of a tenant cluster, with the flags of the KubeLB CCM',
    examples: ['keyferry syncsecret-ccm --cluster-name primary --kubelb-kubeconfig ~/.kube/kubelb'],
    original: { binary: 'ccm', flags: ['kubeconfig', ...flagNames(ownFlags), ...flagNames(zapFlags)] },
  } as const;
  return controllerCommand(description, flags, ({ values, given, rest }, processInfo) => {
    const common = base(originalElection(values, values.leaderElectionNamespace, given), CCM_LEASE, processInfo);
    return {
      ...common,
      controllers: withSynchronizer(['syncsecret-ccm'], values.enableSecretSynchronizer),
      metricsAddress: originalAddress('metricsAddr', values.metricsAddr, given),
      healthAddress: originalAddress('healthProbeBindAddress', values.healthProbeBindAddress, given),
      logLevel: given.has('logLevel') ? values.logLevel : (zapLevel(values, given) ?? values.logLevel),
      ...ccmConfig(values, '', processInfo),
      notes: [...ignoredNotes(given), ...zapNotes(values), ...restNotes(rest)],
    };
  });
}

function managerCommand(): ControllerCommand {
  const flags = {
    ...commonFlags('', MANAGER_LEASE),
    ...originalManagerFlags,
    ...managerFlags(''),
    ...travelFlags(''),
    ...zapFlags,
  };
  const description = {
    name: 'syncsecret-manager',
    summary: 'run only the SyncSecret controller of the management cluster, with the flags of the KubeLB manager',
    examples: ['keyferry syncsecret-manager --namespace kubelb'],
    original: {
      binary: 'kubelb',
      flags: ['kubeconfig', ...flagNames(originalManagerFlags), ...flagNames(zapFlags)],
    },
  } as const;
  return controllerCommand(description, flags, ({ values, given, rest }, processInfo) => {
    const namespace = values.namespace ?? managerNamespace(processInfo, values.kubeconfig);
    const common = base(originalElection(values, namespace, given), MANAGER_LEASE, processInfo);
    const zap = values.debug ? 'debug' : zapLevel(values, given);
    return {
      ...common,
      controllers: ['syncsecret-manager'],
      syncsecret: syncSecretConfig(values),
      metricsAddress: originalAddress('metricsAddr', values.metricsAddr, given),
      healthAddress: originalAddress('healthProbeBindAddress', values.healthProbeBindAddress, given),
      logLevel: given.has('logLevel') ? values.logLevel : (zap ?? values.logLevel),
      notes: [...ignoredNotes(given), ...zapNotes(values), ...restNotes(rest)],
    };
  });
}

function generatorCommand(): ControllerCommand {
  const flags = { ...commonFlags(':8080', GENERATOR_LEASE), ...generatorFlags(''), ...vaultFlags };
  const description = {
    name: 'generator',
    summary:
      'run only the generator of values that ExternalSecrets miss in Vault, with the variables of the Bash controller',
    examples: ['keyferry generator', 'VAULT_ADDR=http://vault.vault:8200 keyferry generator --credentials environment'],
    // It has no flags.
    original: { binary: 'controller.sh', flags: [] },
  } as const;
  return controllerCommand(description, flags, ({ values, given, rest }, processInfo) => {
    refuseRest(rest);
    const { env } = processInfo;
    return {
      ...base(values, GENERATOR_LEASE, processInfo),
      controllers: ['generator'],
      // As in the original: any text that is not empty.
      logLevel: env['DEBUG'] && !given.has('logLevel') ? 'debug' : values.logLevel,
      vault: vaultConfig(values, vaultEnvironment(env), given),
      generator: generatorConfig(values),
    };
  });
}

function inNamespaces<T extends Pick<Config, 'kube'>>(config: T, namespaces: readonly string[]): T {
  return { ...config, kube: { ...config.kube, namespaces } };
}

/** The synchronizer is a controller of its own, which a flag of the CCM adds. */
function withSynchronizer(controllers: readonly ControllerName[], enabled: boolean): readonly ControllerName[] {
  return enabled ? [...new Set<ControllerName>([...controllers, 'syncsecret-synchronizer'])] : controllers;
}

/** The common values, with the flags of leader election that KubeLB's programs have. Keyferry's own flags take precedence. */
function originalElection<V extends CommonValues & { readonly enableLeaderElection: boolean }>(
  values: V,
  namespace: string | undefined,
  given: ReadonlySet<PropertyKey>,
): V {
  const leaderElect = given.has('leaderElect') ? values.leaderElect : values.enableLeaderElection;
  return { ...values, leaderElect, leaderElectNamespace: values.leaderElectNamespace ?? namespace };
}

/** An address flag of an original. If only --status-address is given, it replaces the original's default address. */
function originalAddress(
  key: string,
  address: ListenSetting | undefined,
  given: ReadonlySet<PropertyKey>,
): ListenSetting | undefined {
  return given.has('statusAddress') && !given.has(key) ? undefined : address;
}

function flagNames(table: FlagTable): string[] {
  return Object.values(table).map(({ name }) => name);
}
