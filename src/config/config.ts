/** Everything that a running Keyferry was told: read once at start, frozen, and handed down in parts. */
import type { VaultEnvironment } from './vault-environment.ts';
import type { LogLevel } from '../observe/log-level.ts';
import type { ListenSetting } from './flags.ts';

export const CONTROLLERS = ['mirrors', 'replicator', 'syncsecret-ccm', 'syncsecret-manager', 'generator'] as const;

export type ControllerName = (typeof CONTROLLERS)[number];

export interface Config {
  /** Which controllers may run. */
  readonly controllers: readonly ControllerName[];
  /** They were asked for by name: one whose API is not installed is then a fault instead of being left out. */
  readonly controllersNamed: boolean;
  /** Path; `undefined` for $KUBECONFIG, ~/.kube/config, in-cluster. */
  readonly kubeconfig: string | undefined;
  /** `undefined` for the kubeconfig's current context. */
  readonly context: string | undefined;
  /** Metrics and probes together. */
  readonly statusAddress: ListenSetting | undefined;
  /** Metrics alone. */
  readonly metricsAddress: ListenSetting | undefined;
  /** Probes alone. */
  readonly healthAddress: ListenSetting | undefined;
  readonly leaderElect: LeaderElectConfig;
  readonly logLevel: LogLevel;
  readonly kube: KubeLimits;
  /** How long an object that is being deleted waits for its copies to go, ms. */
  readonly deletionTimeoutMs: number;
  readonly mirrors: MirrorsConfig;
  readonly replicator: ReplicatorConfig;
  readonly syncsecret: SyncSecretConfig;
  readonly generator: GeneratorConfig;
  /** What was accepted without effect, as sentences for the log. */
  readonly notes: readonly string[];
}

export interface LeaderElectConfig {
  readonly enabled: boolean;
  /** `undefined`: where we run. */
  readonly namespace: string | undefined;
  readonly leaseName: string;
  /** Unique for this process, also after a restart in the same container. */
  readonly identity: string;
  readonly leaseDurationMs: number;
  readonly renewDeadlineMs: number;
  readonly retryPeriodMs: number;
}

export interface KubeLimits {
  readonly maxConcurrentWrites: number;
  /** A watch without a byte for so long is opened again. */
  readonly watchIdleMs: number;
}

export interface MirrorsConfig {
  /** Whether a pattern must match the whole name of a namespace, or a part of it as in the original. */
  readonly regexMode: 'full' | 'search';
  /** Whether a mirror may use a Vault login Secret of another namespace. */
  readonly allowCrossNamespaceAuth: boolean;
  /** Patterns of the Vaults that mirrors may name (`runtime/address-patterns.ts`); empty for any. */
  readonly vaultAddresses: readonly string[];
  /** The longest that a call to Vault may take. */
  readonly vaultTimeoutMs: number;
  /** What the environment of Vault's own client says; a mirror's block wins. */
  readonly vault: VaultEnvironment;
  /** Mirrors worked on at once. */
  readonly workers: number;
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

export interface SyncSecretConfig {
  /** The tenant; its namespace in the management cluster is `tenant-<name>`. The CCM cannot run without. */
  readonly clusterName: string | undefined;
  /** Kubeconfig of the management cluster, for the CCM. */
  readonly kubelbKubeconfig: string;
  /** Whether labelled Secrets of the tenant become SyncSecrets. */
  readonly secretSynchronizer: boolean;
  /** The manager's own namespace. */
  readonly namespace: string;
}

/** The Vault token is not here: the client reads it from the environment when it logs in. */
export interface GeneratorConfig {
  /** Every failing ExternalSecret, not only those annotated `create: "true"`. */
  readonly all: boolean;
  readonly vaultAddress: string;
}

/** What a Config depends on besides the command line. */
export interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly hostname: string;
  /** Random, new for each process. */
  readonly uniqueId: string;
}

/** Freezes a value and all that it holds. */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const inner of Object.values(value)) deepFreeze(inner);
  return Object.freeze(value);
}
