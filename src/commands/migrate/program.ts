/** The interface through which `keyferry migrate` reads the objects of another program, for example of Reflector. */
import type { ReadingConfig } from '../../config/config.ts';
import type { MigratedProgram } from '../../config/migrated-programs.ts';
import type { ResourceKey } from '../../copy/model/keys.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { KubeApi } from '../../kube/api.ts';
import { command } from '../../runtime/text/command.ts';
import type { TargetPlace } from '../snapshot/places.ts';

/**
 * - `change`: `--apply` makes the change.
 * - `manual`: a person must decide or write something.
 * - `difference`: Keyferry does the same work as the program, but in another way.
 * - `leftover`: a copy whose source is gone or no longer requests copies. `--delete-leftovers` deletes the copy.
 * - `unsupported`: Keyferry does not have this function of the program.
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
  /** Set if the object is a copy of this source. `--apply` changes the source first, then the object. */
  readonly source?: ResourceKey;
}

/** A write of `--apply` that changes more than annotations. */
export interface Step {
  readonly object: TargetPlace;
  readonly text: string;
  /** @throws the errors of `api.request` */
  readonly write: (api: KubeApi, signal: AbortSignal | undefined) => Promise<void>;
}

/** The objects of one program in the cluster. */
export interface ProgramFindings {
  /** Number of objects that request copies. */
  readonly rules: number;
  /** Number of objects that the program made or fills. */
  readonly copies: number;
  readonly findings: readonly Finding[];
  readonly changes: readonly Change[];
  /** Whether an object is a source or a copy of the program. Default: the marks of `controller` decide. */
  readonly concerns?: (object: ResourceKey) => boolean;
}

export interface MigrationContext {
  readonly api: KubeApi;
  /** The configuration of the operator. */
  readonly config: ReadingConfig;
  /** All Secrets and ConfigMaps that could be listed. */
  readonly objects: ReadonlyMap<ResourceKey, Observed>;
  /** Names of all known namespaces. */
  readonly namespaces: readonly string[];
  /** The rule, of Keyferry or of another program, that makes, fills or uses an object; `undefined`: none. */
  readonly heldBy: (object: ResourceKey) => string | undefined;
  /** The rule of Keyferry that copies the object to other places; `undefined`: none. */
  readonly copiedBy: (object: ResourceKey) => string | undefined;
  readonly signal: AbortSignal | undefined;
}

export interface ProgramReader {
  readonly program: MigratedProgram;
  /** Matches the name of the program's container image, without registry and tag. */
  readonly image: RegExp;
  /** `--apply` refuses to write while the program runs, because both would write the same copies. */
  readonly mustBeStopped: boolean;
  /** The controller that reads the program's marks, and so finds its leftovers; `undefined`: there is none. */
  readonly controller?: string;
  /**
   * Writes, in their order, without which the server cannot list the objects. Example: removing a dead webhook.
   * @throws the errors of `api.request`
   */
  readonly prepare?: (api: KubeApi, signal: AbortSignal | undefined) => Promise<readonly Step[]>;
  /** @throws the errors of `api.request` */
  readonly find: (context: MigrationContext) => Promise<ProgramFindings>;
}

export const STAYS = 'Keyferry keeps it';

/**
 * The verdict of `keyferry migrate` on a copy without a place. `manual`: a person must decide whether to keep the copy.
 * @param why why no rule claims the copy, judged by the source that its marks name
 * @param because why a user may still want the copy; `undefined`: no reason is known
 */
export function leftoverOf(
  program: MigratedProgram,
  why: string,
  because: string | undefined,
): { readonly verdict: 'leftover' | 'manual'; readonly reason: string } {
  const stays = `${why}; ${STAYS}`;
  if (because !== undefined) return { verdict: 'manual', reason: `${stays}, because ${because}` };
  const how = command(`migrate --from ${program} --apply --delete-leftovers`);
  return { verdict: 'leftover', reason: `${stays} until it is deleted by ${how}` };
}
