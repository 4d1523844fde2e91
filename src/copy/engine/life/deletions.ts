/**
 * How long a rule that is being deleted waits for its copies. Two facts about its object decide what is due, as in
 * kube-rs:
 *
 *                   without the finalizer    with the finalizer
 *    active         apply: no status yet     apply
 *    being deleted  nothing                  clean up: release the copies, then remove the finalizer
 *
 * Guarantee: the server does not remove a rule with a status before its copies are released. Keyferry removes the
 * finalizer only then, or at the time limit. Copies do not wait for the finalizer, except those of a CCM: the copies of
 * a rule that is gone without it, and those that remain after the limit, are orphans, which are found by their marks and
 * deleted as soon as possible.
 *
 * The limit begins when this process first sees the deletion, on the monotonic clock, because the server's clock may
 * differ by minutes. After a restart the limit begins again, because the new process has not yet tried the cleanup.
 */
import type { Entry } from '../../book/claim-book.ts';
import type { RuleKey } from '../../model/keys.ts';
import type { KubeObject } from '../../../kube/api.ts';
import type { Clock } from '../../../runtime/clock.ts';

/** The state of a rule that is being deleted. */
export interface Deletion {
  /** The claims whose targets are not released yet. */
  readonly remaining: readonly Entry[];
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

  /** @param limitMs longest wait of a rule that is being deleted, ms */
  constructor(clock: Pick<Clock, 'monotonic'>, limitMs: number) {
    this.#clock = clock;
    this.#limitMs = limitMs;
  }

  /** @returns `undefined`: the rule is not being deleted */
  step(
    rule: RuleKey,
    { metadata: { uid, deletionTimestamp } }: Pick<KubeObject, 'metadata'>,
    claims: readonly Entry[],
  ): Deletion | undefined {
    if (deletionTimestamp === undefined) return undefined;
    const now = this.#clock.monotonic();
    const known = this.#seen.get(rule);
    // If an earlier object with the same name was being deleted, its time does not count for the new object.
    const at = known?.uid === uid ? known.at : now;
    this.#seen.set(rule, { uid, at });
    const remaining = claims.filter((entry) => !isReleased(entry));
    const remainingMs = at + this.#limitMs - now;
    // A copy that must stay but is not marked yet must not become an orphan: it would be deleted.
    const mayEnd = remaining.every(({ claim: { mode } }) => mode === 'release');
    const isTimedOut = remaining.length > 0 && remainingMs <= 0 && mayEnd;
    return { remaining, isDone: remaining.length === 0 || isTimedOut, isTimedOut, remainingMs };
  }

  /** Forgets the time of a deletion. Call this when the rule is gone. */
  forget(rule: RuleKey): void {
    this.#seen.delete(rule);
  }
}

/** Whether a target of a rule that ends needs no more work. A claim that is not a release marks a copy as kept. */
function isReleased({ claim, outcome: { state } }: Entry): boolean {
  return claim.mode === 'release' ? state === 'released' : state !== 'pending' && state !== 'error';
}
