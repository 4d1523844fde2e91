/** The bookkeeping annotations on a target: what they say about its data, and how a write changes them. Pure. */
import type { FieldPatch } from '../../../copy/model/claim.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import { type AnnotationNames, type Annotations, readBool, type Refusal } from './annotations.ts';

/**
 * The patch of `replicated-from-version`. A different version alone causes no write while the data is equal: otherwise
 * a loop of `replicate-from` would never end. If the annotation is missing or another client's, the target is written.
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

/** The patch for a target that no longer has data of a source: it removes the bookkeeping. */
export function cleared({ version, onceVersion, inherited, origin }: AnnotationNames): FieldPatch {
  return { [version]: null, [onceVersion]: null, [inherited]: null, [origin]: null };
}

/** A patch with the present bookkeeping, which changes nothing. */
export function kept(names: AnnotationNames, { annotations }: Observed): FieldPatch {
  const bookkeeping = [names.at, names.version, names.onceVersion, names.origin, names.inherited];
  return Object.fromEntries(
    bookkeeping.flatMap((name) => (name in annotations ? [[name, annotations[name] ?? '']] : [])),
  );
}

/**
 * Whether a target has data of a source, or bookkeeping of such data. A `replicate-once-version` alone does not show
 * that: the controller never writes it alone, so a user has set it on an object with own data.
 */
export function isFilled(names: AnnotationNames, { annotations }: Observed): boolean {
  return [names.version, names.inherited, names.origin].some((name) => name in annotations);
}

/** Whether `replicate-once` freezes the data of a target. A new `replicate-once-version` on the source ends that. */
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
