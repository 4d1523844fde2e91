/** What each claim on a target is told, once it is known what became of the target. Pure. */
import { type Outcome, type Owner, RELEASED, SYNCED } from '../model/claim.ts';
import type { Entry } from './claim-book.ts';
import type { Contest, Remarks } from './facts.ts';
import { winnerOf } from './contest.ts';

/**
 * @param contest the claims on one target
 * @param outcome of the target; `undefined`: it is as it should be
 * @param remarks what claims are told instead
 */
export function* outcomesOf(
  contest: Contest,
  outcome: Outcome | undefined,
  remarks?: Remarks,
): Iterable<readonly [Entry, Outcome]> {
  const winner = winnerOf(contest);
  // One for all of them: thousands may claim the target of one.
  const lost = winner && lostTo(winner.claim.owner, contest);
  for (const entry of contest.entries) {
    if (entry.claim.mode === 'own' && lost !== undefined && entry !== winner) {
      yield [entry, lost];
    } else if (entry.claim.mode === 'release') {
      yield [entry, remarks?.release ?? outcome ?? RELEASED];
    } else {
      yield [entry, (entry.claim.mode === 'fill' ? remarks?.fill : remarks?.own) ?? outcome ?? SYNCED];
    }
  }
}

function lostTo({ key, title }: Owner, { markedBy }: Contest): Outcome {
  const message = key === markedBy ? `it is the copy of ${title}` : `${title} claims it too and comes first`;
  return { state: 'conflict', reason: 'Conflict', message };
}
