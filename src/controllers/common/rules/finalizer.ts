/**
 * The finalizer of a rule. What is due is a function of two facts about the object, as in kube-rs:
 *
 *                  without the finalizer    with it
 *   active         add                      apply: copies may be made
 *   being deleted  none: it has no copies   cleanup: release the copies, then remove it
 *
 * Guarantee: a rule whose copies Keyferry has to release is never gone before they are. No copy is made in the state `add`, and only the end of
 * `cleanup`, or its time limit, removes the finalizer. Pure.
 */
import type { ObjectMeta } from '../../../kube/api.ts';

export type FinalizerStep = 'add' | 'apply' | 'cleanup' | 'none';

export function finalizerStep(
  { deletionTimestamp, finalizers = [] }: Pick<ObjectMeta, 'deletionTimestamp' | 'finalizers'>,
  finalizer: string,
): FinalizerStep {
  const isHeld = finalizers.includes(finalizer);
  if (deletionTimestamp === undefined) return isHeld ? 'apply' : 'add';
  return isHeld ? 'cleanup' : 'none';
}
