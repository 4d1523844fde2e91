/** Copies of the originals that no rule wants, and that Keyferry does not delete by itself, because their marks have no place. */
import type { MigratedProgram } from '../../../config/migrated-programs.ts';
import type { ResourceKey } from '../../../copy/model/keys.ts';
import { PLACE_ANNOTATION } from '../../../copy/plan/marks.ts';
import type { Finding } from '../migration.ts';
import type { Snapshot } from './snapshot.ts';
import type { OrphanStatus } from './status-report.ts';

/** As `keyferry migrate` reports it. `manual`: it cannot be judged. */
export type Leftover = Pick<Finding, 'verdict'> &
  Pick<OrphanStatus, 'reason'> & { readonly verdict: 'leftover' | 'manual' };

/**
 * @param why no rule claims it: the source in its marks was looked up
 * @param because a reason why it may be wanted nevertheless
 */
export function leftoverOf(program: MigratedProgram, why: string, because: string | undefined): Leftover {
  const stays = `${why}; Keyferry keeps it`;
  if (because !== undefined) return { verdict: 'manual', reason: `${stays}, because ${because}` };
  const command = `keyferry migrate --from ${program} --apply --delete-leftovers`;
  return { verdict: 'leftover', reason: `${stays} until it is deleted by ${command}` };
}

/** Whether an object has no mark that counts, so that Keyferry never deletes it by itself. */
export function isUndecided({ inventory }: Snapshot, object: ResourceKey): boolean {
  const observed = inventory.objects.get(object);
  return observed !== undefined && !observed.deleting && !(PLACE_ANNOTATION in observed.annotations);
}

/** The rule that makes, fills or uses an object, of Keyferry or of another program; also that none may be known. */
export function heldBy({ claims, inventory, readers, rules }: Snapshot, object: ResourceKey): string | undefined {
  const hidden = [...inventory.reaches.keys()].find((kind) => !inventory.isWhole(kind));
  if (hidden !== undefined) return `the ${hidden}s that may use it cannot all be read`;
  if (inventory.objects.get(object)?.trimmed === true) return 'its labels and annotations are too long to be read';
  const [claimed] = claims.book.on(object);
  if (claimed !== undefined) return `${claimed.claim.owner.title} claims it`;
  const [used] = claims.book.from(object);
  if (used !== undefined) return `${used.claim.owner.title} copies it`;
  for (const reader of readers.values()) {
    const rule = reader.ruleOf(object);
    if (rule !== undefined && rules.has(rule)) return 'it requests copies itself';
    const foreign = reader.heldBy?.(object);
    if (foreign !== undefined) return foreign;
  }
  return claims.book.userOf(object);
}

/** The findings on the copies of the original of a controller. */
export function leftoverFindings(orphans: readonly OrphanStatus[], controller: string): Finding[] {
  return orphans.flatMap(({ system, kind, namespace, name, owner, verdict, reason }) => {
    if (system !== controller || verdict === undefined) return [];
    return { verdict, object: { kind, namespace, name }, text: `marked by ${owner}: ${reason}` };
  });
}
