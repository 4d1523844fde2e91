/**
 * A rule is going, and another one claims its target. The mark is to change hands, so that the copy is never away; but who cannot take
 * it over, for a reason that does not pass, does not keep the other from going: then the copy goes as if nobody waited for it. Pure.
 */
import { isPassing } from '../model/failure.ts';
import { type Facts, isReleased, winnerOf } from './plan.ts';

/** A rule that is going has marked the target, and another one is to take it over. */
export function isHandOver(facts: Facts): boolean {
  return isReleased(facts) && winnerOf(facts) !== undefined;
}

/** Whether there has been patience enough: what does not pass by itself is told at once, all else when it goes on. */
export function isOver(error: unknown, facts: Facts): boolean {
  return !isPassing(error) || winnerOf(facts)?.outcome.state === 'error';
}
