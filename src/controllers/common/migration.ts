/** The interface by which `keyferry migrate` reads the objects of another program. */
import type { ReadingConfig } from '../../config/config.ts';
import type { MigratedProgram } from '../../config/migrated-programs.ts';
import type { ResourceKey } from '../../copy/model/keys.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { KubeApi } from '../../kube/api.ts';
import type { TargetPlace } from './snapshot/status-report.ts';

/**
 * - `change`: `--apply` makes the change.
 * - `manual`: a person must decide or write something.
 * - `difference`: Keyferry does the same work, but not in the same way.
 * - `leftover`: a copy whose source is gone or no longer wants it. `--delete-leftovers` deletes the copy.
 * - `unsupported`: Keyferry cannot do this.
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
  /** The object is a copy of this source. It is changed only after the source is. */
  readonly source?: ResourceKey;
}

/** A write of `--apply` that is more than annotations. */
export interface Step {
  readonly object: TargetPlace;
  readonly text: string;
  /** @throws the errors of `api.request` */
  readonly write: (api: KubeApi, signal: AbortSignal | undefined) => Promise<void>;
}

/** The objects of one program in the cluster. */
export interface ProgramFindings {
  /** Objects that request copies. */
  readonly rules: number;
  /** Objects that the other program made or fills. */
  readonly copies: number;
  readonly findings: readonly Finding[];
  readonly changes: readonly Change[];
  /** Objects that could not be read, in words. */
  readonly notes?: readonly string[];
  /** Whether an object is a source or a copy of the program. Default: `controller` shows it. */
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
  /** The rule, of Keyferry or of another program, that makes, fills or uses an object; `undefined`: none. */
  readonly heldBy: (object: ResourceKey) => string | undefined;
  /** The rule of Keyferry that copies the object to other places; `undefined`: none. */
  readonly copiedBy: (object: ResourceKey) => string | undefined;
  readonly signal: AbortSignal | undefined;
}

export interface ProgramReader {
  readonly program: MigratedProgram;
  /** Matches the name of the program's image without registry and tag. */
  readonly image: RegExp;
  /** `--apply` refuses to write while the program runs, because both would write the same copies. */
  readonly mustBeStopped: boolean;
  /** The controller that reads the program's marks. It finds the leftovers of the program. */
  readonly controller?: string;
  /**
   * The writes without which the program's objects may not even be listed, in the order in which to make them.
   * @throws the errors of `api.request`
   */
  readonly prepare?: (api: KubeApi, signal: AbortSignal | undefined) => Promise<readonly Step[]>;
  /** @throws the errors of `api.request` */
  readonly find: (context: MigrationContext) => Promise<ProgramFindings>;
}
