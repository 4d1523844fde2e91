/** All settings of a running Keyferry: read once at start and frozen. */
import type { VaultEnvironment } from './vault-environment.ts';
import type { LogLevel } from '../observe/log.ts';
import type { ListenSetting } from './flags/flags.ts';

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
  readonly mirrors: MirrorsConfig;
  readonly replicator: ReplicatorConfig;
  readonly syncsecret: SyncSecretConfig;
  readonly generator: GeneratorConfig;
  /** Settings that were accepted and have no effect, as sentences for the log. */
  readonly notes: readonly string[];
}

export interface ManagementConfig {
  /** Path of a kubeconfig file, which is followed. */
  readonly kubeconfig: string;
  /** The flag that names it, for messages: `--kubelb-kubeconfig`. */
  readonly flag: string;
}

export interface LeaderElectConfig {
  readonly enabled: boolean;
  /** `undefined`: the namespace of the Pod or of the context. */
  readonly namespace: string | undefined;
  readonly leaseName: string;
  /** Unique for each process, also after a restart in the same container. */
  readonly identity: string;
  /** The begin of the identities of this container's earlier processes. Absent if the Pod's uid is unknown, or other processes may run beside this one. */
  readonly predecessors?: string;
  readonly leaseDurationMs: number;
  readonly renewDeadlineMs: number;
  readonly retryPeriodMs: number;
}

export interface KubeLimits {
  readonly maxConcurrentWrites: number;
  /** A watch that receives no data for this long is reopened. */
  readonly watchIdleMs: number;
  /** The only namespaces of the home cluster that are read and written; empty for all. */
  readonly namespaces: readonly string[];
}

/** Namespaces by patterns of whole names (`runtime/text/whole-patterns.ts`), or by a label selector (`runtime/text/label-selector.ts`). */
export type NamespaceLimit = { readonly patterns: readonly string[] } | { readonly selector: string };

/** What no rule can go beyond, in any system. */
export interface LimitsConfig {
  /** The only namespaces that rules may copy from; `undefined`: all. */
  readonly sourceNamespaces: NamespaceLimit | undefined;
  /** The only namespaces that rules may copy into; `undefined`: all. */
  readonly destinationNamespaces: NamespaceLimit | undefined;
  /** Namespaces that no rule copies into. */
  readonly excludedNamespaces: NamespaceLimit | undefined;
  /** A namespace without a consent accepts no copies. */
  readonly requireConsent: boolean;
  /** Whether annotations can push copies. */
  readonly replicatorPush: boolean;
}

export interface VaultConfig {
  /** Patterns of the servers that rules may use (`runtime/text/address-patterns.ts`); empty for any. */
  readonly addresses: readonly string[];
  /** Timeout of a call. */
  readonly timeoutMs: number;
  /** From the environment variables of Vault's own client; fields of a rule take precedence. */
  readonly environment: VaultEnvironment;
}

export interface MirrorsConfig {
  /** Whether a pattern must match the whole namespace name, or a part of it as in the original. */
  readonly regexMode: 'full' | 'search';
  /** Whether a SecretMirror may use a Vault login Secret of another namespace. */
  readonly allowCrossNamespaceAuth: boolean;
}

export interface SyncSecretConfig {
  /** The tenant's namespace in the management cluster; `undefined` without the CCM. */
  readonly managementNamespace: string | undefined;
  /** Patterns of the namespaces that the manager serves. Empty for all, or for those of tenants with a CCM in the process. */
  readonly servedNamespaces: readonly string[];
  /** Patterns of the keys of labels that travel from a tenant's objects (`runtime/text/whole-patterns.ts`). Empty for none. */
  readonly propagateLabels: readonly string[];
  /** As `propagateLabels`, of annotations. */
  readonly propagateAnnotations: readonly string[];
}

export interface GeneratorConfig {
  /** Every ExternalSecret is served that does not opt out. */
  readonly all: boolean;
  /** Empty for all. */
  readonly namespaces: readonly string[];
  /** `environment`: the server and the token of the environment are used for all. @see VaultEnvironment */
  readonly credentials: 'stores' | 'environment';
}

export type ReplicatedKind = 'secret' | 'configmap';

export interface ReplicatorConfig {
  /** Without the slash; '' for bare names. */
  readonly annotationsPrefix: string;
  readonly allowAll: boolean;
  readonly ignoreUnknown: boolean;
  /** 0: never. */
  readonly resyncPeriodMs: number;
  readonly runReplicators: readonly ReplicatedKind[];
  readonly createWithLabels: Readonly<Record<string, string>>;
}

/** The settings that define how rules are read: `status` and `plan` need those of the operator. */
export interface ReadingConfig {
  readonly limits: LimitsConfig;
  /** The only namespaces that the operator reads and writes; empty for all. */
  readonly namespaces: readonly string[];
  /** Those of the operator; `undefined`: not known, so all. */
  readonly controllers?: readonly ControllerName[] | undefined;
  readonly mirrors: Pick<MirrorsConfig, 'regexMode'>;
  readonly replicator: Pick<ReplicatorConfig, 'annotationsPrefix' | 'allowAll' | 'ignoreUnknown' | 'runReplicators'>;
  readonly syncsecret: Pick<SyncSecretConfig, 'propagateLabels' | 'propagateAnnotations'>;
}

/** The inputs of a Config besides the command line. */
export interface ProcessInfo {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly hostname: string;
  /** Random, different for each process. */
  readonly uniqueId: string;
  /** Of the process; 1: the first one of a container, which ends with it. Default: another. */
  readonly pid?: number;
}

/** Freezes a value and all values inside it. */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const inner of Object.values(value)) deepFreeze(inner);
  return Object.freeze(value);
}
