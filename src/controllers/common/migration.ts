/** The interface by which `keyferry migrate` reads the objects of another program. */
import type { ReadingConfig } from '../../config/config.ts';
import type { MigratedProgram } from '../../config/migrated-programs.ts';
import type { ResourceKey } from '../../copy/model/keys.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { KubeApi } from '../../kube/api.ts';
import type { TargetPlace } from './snapshot/status-report.ts';

/**
 * - `change`: `--apply` writes it.
 * - `manual`: somebody must decide or write something.
 * - `difference`: it goes on, but not in the same way.
 * - `leftover`: a copy whose source was looked up and is gone, or does not want it. `--delete-leftovers` deletes it.
 * - `unsupported`: Keyferry cannot do it.
 */
export type FindingVerdict = 'change' | 'manual' | 'difference' | 'leftover' | 'unsupported';

export interface Finding {
  readonly verdict: FindingVerdict;
  readonly object: TargetPlace;
  readonly text: string;
}

/** Annotations that `--apply` adds to an object. */
export interface Change {
  readonly object: ResourceKey;
  readonly annotations: Readonly<Record<string, string>>;
  readonly text: string;
  /** The object is a copy of this source, and is changed only once the source is. */
  readonly source?: ResourceKey;
}

/** Another write of `--apply`. */
export interface Step {
  readonly object: TargetPlace;
  readonly text: string;
  /** @throws the errors of `api.request` */
  readonly write: (api: KubeApi, signal: AbortSignal | undefined) => Promise<void>;
}

/** What one program has in the cluster. */
export interface ProgramFindings {
  /** Objects that request copies. */
  readonly rules: number;
  /** Objects that the other program made or fills. */
  readonly copies: number;
  readonly findings: readonly Finding[];
  readonly changes: readonly Change[];
  /** What could not be read. */
  readonly notes?: readonly string[];
  /** Whether an object requests copies of the program or is one, where no controller is for its objects alone. */
  readonly concerns?: (object: ResourceKey) => boolean;
}

export interface MigrationContext {
  readonly api: KubeApi;
  /** As Keyferry is configured. */
  readonly config: ReadingConfig;
  /** Secrets and ConfigMaps. */
  readonly objects: ReadonlyMap<ResourceKey, Observed>;
  /** Names of namespaces. */
  readonly namespaces: readonly string[];
  /** The rule that makes, fills or uses an object, of Keyferry or of another program. */
  readonly heldBy: (object: ResourceKey) => string | undefined;
  /** The rule of Keyferry that copies an object to other places. */
  readonly copiedBy: (object: ResourceKey) => string | undefined;
  readonly signal: AbortSignal | undefined;
}

export interface ProgramReader {
  readonly program: MigratedProgram;
  /** The name of its image without registry and tag. */
  readonly image: RegExp;
  /** `--apply` refuses to write while it runs: both would write the same copies. */
  readonly mustBeStopped: boolean;
  /** The controller that reads its marks, whose leftovers are then its copies. */
  readonly controller?: string;
  /**
   * Writes without which its objects may not even be listed, in their order.
   * @throws the errors of `api.request`
   */
  readonly prepare?: (api: KubeApi, signal: AbortSignal | undefined) => Promise<readonly Step[]>;
  /** @throws the errors of `api.request` */
  readonly find: (context: MigrationContext) => Promise<ProgramFindings>;
}
