/**
 * The finalizer of a rule. Two facts about the object decide on the next step, as in kube-rs:
 *
 *                   without the finalizer    with the finalizer
 *    active         add                      apply: copies may be made
 *    being deleted  none: it has no copies   cleanup: release the copies, then remove the finalizer
 *
 * Guarantee: a rule is never gone before its copies are released. No copy is made in the state `add`. Only the end of
 * `cleanup`, or its time limit, removes the finalizer. Targets that remain after the limit are orphans, and are deleted
 * as soon as possible.
 *
 * The limit counts on the monotonic clock of this process, from the moment when it saw the deletion: the server's clock
 * may be minutes off. After a restart it counts anew, because the new process has not tried the deletion yet.
 */
import type { Entry } from '../../../copy/book/claim-book.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import type { KubeObject, ObjectMeta } from '../../../kube/api.ts';
import type { Clock } from '../../../runtime/clock.ts';

/** See the table above. */
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
  /** The finalizer can be removed although some targets remain, because the time limit is over. */
  readonly isTimedOut: boolean;
  /** Time until the limit, ms. */
  readonly remainingMs: number;
}

export class Deletions {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #limitMs: number;
  readonly #seen = new Map<RuleKey, { readonly uid: string; readonly at: number }>();

  /** @param limitMs longest wait, ms. A rule that releases its copies while active waits without a limit */
  constructor(clock: Pick<Clock, 'monotonic'>, limitMs: number) {
    this.#clock = clock;
    this.#limitMs = limitMs;
  }

  /**
   * @param remaining claims whose targets are not released
   * @param mayBecomeOrphan whether the rule may go, after the time limit, while this target remains
   */
  step(
    rule: RuleKey,
    { metadata: { uid, deletionTimestamp } }: KubeObject,
    remaining: readonly Entry[],
    mayBecomeOrphan: (entry: Entry) => boolean = () => true,
  ): DeletionStep {
    const now = this.#clock.monotonic();
    const known = this.#seen.get(rule);
    // The time of a deleted object does not count for a new object of the same name.
    const at = known?.uid === uid ? known.at : now;
    if (deletionTimestamp === undefined) this.#seen.delete(rule);
    else this.#seen.set(rule, { uid, at });
    const remainingMs = deletionTimestamp === undefined ? this.#limitMs : at + this.#limitMs - now;
    const isTimedOut = remaining.length > 0 && remainingMs <= 0 && remaining.every(mayBecomeOrphan);
    return { isDone: remaining.length === 0 || isTimedOut, isTimedOut, remainingMs };
  }

  /** Call it when the rule is gone, or is active again. */
  forget(rule: RuleKey): void {
    this.#seen.delete(rule);
  }
}
