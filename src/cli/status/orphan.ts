/** What Keyferry does with an object that carries the mark of a rule and is not claimed by it. */
import type { ResourceKey, RuleKey } from '../../copy/model/keys.ts';
import { PLACE_ANNOTATION } from '../../copy/plan/marks.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Look } from '../look/look.ts';

export const STAYS = 'Keyferry keeps it';

const FATES = { delete: 'Keyferry will delete it', keep: STAYS, later: 'its namespace is being deleted' } as const;

export async function fateOfOrphan(look: Look, rule: RuleKey, key: ResourceKey, observed: Observed): Promise<string> {
  // A copy made by the original: it may have been cloned from another place.
  if (!(PLACE_ANNOTATION in observed.annotations)) return STAYS;
  const user = look.claims.book.userOf(key);
  if (user !== undefined) return `${STAYS} while it is the source of ${user}`;
  return FATES[await look.fateOf(rule, key, observed)];
}
