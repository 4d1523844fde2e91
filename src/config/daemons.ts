/** The commands that keep running, by name: `run`, and one with the flags of each original. */
import { commonFlags, leaderElectConfig, nonEmpty } from './common-flags.ts';
import type { ControllerName } from './config.ts';
import { base, daemon, refuseRest, restNotes, type Daemon, type DaemonName } from './daemon.ts';
import type { ListenSetting } from './flags.ts';
import { GENERATOR_LEASE, generatorConfig, generatorFlags } from './generator-flags.ts';
import { MIRRORS_LEASE, mirrorsConfig, mirrorsFlags, mirrorsNotes, originalMirrorsFlags } from './mirrors-flags.ts';
import {
  kubeConfigFlag,
  REPLICATOR_LEASE,
  REPLICATOR_STATUS_ADDRESS,
  replicatorConfig,
  replicatorFlags,
} from './replicator-flags.ts';
import { otherCcmFlags, otherFlagsNotes, otherManagerFlags } from './kubelb-flags.ts';
import { runDaemon } from './run-daemon.ts';
import {
  CCM_LEASE,
  ccmFlags,
  MANAGER_LEASE,
  managerFlags,
  originalCcmFlags,
  originalKubelbFlags,
  originalManagerFlags,
  syncSecretConfig,
} from './syncsecret-flags.ts';
import { UsageError } from './usage-error.ts';
import { vaultEnvironment } from './vault-environment.ts';
import { zapFlags, zapLevel, zapNotes } from './zap-flags.ts';

/** The daemon of a name. `available`: the controllers that this build has, for `run`. */
export function daemonOf(name: DaemonName, available: readonly ControllerName[]): Daemon {
  return name === 'run' ? runDaemon(available) : ORIGINALS[name]();
}

const ORIGINALS: Readonly<Record<ControllerName, () => Daemon>> = {
  mirrors: mirrorsDaemon,
  replicator: replicatorDaemon,
  'syncsecret-ccm': ccmDaemon,
  'syncsecret-manager': managerDaemon,
  generator: generatorDaemon,
};

function mirrorsDaemon(): Daemon {
  const flags = { ...commonFlags('', MIRRORS_LEASE), ...originalMirrorsFlags, ...zapFlags, ...mirrorsFlags };
  return daemon('mirrors', flags, ({ values, given, rest }, surroundings) => ({
    ...base(values, MIRRORS_LEASE, surroundings),
    controllers: ['mirrors'],
    metricsAddress: originalAddress('metricsBindAddress', values.metricsBindAddress, given),
    healthAddress: originalAddress('healthProbeBindAddress', values.healthProbeBindAddress, given),
    logLevel: given.has('logLevel') ? values.logLevel : (zapLevel(values, given) ?? values.logLevel),
    mirrors: mirrorsConfig(values, vaultEnvironment(surroundings.env), given),
    notes: [...mirrorsNotes(surroundings.env), ...zapNotes(values), ...restNotes(rest)],
  }));
}

function replicatorDaemon(): Daemon {
  const flags = {
    ...commonFlags(REPLICATOR_STATUS_ADDRESS, REPLICATOR_LEASE),
    ...kubeConfigFlag,
    ...replicatorFlags(''),
  };
  return daemon('replicator', flags, ({ values, rest }, surroundings) => ({
    ...base(values, REPLICATOR_LEASE, surroundings),
    controllers: ['replicator'],
    kubeconfig: values.kubeconfig ?? values.kubeConfig,
    replicator: replicatorConfig(values),
    notes: restNotes(rest),
  }));
}

function ccmDaemon(): Daemon {
  const flags = {
    ...commonFlags('', CCM_LEASE),
    ...originalKubelbFlags(':9445'),
    ...originalCcmFlags,
    ...otherCcmFlags,
    ...zapFlags,
    ...ccmFlags(''),
  };
  return daemon('syncsecret-ccm', flags, ({ values, given, rest }, surroundings) => {
    if (values.clusterName === undefined) throw new UsageError('--cluster-name is required');
    const enabled = given.has('leaderElect') ? values.leaderElect : values.enableLeaderElection;
    return {
      ...base(values, CCM_LEASE, surroundings),
      controllers: ['syncsecret-ccm'],
      metricsAddress: originalAddress('metricsAddr', values.metricsAddr, given),
      healthAddress: originalAddress('healthProbeBindAddress', values.healthProbeBindAddress, given),
      leaderElect: leaderElectConfig(
        { ...values, leaderElectNamespace: values.leaderElectNamespace ?? values.leaderElectionNamespace },
        CCM_LEASE,
        surroundings,
        enabled,
      ),
      logLevel: given.has('logLevel') ? values.logLevel : (zapLevel(values, given) ?? values.logLevel),
      syncsecret: syncSecretConfig(values, surroundings),
      notes: [...otherFlagsNotes(otherCcmFlags, given), ...zapNotes(values), ...restNotes(rest)],
    };
  });
}

function managerDaemon(): Daemon {
  const flags = {
    ...commonFlags('', MANAGER_LEASE),
    ...originalKubelbFlags(':9443'),
    ...originalManagerFlags,
    ...otherManagerFlags,
    ...zapFlags,
    ...managerFlags(''),
  };
  return daemon('syncsecret-manager', flags, ({ values, given, rest }, surroundings) => ({
    ...base(values, MANAGER_LEASE, surroundings),
    controllers: ['syncsecret-manager'],
    metricsAddress: originalAddress('metricsAddr', values.metricsAddr, given),
    healthAddress: originalAddress('healthProbeBindAddress', values.healthProbeBindAddress, given),
    leaderElect: leaderElectConfig(
      values,
      MANAGER_LEASE,
      surroundings,
      given.has('leaderElect') ? values.leaderElect : values.enableLeaderElection,
    ),
    logLevel: given.has('logLevel')
      ? values.logLevel
      : values.debug
        ? 'debug'
        : (zapLevel(values, given) ?? values.logLevel),
    syncsecret: syncSecretConfig(values, surroundings),
    notes: [...otherFlagsNotes(otherManagerFlags, given), ...zapNotes(values), ...restNotes(rest)],
  }));
}

function generatorDaemon(): Daemon {
  const flags = { ...commonFlags(':8080', GENERATOR_LEASE), ...generatorFlags('') };
  return daemon('generator', flags, ({ values, given, rest }, surroundings) => {
    refuseRest(rest);
    const debug = nonEmpty(surroundings.env['DEBUG']) !== undefined && !given.has('logLevel');
    return {
      ...base(values, GENERATOR_LEASE, surroundings),
      controllers: ['generator'],
      logLevel: debug ? 'debug' : values.logLevel,
      generator: generatorConfig(values, surroundings),
    };
  });
}

/** An address of an original's own. One that was not given is not served where --status-address says where to serve. */
function originalAddress(
  key: string,
  address: ListenSetting | undefined,
  given: ReadonlySet<PropertyKey>,
): ListenSetting | undefined {
  return given.has('statusAddress') && !given.has(key) ? undefined : address;
}
