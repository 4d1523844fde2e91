/**
 * The deletion of a rule: its finalizer stays until its targets are released, or until a time limit. After the limit the remaining targets
 * are orphans, and are deleted as soon as that is possible. Pure.
 */
import type { Entry } from '../../copy/plan/claim-book.ts';
import type { KubeObject } from '../../kube/api.ts';

export interface DeletionStep {
  /** The finalizer can be removed. */
  readonly isDone: boolean;
  /** It can be removed although some targets remain. */
  readonly isTimedOut: boolean;
  /** Until the time limit, ms. */
  readonly remainingMs: number;
}

/**
 * @param remaining claims whose targets are not released
 * @param limitMs longest wait since the deletion was requested, ms. An object that is released without being deleted waits without a limit
 * @param now wall clock, ms
 * @param mayBecomeOrphan whether the rule need not wait any longer for a target
 */
export function deletionStep(
  { metadata: { deletionTimestamp } }: KubeObject,
  remaining: readonly Entry[],
  limitMs: number,
  now: number,
  mayBecomeOrphan: (entry: Entry) => boolean = () => true,
): DeletionStep {
  const since = deletionTimestamp === undefined ? now : Date.parse(deletionTimestamp);
  const remainingMs = since + limitMs - now;
  const isTimedOut = remaining.length > 0 && remainingMs <= 0 && remaining.every(mayBecomeOrphan);
  return { isDone: remaining.length === 0 || isTimedOut, isTimedOut, remainingMs };
}
