/**
 * Two controllers that both put an object right never come to rest. A copy that is changed again and again, though its source is
 * not, is put right at once some times, and then ever more slowly, so that neither the server nor we are kept busy by it.
 * Pure; after a quiet minute all is forgotten.
 */
import type { Claim, Outcome } from './claim.ts';
import type { Facts } from './plan.ts';

export interface Repairs {
  readonly count: number;
  /** When the last one was, wall clock, ms. */
  readonly at: number;
}

/** Repairs that follow each other without a pause. */
const AT_ONCE = 10;
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;
/** After this long without a repair the next one is the first again, ms. */
const QUIET_MS = 60_000;

/** What users are told meanwhile. */
export const CONTESTED: Outcome = {
  state: 'error',
  reason: 'Contested',
  message: 'somebody else keeps changing it; it is put right ever more seldom',
};

/** Whether a write would bring nothing new: the target says that it holds its source as that is. */
export function isRepair(facts: Facts, claim: Claim): boolean {
  const view = facts.viewOf(claim);
  return (
    facts.observed !== undefined && view.state === 'present' && claim.shape.heldVersion(facts.observed) === view.version
  );
}

/** How long the next repair has to wait, ms. */
export function pauseOf(repairs: Repairs | undefined, now: number): number {
  if (repairs === undefined || repairs.count < AT_ONCE || now - repairs.at >= QUIET_MS) return 0;
  const pause = Math.min(FIRST_PAUSE_MS * 2 ** (repairs.count - AT_ONCE), LONGEST_PAUSE_MS);
  // A wall clock that was set back must not make the pause any longer.
  return Math.min(pause, Math.max(0, repairs.at + pause - now));
}

/** A repair was done. */
export function afterRepair(repairs: Repairs | undefined, now: number): Repairs {
  return { count: repairs === undefined || now - repairs.at >= QUIET_MS ? 1 : repairs.count + 1, at: now };
}
