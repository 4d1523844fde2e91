/**
 * A rule is being deleted, and another rule claims its target. The target gets the mark of the other rule, so that the copy never
 * disappears. A failed takeover never blocks deletion: when it is given up, the copy is deleted as if no other rule claimed it. Pure.
 */
import { isPassing } from '../model/failure.ts';
import { isReleased, winnerOf } from './contest.ts';
import type { Contest } from './facts.ts';

/** Whether the rule that marked the target is being deleted, and another rule claims the target. */
export function isHandOver(contest: Contest): boolean {
  return isReleased(contest) && winnerOf(contest) !== undefined;
}

/** Whether to give up the takeover: after a permanent error at once, after a transient one when it was reported. */
export function shouldGiveUpTakeover(error: unknown, contest: Contest): boolean {
  return !isPassing(error) || winnerOf(contest)?.outcome.state === 'error';
}
