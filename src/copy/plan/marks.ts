/**
 * Finds the owner of an object by the marks on it.
 *
 * Users clone and restore objects with `kubectl get -o yaml | kubectl apply`, marks included, and the clone is theirs.
 * So every copy also carries its place, and a mark counts only there:
 * - The place names the object itself: the mark counts.
 * - The place names another object: the mark does not count.
 * - There is no place: an original made the copy, or a user set the mark by hand. The mark counts only if the rule that
 *   it names claims the target.
 */
import type { ClaimBook } from '../book/claim-book.ts';
import { type ResourceKey, type ObjectName, parseResourceKey, type RuleKey } from '../model/keys.ts';
import { type Observed, PLACE_ANNOTATION, placeText } from '../model/observed.ts';
import type { RuleSet } from '../model/rule-set.ts';

type NameInNamespace = Pick<ObjectName, 'namespace' | 'name'>;
type MarkReader = Pick<RuleSet, 'ownerOf'>;

/** Whether the marks were written for another object. */
export function isMarkedElsewhere(annotations: Readonly<Record<string, string>>, place: NameInNamespace): boolean {
  const marked = annotations[PLACE_ANNOTATION];
  return marked !== undefined && marked !== placeText(place);
}

/** The rule whose mark counts regardless of claims, because the mark was written for this place. */
export function placedOwner(
  readers: Iterable<MarkReader>,
  observed: Observed,
  target: ResourceKey,
): RuleKey | undefined {
  if (!(PLACE_ANNOTATION in observed.annotations)) return undefined;
  if (isMarkedElsewhere(observed.annotations, parseResourceKey(target))) return undefined;
  for (const reader of readers) {
    const named = reader.ownerOf(observed, target);
    if (named !== undefined) return named;
  }
  return undefined;
}

/**
 * The rule whose mark on the object counts. If several marks count, it is the rule that claims the target.
 * @param readers the controllers: each reads its own marks
 */
export function ownerByMark(
  readers: Iterable<MarkReader>,
  book: ClaimBook,
  observed: Observed,
  target: ResourceKey,
): RuleKey | undefined {
  if (isMarkedElsewhere(observed.annotations, parseResourceKey(target))) return undefined;
  const placed = PLACE_ANNOTATION in observed.annotations;
  let owner: RuleKey | undefined;
  for (const reader of readers) {
    const named = reader.ownerOf(observed, target);
    if (named === undefined) continue;
    if (book.claims(named, target) && (placed || mayAdopt(book, named, observed, target))) return named;
    if (placed) owner ??= named;
  }
  return owner;
}

/**
 * Whether the mark of a rule counts although the object has no place. For a source of other copies the mark alone is
 * not enough, because a user may have set it by hand: a copy made by the original also has the version of its source.
 */
function mayAdopt(book: ClaimBook, rule: RuleKey, observed: Observed, target: ResourceKey): boolean {
  const claims = book.on(target).filter(({ claim }) => claim.owner.key === rule && claim.mode !== 'fill');
  if (book.userOf(target) === undefined) return claims.length > 0;
  return claims.some(({ claim: { mode, shape } }) => mode === 'own' && shape.heldVersion(observed) !== undefined);
}
