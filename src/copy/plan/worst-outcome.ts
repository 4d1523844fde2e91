/** What keeps a rule from being ready, by the outcomes of its claims. Pure. */
import type { Cause } from '../model/cause.ts';
import { isUnderWay, type Outcome, PENDING } from '../model/claim.ts';
import type { Entry } from '../book/claim-book.ts';

/** From the least to the worst. An outcome that is not here leaves the rule ready. */
const SEVERITY = ['underWay', 'waiting', 'conflict', 'error'] as const;

/** @returns `undefined`: every claim is in its desired state */
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
