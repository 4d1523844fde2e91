/** All settings of a running Keyferry: read once at start and frozen. What a flag means is said at the flag. */
import type { LogLevel } from '../observe/log.ts';
import type { LeaderElectConfig } from './flags/common-flags.ts';
import type {
  generatorFlags,
  mirrorsFlags,
  readingConfig,
  replicatorFlags,
  VaultConfig,
} from './flags/controller-flags.ts';
import type { FlagValues, ListenSetting } from './flags/flags.ts';
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

export interface Config {
  readonly controllers: readonly ControllerName[];
  /** The user listed the controllers: an API that is not installed is then an error. Otherwise its controller waits. */
  readonly controllersNamed: boolean;
  /** Path; `undefined` for $KUBECONFIG, ~/.kube/config, in-cluster. */
  readonly kubeconfig: string | undefined;
  /** `undefined` for the kubeconfig's current context. */
  readonly context: string | undefined;
  /** The other cluster; `undefined`: there is none. */
  readonly management: ManagementConfig | undefined;
  /** Metrics and probes together. */
  readonly statusAddress: ListenSetting | undefined;
  /** Metrics alone. */
  readonly metricsAddress: ListenSetting | undefined;
  /** Probes alone. */
  readonly healthAddress: ListenSetting | undefined;
  readonly leaderElect: LeaderElectConfig;
  readonly logLevel: LogLevel;
  readonly kube: KubeLimits;
  readonly limits: LimitsConfig;
  /** How long an object in deletion waits until its copies are deleted, ms. */
  readonly deletionTimeoutMs: number;
  readonly vault: VaultConfig;
  readonly mirrors: FlagValues<typeof mirrorsFlags>;
  readonly replicator: FlagValues<typeof replicatorFlags>;
  readonly syncsecret: SyncSecretConfig;
  readonly generator: FlagValues<typeof generatorFlags>;
  /** Settings that were accepted and have no effect, as sentences for the log. */
  readonly notes: readonly string[];
}

export interface KubeLimits {
  readonly maxConcurrentWrites: number;
  /** A watch that receives no data for this long is reopened. */
  readonly watchIdleMs: number;
  /** The only namespaces of the home cluster that are read and written; empty for all. */
  readonly namespaces: readonly string[];
  /** A label selector in place of the list; `undefined`: none. */
  readonly namespaceSelector: string | undefined;
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
