/** What Keyferry does with a copy that its rule does not claim. */
import type { ResourceKey } from '../../../copy/model/keys.ts';
import type { Snapshot } from './snapshot.ts';

export const STAYS = 'Keyferry keeps it';

/** @param snapshot with the decision on the copy */
export function orphanNote(snapshot: Snapshot, copy: ResourceKey): string {
  const { facts, plan } = snapshot.decisionOn(copy);
  if (facts.observed?.deleting === true) return 'it is being deleted';
  if (plan.do === 'delete') return 'Keyferry will delete it';
  if (plan.do === 'later' && plan.because === 'namespace') return 'its namespace is being deleted';
  return facts.usedBy === undefined ? STAYS : `${STAYS} while it is the source of ${facts.usedBy}`;
}
