/** The bookkeeping annotations of a target: reads from them where its data came from, and makes their patches. Pure. */
import type { Cause } from '../../../copy/model/cause.ts';
import type { FieldPatch } from '../../../copy/model/claim.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import { type AnnotationNames, type Annotations, readBool } from '../rules/annotations.ts';

/**
 * The patch of `replicated-from-version`. If only the version differs, nothing is written: otherwise two objects that
 * copy each other would be written forever. A missing annotation, or one of another client, does cause a write.
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

/** The patch that removes the bookkeeping of a target that no longer has data of a source. */
export function cleared({ version, onceVersion, inherited, origin }: AnnotationNames): FieldPatch {
  return { [version]: null, [onceVersion]: null, [inherited]: null, [origin]: null };
}

/** A patch that sets the bookkeeping annotations to their present values, so that a write keeps them. */
export function kept(names: AnnotationNames, { annotations }: Observed): FieldPatch {
  const bookkeeping = [names.at, names.version, names.onceVersion, names.origin, names.inherited];
  return Object.fromEntries(
    bookkeeping.flatMap((name) => (name in annotations ? [[name, annotations[name] ?? '']] : [])),
  );
}

/**
 * Whether a target has data of a source, or bookkeeping of such data. A `replicate-once-version` alone does not count:
 * the controller never writes only this annotation, so a user has set it, on an object with the user's data.
 */
export function isFilled(names: AnnotationNames, { annotations }: Observed): boolean {
  return [names.version, names.inherited, names.origin].some((name) => name in annotations);
}

/** Whether `replicate-once` protects a target's data. A new `replicate-once-version` on the source ends this. */
export function isFrozen(names: AnnotationNames, source: Annotations, target: Annotations): boolean | Cause {
  if (!(names.version in target)) return false;
  const bySource = readBool(source, names.once);
  if (typeof bySource === 'object') return bySource;
  const byTarget = readBool(target, names.once);
  if (typeof byTarget === 'object') return byTarget;
  if (!bySource && !byTarget) return false;
  const version = source[names.onceVersion];
  return version === undefined || version === target[names.onceVersion];
}
