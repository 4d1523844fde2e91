/** Copies that no rule wants: what Keyferry does with them, and what somebody must decide, because their marks have no place. */
import type { MigratedProgram } from '../../../config/migrated-programs.ts';
import type { ResourceKey } from '../../../copy/model/keys.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import { PLACE_ANNOTATION } from '../../../copy/plan/marks.ts';
import type { RuleReader, Unwanted } from './reader.ts';
import type { Snapshot } from './snapshot.ts';
import { copyStatus, type OrphanStatus } from './status-report.ts';

interface UnwantedObject {
  readonly reader: RuleReader;
  readonly key: ResourceKey;
  readonly observed: Observed;
  readonly unwanted: Unwanted;
}

/** The copies that no rule claims, of all controllers. Decides them. @throws the errors of `api.request` */
export async function orphansIn(snapshot: Snapshot): Promise<OrphanStatus[]> {
  const found: UnwantedObject[] = [];
  for (const reader of snapshot.readers.values()) {
    for (const [key, observed] of snapshot.inventory.objects) {
      const unwanted = reader.unwanted?.(snapshot, key, observed);
      if (unwanted !== undefined) found.push({ reader, key, observed, unwanted });
    }
  }
  await snapshot.decide(found.flatMap(({ key, unwanted }) => (unwanted.isIgnored === true ? [] : key)));
  return found.map((one) => orphanOf(snapshot, one));
}

function orphanOf(snapshot: Snapshot, { reader, key, observed, unwanted }: UnwantedObject): OrphanStatus {
  const { owner, why, isIgnored, leftover, keptBecause } = unwanted;
  const orphan = { system: reader.system, ...copyStatus(key, observed, reader.versionMark), owner };
  if (isIgnored === true) return { ...orphan, reason: why };
  // Without a place the mark does not count, so that Keyferry never deletes the object by itself.
  if (leftover !== undefined && !observed.deleting && !(PLACE_ANNOTATION in observed.annotations)) {
    const because = leftover.because ?? heldBy(snapshot, key);
    return { ...orphan, ...leftoverOf(leftover.program, leftover.why, because) };
  }
  const fate = fateOf(snapshot, key);
  const because = fate === STAYS && keptBecause !== undefined ? `, because ${keptBecause}` : '';
  return { ...orphan, reason: `${why}; ${fate}${because}` };
}

const STAYS = 'Keyferry keeps it';

/** Keyferry's action for a copy that its rule does not claim. */
function fateOf(snapshot: Snapshot, copy: ResourceKey): string {
  const { facts, plan } = snapshot.decisionOn(copy);
  if (facts.observed?.deleting === true) return 'it is being deleted';
  if (plan.do === 'delete') return 'Keyferry will delete it';
  if (plan.do === 'later' && plan.because === 'namespace') return 'its namespace is being deleted';
  return facts.usedBy === undefined ? STAYS : `${STAYS} while it is the source of ${facts.usedBy}`;
}

/**
 * What `keyferry migrate` says of a copy without a place. `manual`: the copy cannot be judged.
 * @param why no rule claims it: the source in its marks was looked up
 * @param because a reason why it may be wanted nevertheless
 */
export function leftoverOf(
  program: MigratedProgram,
  why: string,
  because: string | undefined,
): { readonly verdict: 'leftover' | 'manual'; readonly reason: string } {
  const stays = `${why}; ${STAYS}`;
  if (because !== undefined) return { verdict: 'manual', reason: `${stays}, because ${because}` };
  const command = `keyferry migrate --from ${program} --apply --delete-leftovers`;
  return { verdict: 'leftover', reason: `${stays} until it is deleted by ${command}` };
}

/** The rule that makes, fills or uses an object, of Keyferry or of another program; also that none may be known. */
export function heldBy(snapshot: Snapshot, object: ResourceKey): string | undefined {
  const { claims, inventory, readers } = snapshot;
  const hidden = [...inventory.reaches.keys()].find((kind) => !inventory.isWhole(kind));
  if (hidden !== undefined) return `the ${hidden}s that may use it cannot all be read`;
  if (inventory.objects.get(object)?.trimmed === true) return 'its labels and annotations are too long to be read';
  const [claimed] = claims.book.on(object);
  if (claimed !== undefined) return `${claimed.claim.owner.title} claims it`;
  const [used] = claims.book.from(object);
  if (used !== undefined) return `${used.claim.owner.title} copies it`;
  const rule = snapshot.ruleOf(object);
  if (rule !== undefined && snapshot.rules.has(rule)) return 'it requests copies itself';
  for (const reader of readers.values()) {
    const foreign = reader.heldBy?.(object);
    if (foreign !== undefined) return foreign;
  }
  return claims.book.userOf(object);
}
