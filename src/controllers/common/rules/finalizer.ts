/**
 * The finalizer of a rule. The next step is a function of two facts about the object, as in kube-rs:
 *
 *                  without the finalizer    with it
 *   active         add                      apply: copies may be made
 *   being deleted  none: it has no copies   cleanup: release the copies, then remove it
 *
 * Guarantee: a rule whose copies Keyferry has to release is never gone before they are. No copy is made in the state `add`, and only the end of
 * `cleanup`, or its time limit, removes the finalizer. After the limit the remaining targets are orphans, and are deleted as soon as that is possible.
 *
 * The limit counts from the moment in which this process saw the deletion, on its monotonic clock. The time in the object is that of the server's
 * clock, which may be minutes off. So a restart begins the wait anew, once for each process: it has not tried the deletion yet.
 */
import type { Entry } from '../../../copy/book/claim-book.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import type { KubeObject, ObjectMeta } from '../../../kube/api.ts';
import type { Clock } from '../../../runtime/clock.ts';

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
  /** It can be removed although some targets remain. */
  readonly isTimedOut: boolean;
  /** Until the time limit, ms. */
  readonly remainingMs: number;
}

export class Deletions {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #limitMs: number;
  readonly #seen = new Map<RuleKey, { readonly uid: string; readonly at: number }>();

  /** @param limitMs longest wait, ms. An object that is released without being deleted waits without a limit */
  constructor(clock: Pick<Clock, 'monotonic'>, limitMs: number) {
    this.#clock = clock;
    this.#limitMs = limitMs;
  }

  /**
   * @param remaining claims whose targets are not released
   * @param mayBecomeOrphan whether the rule need not wait any longer for a target
   */
  step(
    rule: RuleKey,
    { metadata: { uid, deletionTimestamp } }: KubeObject,
    remaining: readonly Entry[],
    mayBecomeOrphan: (entry: Entry) => boolean = () => true,
  ): DeletionStep {
    const now = this.#clock.monotonic();
    const known = this.#seen.get(rule);
    // Another object of the name may have been deleted before.
    const at = known?.uid === uid ? known.at : now;
    if (deletionTimestamp === undefined) this.#seen.delete(rule);
    else this.#seen.set(rule, { uid, at });
    const remainingMs = deletionTimestamp === undefined ? this.#limitMs : at + this.#limitMs - now;
    const isTimedOut = remaining.length > 0 && remainingMs <= 0 && remaining.every(mayBecomeOrphan);
    return { isDone: remaining.length === 0 || isTimedOut, isTimedOut, remainingMs };
  }

  /** The rule is gone, or is active again. */
  forget(rule: RuleKey): void {
    this.#seen.delete(rule);
  }
}
