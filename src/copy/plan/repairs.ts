/**
 * Slows down repairs. If another controller changes or deletes a copy, and Keyferry repairs it, both would go on
 * without end. So if a copy is changed or deleted repeatedly while its source and its rule are unchanged, the first
 * repairs follow at once, and the next ones at growing intervals. After a minute without a repair, the count starts again.
 */
import { because } from '../model/cause.ts';
import type { Claim, Outcome } from '../model/claim.ts';
import type { Facts } from './facts.ts';

export interface Repairs {
  readonly count: number;
  /** Time of the last repair, wall clock, ms. */
  readonly at: number;
}

/** What is remembered about the writes to one target, to slow down repairs. */
export interface RepairMemory {
  repairs?: Repairs | undefined;
  /** Writes in a row after which the server stored something else than what was sent. */
  overwritten?: Repairs | undefined;
  /** The version of the source in the last write. All copies of a source share this string. */
  wrote?: string | undefined;
  /** The id of the shape in the last write: with another shape, the rule wants another copy. */
  wroteAs?: string | undefined;
  /** As `wrote` and `wroteAs`, for a claim of mode `fill`. */
  filled?: string | undefined;
  filledAs?: string | undefined;
}

/** Number of repairs that follow at once. */
const AT_ONCE = 10;
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;
/** If there was no repair for this time, ms, the next repair counts as the first. */
const QUIET_MS = 60_000;

/** Pause after the second write in a row that the server changed, ms. It doubles with each further one. */
const OVERWRITTEN_PAUSE_MS = 5000;
const LONGEST_OVERWRITTEN_PAUSE_MS = 300_000;

export const CONTESTED: Outcome = {
  state: 'error',
  ...because('Contested'),
};

/** A write that is about to be sent. */
export interface WriteAttempt {
  readonly mode: Claim['mode'];
  /** The version of the source; `undefined`: it has none. */
  readonly version: string | undefined;
  /** The id of the claim's shape. */
  readonly as: string;
  /** Whether the target had this content before, and has lost it. */
  readonly isRepair: boolean;
  /** Whether the target does not exist yet. */
  readonly isNew: boolean;
}

/**
 * A write is a repair if the last write had the same wish, that is the same version of the source in the same shape:
 * then another client has changed the target or removed it. After a restart, the version in the target's annotations
 * has to do.
 */
export function attemptOf(facts: Facts, claim: Claim, memory: RepairMemory | undefined): WriteAttempt {
  const { observed } = facts;
  const { mode, shape } = claim;
  const view = facts.viewOf(claim);
  const version = view.state === 'present' ? view.version : undefined;
  const field = fieldOf(mode);
  const wrote = memory?.[field];
  const isSame = wrote === version && memory?.[`${field}As`] === shape.id;
  const isHeld = observed !== undefined && shape.heldVersion(observed) === version;
  const isRepair = version !== undefined && (wrote === undefined ? isHeld : isSame);
  return { mode, version, as: shape.id, isRepair, isNew: observed === undefined };
}

/** How long this write has to wait, ms; 0: it is no repair, or one of the first. */
export function pauseBeforeWrite(
  { isRepair, isNew }: WriteAttempt,
  memory: RepairMemory | undefined,
  now: number,
): number {
  if (!isRepair) return 0;
  const pause = pauseBeforeRepair(memory?.repairs, now);
  return isNew ? pause : Math.max(pause, pauseAfterOverwritten(memory?.overwritten, now));
}

/** Pause if the server changed the last writes, ms. None after the first one: the annotation is written at once. */
export function pauseAfterOverwritten(overwritten: Repairs | undefined, now: number): number {
  if (overwritten === undefined || overwritten.count < 2) return 0;
  const pause = Math.min(OVERWRITTEN_PAUSE_MS * 2 ** (overwritten.count - 2), LONGEST_OVERWRITTEN_PAUSE_MS);
  return Math.min(pause, Math.max(0, overwritten.at + pause - now));
}

/** Records that the server has changed a write. */
export function recordOverwritten(memory: RepairMemory, now: number): void {
  memory.overwritten = { count: (memory.overwritten?.count ?? 0) + 1, at: now };
}

/** Records that a write was done. */
export function recordWrite({ mode, version, as, isRepair }: WriteAttempt, memory: RepairMemory, now: number): void {
  if (isRepair) memory.repairs = countRepair(memory.repairs, now);
  if (version === undefined) return;
  memory[fieldOf(mode)] = version;
  memory[`${fieldOf(mode)}As`] = as;
}

function fieldOf(mode: Claim['mode']): 'wrote' | 'filled' {
  return mode === 'fill' ? 'filled' : 'wrote';
}

/** How long the next repair has to wait, ms. */
export function pauseBeforeRepair(repairs: Repairs | undefined, now: number): number {
  if (repairs === undefined || repairs.count < AT_ONCE || now - repairs.at >= QUIET_MS) return 0;
  const pause = Math.min(FIRST_PAUSE_MS * 2 ** (repairs.count - AT_ONCE), LONGEST_PAUSE_MS);
  // If the wall clock was set back, the pause must not become longer.
  return Math.min(pause, Math.max(0, repairs.at + pause - now));
}

/** The repairs after one more repair. */
export function countRepair(repairs: Repairs | undefined, now: number): Repairs {
  return { count: repairs === undefined || now - repairs.at >= QUIET_MS ? 1 : repairs.count + 1, at: now };
}
