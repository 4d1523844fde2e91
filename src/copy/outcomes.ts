/** What each claim on a target is told, once it is known what became of the target. Pure. */
import { type Outcome, RELEASED, SYNCED } from './claim.ts';
import type { Entry } from './claim-book.ts';
import { type Remarks, winnerOf } from './plan.ts';

/**
 * @param entries the claims on one target
 * @param outcome of the target; `undefined`: it is as it should be
 * @param remarks what claims are told instead
 */
export function* outcomesOf(
  entries: readonly Entry[],
  outcome: Outcome | undefined,
  remarks?: Remarks,
): Iterable<readonly [Entry, Outcome]> {
  const winner = winnerOf(entries);
  // One for all of them: thousands may claim the target of one.
  const lost: Outcome | undefined = winner && {
    state: 'conflict',
    reason: 'Conflict',
    message: `${winner.claim.owner.title} claims the same target and is older`,
  };
  for (const entry of entries) {
    if (entry.claim.mode === 'own' && lost !== undefined && entry !== winner) {
      yield [entry, lost];
    } else if (entry.claim.mode === 'release') {
      yield [entry, outcome ?? RELEASED];
    } else {
      yield [entry, (entry.claim.mode === 'fill' ? remarks?.fill : remarks?.own) ?? outcome ?? SYNCED];
    }
  }
}
