/** The outcome of a target, and of each claim on it. Pure. */
import { causeOf, userCause } from '../model/cause.ts';
import { OTHER_OWNER } from '../model/failure.ts';
import { type Outcome, type Owner, PENDING, RELEASED, SYNCED } from '../model/claim.ts';
import type { Entry } from '../book/claim-book.ts';
import { winnerOf } from './contest.ts';
import type { Decision } from './decide.ts';
import type { Contest, Facts, Remarks } from './facts.ts';

/** The outcome of a target by its plan. `undefined`: the target is in its desired state. Plans that still act are pending. */
export function outcomeOf(plan: Decision['plan']): Outcome | undefined {
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
