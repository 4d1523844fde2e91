/** Which of several claims decides a target, and the outcome of each. Pure. */
import { byRank, type Entry } from '../book/claim-book.ts';
import { isPassing, causeOf, userCause, OTHER_OWNER, type Cause } from '../model/cause.ts';
import { type Outcome, type Owner, PENDING, RELEASED, SYNCED, isUnderWay } from '../model/claim.ts';
import type { Contest, Facts, Plan, Remarks } from './facts.ts';

/** The `own` claim of the oldest rule. */
export function oldestOf(entries: readonly Entry[]): Entry | undefined {
  let oldest: Entry | undefined;
  for (const entry of entries) {
    if (entry.claim.mode === 'own' && (oldest === undefined || byRank(entry, oldest) < 0)) oldest = entry;
  }
  return oldest;
}

/**
 * The `own` claim that gets the target, if any. A rule that has the target keeps the target as long as it claims the target. So an
 * edit of an older rule never takes a working copy from its owner. Otherwise the oldest rule that can make the target now gets it: a rule without a source
 * does not block the others.
 */
export function winnerOf({ entries, markedBy, viewOf, now }: Contest): Entry | undefined {
  const owners = entries.filter(({ claim }) => claim.mode === 'own');
  if (owners.length < 2) return owners[0];
  const holder = owners.find(({ claim }) => claim.owner.key === markedBy);
  if (holder !== undefined) return holder;
  const able = owners.filter(({ claim }) => claim.shape.desiredState(viewOf(claim), undefined, now).kind === 'be');
  return oldestOf(able) ?? oldestOf(owners);
}

/** The claim that fills the target's data. */
export function fillerOf(entries: readonly Entry[]): Entry | undefined {
  return entries.find(({ claim }) => claim.mode === 'fill');
}

/** The rule that marked the target is being deleted. */
export function isReleased({ entries, markedBy }: Contest): boolean {
  return entries.some(({ claim }) => claim.mode === 'release' && claim.owner.key === markedBy);
}

/**
 * Whether the target has the mark of another rule than the one that gets it: its rule is being deleted, or no longer claims it. It gets the mark
 * of the other rule, so that it never disappears. A failed takeover never blocks deletion: when it is given up, the copy is deleted as if no other
 * rule claimed it.
 */
export function isHandOver(contest: Contest): boolean {
  const { markedBy } = contest;
  return markedBy !== undefined && (winnerOf(contest)?.claim.owner.key ?? markedBy) !== markedBy;
}

/** Whether to give up the takeover: after a permanent error at once, after a transient one when it was reported. */
export function shouldGiveUpTakeover(error: unknown, contest: Contest): boolean {
  return !isPassing(error) || winnerOf(contest)?.outcome.state === 'error';
}

/** The outcome of a target by its plan. `undefined`: the target is in its desired state. Plans that still act are pending. */
export function outcomeOf(plan: Plan | { readonly do: 'later' }): Outcome | undefined {
  if (plan.do === 'nothing') return undefined;
  if (plan.do === 'wait') return { state: 'waiting', for: plan.for, ...causeOf(plan) };
  if (plan.do === 'fail') return { state: 'error', ...causeOf(plan) };
  return plan.do === 'conflict' ? { state: 'conflict', ...causeOf(plan) } : PENDING;
}

/** The conflict with another rule, whose name is nothing for a tenant. */
export function conflictWithRule(message: string): Outcome {
  return { state: 'conflict', ...userCause('Conflict', message, OTHER_OWNER) };
}

/**
 * @param contest the claims on one target, and whether it exists
 * @param outcome of the target; `undefined`: it is in its desired state
 * @param remarks outcomes of claims that differ from it
 */
export function* outcomesOf(
  contest: Contest & Pick<Facts, 'presence'>,
  outcome: Outcome | undefined,
  remarks?: Remarks,
): Iterable<readonly [Entry, Outcome]> {
  const winner = winnerOf(contest);
  // One object for all of them: thousands may claim one target.
  const lost = winner && lostTo(winner.claim.owner, contest);
  for (const entry of contest.entries) {
    const { mode, owner } = entry.claim;
    if (mode === 'release') {
      // A release claim is done once the target no longer carries its owner's mark. Where the target could not be read, it may carry it.
      const mayBeOwned = contest.markedBy === owner.key || (contest.presence === 'unknown' && winner === undefined);
      yield [entry, mayBeOwned ? (remarks?.release ?? outcome ?? RELEASED) : RELEASED];
    } else if (mode === 'own' && lost !== undefined && entry !== winner) {
      yield [entry, lost];
    } else {
      yield [entry, (mode === 'fill' ? remarks?.fill : remarks?.own) ?? outcome ?? SYNCED];
    }
  }
}

function lostTo({ key, title }: Owner, { markedBy }: Contest): Outcome {
  return conflictWithRule(key === markedBy ? `managed by ${title}` : `${title} also claims it and takes precedence`);
}

/** From the least to the worst. An outcome that is not here leaves the rule ready. */
const SEVERITY = ['underWay', 'waiting', 'conflict', 'error'] as const;

/** What keeps a rule from being ready, by the outcomes of its claims. @returns `undefined`: every claim is in its desired state */
export function worstOutcome(entries: Iterable<Entry>): Cause | undefined {
  let worst: Cause | undefined;
  let worstRank = -1;
  for (const { outcome } of entries) {
    const rank = rankOf(outcome);
    if (rank <= worstRank) continue;
    worst = rank === 0 ? PENDING : outcome;
    worstRank = rank;
  }
  return worst;
}

function rankOf(outcome: Outcome): number {
  return (SEVERITY as readonly string[]).indexOf(isUnderWay(outcome) ? 'underWay' : outcome.state);
}
