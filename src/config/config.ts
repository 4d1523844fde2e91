/** All settings of a running Keyferry: read once at start and frozen. What a flag means is said at the flag. */
import type { AddressValues, CommonValues, LeaderElectConfig, namespacesFlag } from './flags/common-flags.ts';
import type {
  generatorFlags,
  mirrorsFlags,
  readingConfig,
  replicatorFlags,
  VaultConfig,
} from './flags/controller-flags.ts';
import type { FlagValues } from './flags/flags.ts';
import type { limitFlags, pushFlag } from './flags/limit-flags.ts';
import type { ManagementConfig, managerFlags, travelFlags } from './flags/syncsecret-flags.ts';

export const CONTROLLERS = [
  'mirrors',
  'replicator',
  'syncsecret-manager',
  'syncsecret-ccm',
  'syncsecret-synchronizer',
  'generator',
] as const;

export type ControllerName = (typeof CONTROLLERS)[number];

/** The controllers of `run` if none is named. A role of SyncSecret depends on what a cluster is for, so it must be named. */
export const DEFAULT_CONTROLLERS: readonly ControllerName[] = ['mirrors', 'replicator', 'generator'];

type Common = CommonValues['common'];
type Deletion = CommonValues['deletion'];

export interface Config extends Common, Deletion, AddressValues {
  readonly controllers: readonly ControllerName[];
  /** The user listed the controllers: an API that is not installed is then an error. Otherwise its controller waits. */
  readonly controllersNamed: boolean;
  /** The other cluster; `undefined`: there is none. */
  readonly management: ManagementConfig | undefined;
  readonly leaderElect: LeaderElectConfig;
  /** Of the home cluster: its limits, and the only namespaces that are read and written. */
  readonly kube: CommonValues['kube'] & FlagValues<typeof namespacesFlag>;
  readonly limits: LimitsConfig;
  readonly vault: VaultConfig;
  readonly mirrors: FlagValues<typeof mirrorsFlags>;
  readonly replicator: FlagValues<typeof replicatorFlags>;
  readonly syncsecret: SyncSecretConfig;
  readonly generator: FlagValues<typeof generatorFlags>;
  /** Settings that were accepted and have no effect, as sentences for the log. */
  readonly notes: readonly string[];
}

/** What no rule can go beyond, in any system. */
export type LimitsConfig = FlagValues<typeof limitFlags & typeof pushFlag>;

export type SyncSecretConfig = FlagValues<ReturnType<typeof managerFlags> & typeof travelFlags> & {
  /** The tenant's namespace in the management cluster; `undefined` without the CCM. */
  readonly managementNamespace: string | undefined;
};

/** The settings that define how rules are read: `status` and `plan` need those of the operator. */
export type ReadingConfig = ReturnType<typeof readingConfig> & {
  /** Those of the operator; `undefined`: not known, so all. */
  readonly controllers?: readonly ControllerName[] | undefined;
};

/** Freezes a value and all values inside it. */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const inner of Object.values(value)) deepFreeze(inner);
  return Object.freeze(value);
}
