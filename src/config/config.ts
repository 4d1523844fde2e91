/** All settings of a running Keyferry, read at the start. The help of each flag explains its setting. */
import type {
  AddressValues,
  CommonValues,
  DeletionValues,
  LeaderElectConfig,
  namespacesFlag,
} from './flags/common-flags.ts';
import type {
  generatorFlags,
  mirrorsFlags,
  mittwaldFlags,
  readingConfig,
  reflectorFlags,
  replicatorFlags,
  VaultConfig,
} from './flags/controller-flags.ts';
import type { ConfigSyncerValues, SecureSetting } from './flags/config-syncer-flags.ts';
import type { ControllerName } from './controllers.ts';
import type { FlagValues } from './flags/flags.ts';
import type { limitFlags, orphanFlags, pushFlags } from './flags/limit-flags.ts';
import type { ManagementConfig, managerFlags, travelFlags } from './flags/syncsecret-flags.ts';

type Common = CommonValues['common'];

export interface Config extends Common, DeletionValues, AddressValues {
  readonly controllers: readonly ControllerName[];
  /** Whether the user listed the controllers. If so, a missing API is an error; if not, its controller waits for it. */
  readonly controllersNamed: boolean;
  /** How to reach the management cluster; `undefined`: no CCM runs, so none is used. */
  readonly management: ManagementConfig | undefined;
  /** Where the probes are served over HTTPS, too; `undefined`: nowhere. */
  readonly secureAddress: SecureSetting | undefined;
  readonly leaderElect: LeaderElectConfig;
  /** Settings for the home cluster: its limits, and the only namespaces that Keyferry reads and writes. */
  readonly kube: CommonValues['kube'] & FlagValues<typeof namespacesFlag>;
  readonly limits: LimitsConfig;
  readonly vault: VaultConfig;
  readonly mirrors: FlagValues<typeof mirrorsFlags>;
  readonly replicator: FlagValues<typeof replicatorFlags>;
  readonly reflector: FlagValues<typeof reflectorFlags>;
  readonly configSyncer: ConfigSyncerValues;
  readonly mittwald: FlagValues<typeof mittwaldFlags>;
  readonly syncsecret: SyncSecretConfig;
  readonly generator: FlagValues<typeof generatorFlags>;
  /** Settings that were accepted but have no effect, as sentences for the log. */
  readonly notes: readonly string[];
}

/** The limits of the administrator for the rules of all controllers. */
export type LimitsConfig = FlagValues<typeof limitFlags & typeof pushFlags & typeof orphanFlags>;

export type SyncSecretConfig = FlagValues<ReturnType<typeof managerFlags> & typeof travelFlags> & {
  /** The tenant's namespace in the management cluster; `undefined`: there is no CCM. */
  readonly managementNamespace: string | undefined;
};

/** The settings that decide how rules are read. `status` and `plan` must get the same values as the operator. */
export type ReadingConfig = ReturnType<typeof readingConfig>;
