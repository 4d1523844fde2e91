/** What Keyferry does with a copy that its rule does not claim. */
import type { ResourceKey } from '../../copy/model/keys.ts';
import type { Look } from '../look/look.ts';

export const STAYS = 'Keyferry keeps it';

/** @param look in which the copy is decided */
export function fateOfOrphan(look: Look, copy: ResourceKey): string {
  const { facts, plan } = look.decisionOn(copy);
  if (facts.observed?.deleting === true) return 'it is being deleted';
  if (plan.do === 'delete') return 'Keyferry will delete it';
  if (plan.do === 'later') return 'its namespace is being deleted';
  return facts.usedBy === undefined ? STAYS : `${STAYS} while it is the source of ${facts.usedBy}`;
}
