/** What the deletion of a SyncSecret waits for. */
import { isUnderWay } from '../../copy/model/claim.ts';
import type { Entry } from '../../copy/plan/claim-book.ts';
import { type DeletionStep, deletionStep } from '../common/deletion.ts';
import { ORIGINAL_FINALIZER, SYNC_SECRET_FINALIZER } from './api.ts';
import type { SyncSecretRule } from './rule.ts';
import { publicWait } from './status.ts';

/** Another client holds the object: its deletion does not end with ours. */
export function hasForeignFinalizer({ metadata }: SyncSecretRule): boolean {
  return metadata.finalizers.some((one) => one !== SYNC_SECRET_FINALIZER && one !== ORIGINAL_FINALIZER);
}

/** @returns the step, and what it waits for, if that is known @see deletionStep */
export function syncSecretDeletion(
  object: SyncSecretRule,
  entries: readonly Entry[],
  limitMs: number,
  now: number,
): DeletionStep & { readonly waitsFor: string | undefined } {
  const remaining = entries.filter(({ outcome }) => outcome.state !== 'released');
  const waiting = remaining.find(({ outcome }) => !isUnderWay(outcome))?.outcome;
  return { ...deletionStep(object, remaining, limitMs, now), waitsFor: waiting && publicWait(waiting) };
}
