/**
 * The deletion of a SyncSecret: its finalizer stays until the copy is gone, or until a time limit. After the limit the copy is an orphan,
 * and is deleted as soon as that is possible.
 */
import { isUnderWay } from '../../copy/model/claim.ts';
import type { Entry } from '../../copy/plan/claim-book.ts';
import { ORIGINAL_FINALIZER, SYNC_SECRET_FINALIZER } from './api.ts';
import type { SyncSecretRule } from './rule.ts';

export interface DeletionStep {
  /** The finalizer can be removed. */
  readonly isDone: boolean;
  readonly isTimedOut: boolean;
  /** Until the time limit, ms. */
  readonly remainingMs: number;
  /** What the deletion waits for. */
  readonly waitsFor: string | undefined;
}

/** Another client holds the object: its deletion does not end with ours. */
export function hasForeignFinalizer({ metadata }: SyncSecretRule): boolean {
  return metadata.finalizers.some((one) => one !== SYNC_SECRET_FINALIZER && one !== ORIGINAL_FINALIZER);
}

/** @param limitMs longest wait since the deletion was requested, ms @param now wall clock, ms */
export function deletionStep(
  { metadata }: SyncSecretRule,
  entries: readonly Entry[],
  limitMs: number,
  now: number,
): DeletionStep {
  const remaining = entries.filter(({ outcome }) => outcome.state !== 'released');
  const since = metadata.deletionTimestamp === undefined ? now : Date.parse(metadata.deletionTimestamp);
  const remainingMs = since + limitMs - now;
  const isTimedOut = remaining.length > 0 && remainingMs <= 0;
  const waiting = remaining.find(({ outcome }) => !isUnderWay(outcome))?.outcome;
  return { isDone: remaining.length === 0 || isTimedOut, isTimedOut, remainingMs, waitsFor: waiting?.message };
}
