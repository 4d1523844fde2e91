/** `replicate-once`: a target that has got its data keeps it, until the source names another version. */
import { type AnnotationNames, type Annotations, readBool, type Refusal } from './annotations.ts';

/** Whether the target keeps the data that it holds, whatever the source holds by now. */
export function isFrozen(names: AnnotationNames, source: Annotations, target: Annotations): boolean | Refusal {
  if (!(names.version in target)) return false;
  const bySource = readBool(source, names.once);
  if (typeof bySource === 'object') return bySource;
  const byTarget = readBool(target, names.once);
  if (typeof byTarget === 'object') return byTarget;
  if (!bySource && !byTarget) return false;
  const wanted = source[names.onceVersion];
  return wanted === undefined || wanted === target[names.onceVersion];
}
