/** The commands that run controllers: `run` for all of them, and one with the flags of each original. */
import { commonFlags } from './common-flags.ts';
import { base, controllerCommand, refuseRest, restNotes, type ControllerCommand } from './command.ts';
import { CONTROLLERS, DEFAULT_CONTROLLERS } from './config.ts';
import { listFlag, type FlagTable, type ListenSetting } from './flags.ts';
import { MIRRORS_LEASE, mirrorsConfig, mirrorsFlags, mirrorsNotes, originalMirrorsFlags } from './mirrors-flags.ts';
import {
  kubeConfigFlag,
  REPLICATOR_LEASE,
  REPLICATOR_STATUS_ADDRESS,
  replicatorConfig,
  replicatorFlags,
} from './replicator-flags.ts';
import { vaultEnvironment } from './vault-environment.ts';
import { vaultConfig, vaultFlags } from './vault-flags.ts';
import { zapFlags, zapLevel, zapNotes } from './zap-flags.ts';

const RUN_LEASE = 'keyferry';

/** In the order of the help. */
export const CONTROLLER_COMMANDS: readonly ControllerCommand[] = [runCommand(), mirrorsCommand(), replicatorCommand()];

/** @returns `undefined` if no command of this name runs controllers */
export function findControllerCommand(name: string): ControllerCommand | undefined {
  return CONTROLLER_COMMANDS.find((command) => command.name === name);
}

/** Every controller in one process. The flags of a controller begin with its name, where its original shares them with others. */
function runCommand(): ControllerCommand {
  const list = CONTROLLERS.join(', ');
  const flags = {
    controllers: listFlag('controllers', 'list', `comma-separated list of ${list} (default: all)`, (item) => {
      if (!CONTROLLERS.some((known) => known === item)) throw new RangeError(`must be a list of ${list}`);
    }),
    ...commonFlags(':8080', RUN_LEASE),
    ...mirrorsFlags,
    ...vaultFlags,
    ...replicatorFlags('replicator-'),
  };
  const description = {
    name: 'run',
    summary: 'run every controller whose API is installed',
    examples: ['keyferry run', 'keyferry run --controllers mirrors --leader-elect --status-address :9102'],
  } as const;
  return controllerCommand(description, flags, ({ values, given, rest }, processInfo) => {
    refuseRest(rest);
    const controllersNamed = values.controllers.length > 0;
    const controllers = controllersNamed
      ? CONTROLLERS.filter((name) => values.controllers.includes(name))
      : DEFAULT_CONTROLLERS;
    return {
      ...base(values, RUN_LEASE, processInfo),
      controllers,
      controllersNamed,
      vault: controllers.includes('mirrors')
        ? vaultConfig(values, vaultEnvironment(processInfo.env), given)
        : vaultConfig(values),
      mirrors: mirrorsConfig(values),
      replicator: replicatorConfig(values),
    };
  });
}

function mirrorsCommand(): ControllerCommand {
  const ownFlags = { ...mirrorsFlags, ...vaultFlags };
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
    ...base(values, MIRRORS_LEASE, processInfo),
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
  const flags = { ...commonFlags(REPLICATOR_STATUS_ADDRESS, REPLICATOR_LEASE), ...originalFlags };
  const description = {
    name: 'replicator',
    summary: 'run only the controller for annotated Secrets and ConfigMaps, with the flags of k8s-replicator',
    examples: ['keyferry replicator -allow-all -resync-period 1h'],
    original: { binary: 'k8s-replicator', flags: ['status-address', ...flagNames(originalFlags)] },
  } as const;
  return controllerCommand(description, flags, ({ values, rest }, processInfo) => ({
    ...base(values, REPLICATOR_LEASE, processInfo),
    controllers: ['replicator'],
    kubeconfig: values.kubeconfig ?? values.kubeConfig,
    replicator: replicatorConfig(values),
    notes: restNotes(rest),
  }));
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
