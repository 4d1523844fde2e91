/**
 * A rule is being deleted, and another rule claims its target. The target gets the mark of the other rule, so that the copy never
 * disappears. A failed takeover never blocks deletion: after an error that is not transient, the copy is deleted as if no other rule
 * claimed it. Pure.
 */
import { isPassing } from '../model/failure.ts';
import { isReleased, winnerOf } from './contest.ts';
import type { Contest } from './facts.ts';

/** Whether the rule that marked the target is being deleted, and another rule claims the target. */
export function isHandOver(contest: Contest): boolean {
  return isReleased(contest) && winnerOf(contest) !== undefined;
}

/** Whether to give up the takeover: at once after an error that is not transient, else when the error has lasted until it was reported. */
export function shouldGiveUpTakeover(error: unknown, contest: Contest): boolean {
  return !isPassing(error) || winnerOf(contest)?.outcome.state === 'error';
}
