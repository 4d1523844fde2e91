/** Which of several claims decides a target. Pure. */
import { byRank, type Entry } from '../book/claim-book.ts';
import type { Contest } from './facts.ts';

/** The `own` claim of the oldest rule. */
export function oldestOf(entries: readonly Entry[]): Entry | undefined {
  let oldest: Entry | undefined;
  for (const entry of entries) {
    if (entry.claim.mode === 'own' && (oldest === undefined || byRank(entry, oldest) < 0)) oldest = entry;
  }
  return oldest;
}

/**
 * The `own` claim that gets the target, if any. A rule that has the target keeps it as long as it claims it, so that an edit of an older
 * rule changes the owner of no working copy. Otherwise the oldest rule that can make the target now gets it: a rule without a source
 * does not block the others.
 */
export function winnerOf({ entries, markedBy, viewOf, now }: Contest): Entry | undefined {
  const owners = entries.filter(({ claim }) => claim.mode === 'own');
  if (owners.length < 2) return owners[0];
  const holder = owners.find(({ claim }) => claim.owner.key === markedBy);
  if (holder !== undefined) return holder;
  const able = owners.filter(({ claim }) => claim.shape.desiredState(viewOf(claim), undefined, now).kind === 'be');
  return oldestOf(able) ?? oldestOf(owners);
}

/** The claim that fills the target's data. */
export function fillerOf(entries: readonly Entry[]): Entry | undefined {
  return entries.find(({ claim }) => claim.mode === 'fill');
}

/** The rule that marked the target is being deleted. */
export function isReleased({ entries, markedBy }: Contest): boolean {
  return entries.some(({ claim }) => claim.mode === 'release' && claim.owner.key === markedBy);
}
