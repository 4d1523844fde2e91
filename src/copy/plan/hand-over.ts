/**
 * The rule of a copy is being deleted, or no longer claims it, and another rule claims it. The copy gets the mark of the other rule, so that
 * it never disappears. A failed takeover never blocks deletion: when it is given up, the copy is deleted as if no other rule claimed it. Pure.
 */
import { isPassing } from '../model/failure.ts';
import { winnerOf } from './contest.ts';
import type { Contest } from './facts.ts';

/** Whether the target has the mark of another rule than the one that gets it. */
export function isHandOver(contest: Contest): boolean {
  const { markedBy } = contest;
  return markedBy !== undefined && (winnerOf(contest)?.claim.owner.key ?? markedBy) !== markedBy;
}

/** Whether to give up the takeover: after a permanent error at once, after a transient one when it was reported. */
export function shouldGiveUpTakeover(error: unknown, contest: Contest): boolean {
  return !isPassing(error) || winnerOf(contest)?.outcome.state === 'error';
}
