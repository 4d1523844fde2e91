/** The annotations that the replicator keeps on a target: their meaning for its data, and the patches that change them. Pure. */
import type { FieldPatch } from '../../../copy/model/claim.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import { type AnnotationNames, type Annotations, readBool, type Refusal } from './annotations.ts';

/**
 * The source's version on a target. An old version alone is no reason to write while the data are equal, because a loop of
 * replicate-from would then never end. If the version is missing, or another client has set it, the target is written.
 */
export function versionPatch(
  names: AnnotationNames,
  observed: Observed | undefined,
  version: string,
): { readonly annotations: FieldPatch; readonly bookkeeping: FieldPatch } {
  const mark = { [names.version]: version };
  const ours = observed === undefined || observed.ownAnnotations.includes(names.version);
  return ours ? { annotations: {}, bookkeeping: mark } : { annotations: mark, bookkeeping: {} };
}

/** The bookkeeping of a target without data of a source. */
export function cleared({ version, onceVersion, inherited, origin }: AnnotationNames): FieldPatch {
  return { [version]: null, [onceVersion]: null, [inherited]: null, [origin]: null };
}

/** The present bookkeeping of a target as a patch that changes nothing. */
export function kept(names: AnnotationNames, { annotations }: Observed): FieldPatch {
  const bookkeeping = [names.at, names.version, names.onceVersion, names.origin, names.inherited];
  return Object.fromEntries(
    bookkeeping.flatMap((name) => (name in annotations ? [[name, annotations[name] ?? '']] : [])),
  );
}

/**
 * Whether a target has data of a source, or bookkeeping of such data. A replicate-once-version alone does not count: the controller
 * never writes it alone, so a user has set it on an object with the user's own data.
 */
export function isFilled(names: AnnotationNames, { annotations }: Observed): boolean {
  return [names.version, names.inherited, names.origin].some((name) => name in annotations);
}

/** Whether `replicate-once` freezes the data of a target: it keeps its data until the source has another `replicate-once-version`. */
export function isFrozen(names: AnnotationNames, source: Annotations, target: Annotations): boolean | Refusal {
  if (!(names.version in target)) return false;
  const bySource = readBool(source, names.once);
  if (typeof bySource === 'object') return bySource;
  const byTarget = readBool(target, names.once);
  if (typeof byTarget === 'object') return byTarget;
  if (!bySource && !byTarget) return false;
  const version = source[names.onceVersion];
  return version === undefined || version === target[names.onceVersion];
}
