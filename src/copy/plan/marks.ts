/**
 * Which rule an object belongs to, by the marks on it.
 *
 * People clone and restore objects with `kubectl get -o yaml | kubectl apply`, marks included, and the clone is theirs. So every copy also
 * carries its place, and a mark counts only there:
 * - the place names the object itself: the mark counts;
 * - the place names another object: the mark does not count, whatever it says;
 * - no place: a copy made by one of the originals, or a mark set by hand. It counts where the rule that it names claims the target, and
 *   nowhere else.
 */
import type { ClaimBook } from './claim-book.ts';
import { type ResourceKey, type ObjectName, parseResourceKey, type RuleKey } from '../model/keys.ts';
import type { Observed } from '../model/observed.ts';
import type { RuleReconciler } from '../rule-reconciler.ts';

/** On every copy, written along with the mark: `<namespace>/<name>` of the copy itself. */
export const PLACE_ANNOTATION = 'keyferry.dev/target';

type Place = Pick<ObjectName, 'namespace' | 'name'>;
type MarkReader = Pick<RuleReconciler, 'ownerOf'>;

export function placeText({ namespace, name }: Place): string {
  return `${namespace}/${name}`;
}

/** The annotation says that the marks beside it were written for another object. */
export function isMarkedElsewhere(annotations: Readonly<Record<string, string>>, place: Place): boolean {
  const said = annotations[PLACE_ANNOTATION];
  return said !== undefined && said !== placeText(place);
}

/** The rule whose mark counts whatever anybody claims: the mark has this place. */
export function placedOwner(
  systems: Iterable<MarkReader>,
  observed: Observed,
  target: ResourceKey,
): RuleKey | undefined {
  if (!(PLACE_ANNOTATION in observed.annotations)) return undefined;
  if (isMarkedElsewhere(observed.annotations, parseResourceKey(target))) return undefined;
  for (const system of systems) {
    const named = system.ownerOf(observed, target);
    if (named !== undefined) return named;
  }
  return undefined;
}

/**
 * The rule whose mark on the object counts. Where the marks of several systems do, it is the one that claims the target.
 * @param systems each reads the marks of its kind
 */
export function ownerByMark(
  systems: Iterable<MarkReader>,
  book: ClaimBook,
  observed: Observed,
  target: ResourceKey,
): RuleKey | undefined {
  if (isMarkedElsewhere(observed.annotations, parseResourceKey(target))) return undefined;
  const placed = PLACE_ANNOTATION in observed.annotations;
  let owner: RuleKey | undefined;
  for (const system of systems) {
    const named = system.ownerOf(observed, target);
    if (named === undefined) continue;
    if (book.claims(named, target) && (placed || mayAdopt(book, named, observed, target))) return named;
    if (placed) owner ??= named;
  }
  return owner;
}

/**
 * Whether the mark of a rule counts although it has no place. Of a source that other copies are made from that takes more than the mark,
 * which somebody may have put there by hand: a copy of the original also says which version it holds.
 */
function mayAdopt(book: ClaimBook, rule: RuleKey, observed: Observed, target: ResourceKey): boolean {
  const claims = book.on(target).filter(({ claim }) => claim.owner.key === rule && claim.mode !== 'fill');
  if (book.userOf(target) === undefined) return claims.length > 0;
  return claims.some(({ claim: { mode, shape } }) => mode === 'own' && shape.heldVersion(observed) !== undefined);
}
