/**
 * A rule is being deleted, and another rule claims its target. The mark changes hands, so that the copy never disappears. A failed
 * takeover never blocks deletion: if it fails for a reason that does not pass, the copy is deleted as if no other rule claimed it. Pure.
 */
import { isPassing } from '../model/failure.ts';
import { isReleased, winnerOf } from './contest.ts';
import type { Contest } from './facts.ts';

/** The rule that marked the target is being deleted, and another rule is to take the target over. */
export function isHandOver(contest: Contest): boolean {
  return isReleased(contest) && winnerOf(contest) !== undefined;
}

/** Whether to give up the takeover: at once if the error does not pass by itself, otherwise when it has gone on long enough to be reported. */
export function shouldGiveUpTakeover(error: unknown, contest: Contest): boolean {
  return !isPassing(error) || winnerOf(contest)?.outcome.state === 'error';
}
