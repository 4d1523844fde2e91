/**
 * Decides on the next step for a rule with a finalizer. Two facts about the object decide, as in kube-rs:
 *
 *                   without the finalizer    with the finalizer
 *    active         add: no status yet       apply
 *    being deleted  none                     cleanup: release the copies, then remove the finalizer
 *
 * Guarantee: the server does not remove a rule with a status before its copies are released. Keyferry removes the
 * finalizer only at the end of `cleanup`, or at its time limit. Copies do not wait for the finalizer, except those of a
 * CCM: the copies of a rule that is gone without it, and those that remain after the limit, are orphans, which are found
 * by their marks and deleted as soon as possible.
 *
 * The limit begins when this process first sees the deletion, on the monotonic clock, because the server's clock may
 * differ by minutes. After a restart the limit begins again, because the new process has not yet tried the cleanup.
 */
import type { Entry } from '../../../copy/book/claim-book.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import type { KubeObject, ObjectMeta } from '../../../kube/api.ts';
import type { Clock } from '../../../runtime/clock.ts';

/** The states in the table at the head of this file. */
export type FinalizerStep = 'add' | 'apply' | 'cleanup' | 'none';

export function finalizerStep(
  { deletionTimestamp, finalizers = [] }: Pick<ObjectMeta, 'deletionTimestamp' | 'finalizers'>,
  finalizer: string,
): FinalizerStep {
  const isHeld = finalizers.includes(finalizer);
  if (deletionTimestamp === undefined) return isHeld ? 'apply' : 'add';
  return isHeld ? 'cleanup' : 'none';
}

export interface DeletionStep {
  /** The finalizer can be removed. */
  readonly isDone: boolean;
  /** The finalizer can be removed although some targets remain, because the time limit has passed. */
  readonly isTimedOut: boolean;
  /** Time until the limit, ms. */
  readonly remainingMs: number;
}

export class Deletions {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #limitMs: number;
  readonly #seen = new Map<RuleKey, { readonly uid: string; readonly at: number }>();

  /** @param limitMs longest wait of a rule that is being deleted, ms. An active rule has no limit */
  constructor(clock: Pick<Clock, 'monotonic'>, limitMs: number) {
    this.#clock = clock;
    this.#limitMs = limitMs;
  }

  /**
   * @param remaining the claims whose targets are not released yet
   * @param mayBecomeOrphan whether, after the time limit, the rule may be removed although this target remains
   */
  step(
    rule: RuleKey,
    { metadata: { uid, deletionTimestamp } }: KubeObject,
    remaining: readonly Entry[],
    mayBecomeOrphan: (entry: Entry) => boolean = () => true,
  ): DeletionStep {
    const now = this.#clock.monotonic();
    const known = this.#seen.get(rule);
    // If an earlier object with the same name was being deleted, its time does not count for the new object.
    const at = known?.uid === uid ? known.at : now;
    if (deletionTimestamp === undefined) this.#seen.delete(rule);
    else this.#seen.set(rule, { uid, at });
    const remainingMs = deletionTimestamp === undefined ? this.#limitMs : at + this.#limitMs - now;
    const isTimedOut = remaining.length > 0 && remainingMs <= 0 && remaining.every(mayBecomeOrphan);
    return { isDone: remaining.length === 0 || isTimedOut, isTimedOut, remainingMs };
  }

  /** Forgets the time of a deletion. Call this when the rule is gone, or is active again. */
  forget(rule: RuleKey): void {
    this.#seen.delete(rule);
  }
}
