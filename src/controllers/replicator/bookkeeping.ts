/** The annotations that the controller writes, and when they are reason enough to write. */
import type { FieldPatch } from '../../copy/model/claim.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { AnnotationNames } from './annotations.ts';

/**
 * The source's version on a target. That it grows older is no reason to write as long as the data agree (a chain that is a loop
 * would never come to rest); that it is missing, or that somebody else has set it, is.
 */
export function versionMark(
  names: AnnotationNames,
  observed: Observed | undefined,
  version: string,
): { readonly annotations: FieldPatch; readonly bookkeeping: FieldPatch } {
  const mark = { [names.version]: version };
  const ours = observed === undefined || observed.ownAnnotations.includes(names.version);
  return ours ? { annotations: {}, bookkeeping: mark } : { annotations: mark, bookkeeping: {} };
}

/** The bookkeeping of a target as it stands, as a patch: none of it is touched. */
export function kept(names: AnnotationNames, { annotations }: Observed): FieldPatch {
  const patch: Record<string, string> = {};
  for (const name of [names.at, names.version, names.onceVersion, names.origin, names.inherited]) {
    const value = annotations[name];
    if (value !== undefined) patch[name] = value;
  }
  return patch;
}

/**
 * Whether a target holds data of a source, or has not been cleared of what says so. A replicate-once-version alone says nothing:
 * every filling leaves more behind, so that a user has set it, on an object that holds its user's data.
 */
export function isFilled(names: AnnotationNames, { annotations }: Observed): boolean {
  return [names.version, names.inherited, names.origin].some((name) => name in annotations);
}
