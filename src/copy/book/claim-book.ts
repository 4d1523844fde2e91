/**
 * All claims, each with its outcome, indexed by rule, by target and by source.
 *
 * Invariants: a claim is in all indexes or in none; a rule has at most one claim of each mode on a target; no index
 * keeps an empty set. The book is derived state: it can be discarded and filled again from the rules.
 *
 * Any user can create a rule with thousands of claims, or thousands of rules with a claim on the same target. So the
 * cost of each step depends only on the number of claims that the step concerns. There are tens of thousands of claims.
 * To save memory, only the index by target has each claim; the other indexes have only its rule.
 */
import {
  type Claim,
  type Claimed,
  type Outcome,
  isUnderWay,
  type Owner,
  PENDING,
  targetKeyOfSource,
  sameOutcome,
} from '../model/claim.ts';
import { SetMap } from '../../runtime/maps.ts';
import { controllerOf, type ResourceKey, type RuleKey } from '../model/keys.ts';

/** A claim in the book, with its target. Only `ClaimBook.settle` sets `outcome`. */
export interface Entry extends Claimed {
  outcome: Outcome;
}

/** The effects of a change of a rule's claims or sources. */
export interface BookChange {
  /** The targets on which a claim was added, removed or changed. */
  readonly targets: readonly ResourceKey[];
  /** The sources that no rule depended on before the change. */
  readonly addedSources: readonly ResourceKey[];
  /** The sources that no rule depends on after the change. */
  readonly droppedSources: readonly ResourceKey[];
  /** The objects from which no rule makes copies after the change. @see ClaimBook.userOf */
  readonly unusedSources: readonly ResourceKey[];
}

/** Identifies a claim of a rule: `<target>` for mode `own`, else `<mode> <target>`. No target key has a space. */
type ClaimId = string;

export class ClaimBook {
  readonly #byRule = new Map<RuleKey, readonly Entry[]>();
  readonly #byTarget = new SetMap<ResourceKey, Entry>();
  /** The rules that copy from a source, by the source's key and by the key that the source has as a target. */
  readonly #rulesFrom = new SetMap<ResourceKey, RuleKey>();
  readonly #sourcesOf = new Map<RuleKey, readonly ResourceKey[]>();
  readonly #rulesOn = new SetMap<ResourceKey, RuleKey>();
  /** Number of claims of each rule that have no final outcome. @see isUnderWay */
  readonly #pending = new Map<RuleKey, number>();

  /**
   * Replaces the claims of the rule. Claims that did not change keep their outcomes. Each evaluation makes all claims and
   * shapes anew, with a user's texts in them. So a claim on a new target is the object that the other targets have.
   * @param sources all sources of the rule, even if it has no claims
   */
  replace(rule: RuleKey, claims: Iterable<Claimed>, sources: readonly ResourceKey[]): BookChange {
    const old = this.#byRule.get(rule) ?? [];
    const before = new Map<ClaimId, Entry>();
    for (const entry of old) before.set(idOf(entry), entry);
    const after = new Map<ClaimId, Entry>();
    const added: (Entry & { claim: Claim })[] = [];
    /** The claims in the book, by the claims that ask for the same. */
    const shared = new Map<Claim, Claim>();
    for (const claimed of claims) {
      const { target, claim } = claimed;
      const id = idOf(claimed);
      if (after.has(id)) continue;
      const known = before.get(id);
      if (known !== undefined && (shared.get(claim) === known.claim || same(known.claim, claim))) {
        shared.set(claim, known.claim);
        after.set(id, known);
        continue;
      }
      const entry = { target, claim, outcome: PENDING };
      after.set(id, entry);
      added.push(entry);
    }
    for (const entry of added) {
      entry.claim = shared.get(entry.claim) ?? entry.claim;
      this.#insert(entry);
    }
    const targets = added.map(({ target }) => target);
    const maybeUnused = new Set(this.#sourcesOf.get(rule));
    for (const source of sources) maybeUnused.delete(source);
    for (const [id, entry] of before) {
      if (after.get(id) === entry) continue;
      if (!after.has(id)) targets.push(entry.target);
      this.#remove(entry);
      const { mode, source, isRuleSource } = entry.claim;
      if (mode === 'own' && source !== undefined && isRuleSource !== true) maybeUnused.add(source);
    }
    const entries = [...after.values()];
    if (entries.length === 0) this.#byRule.delete(rule);
    else this.#byRule.set(rule, entries);
    const from = placesOf(entries);
    for (const place of placesOf(old)) if (!from.has(place)) this.#rulesFrom.delete(place, rule);
    for (const place of from) this.#rulesFrom.add(place, rule);
    const depends = this.#depend(rule, sources);
    const unusedSources = [...maybeUnused].filter((source) => this.userOf(source) === undefined);
    return { targets, ...depends, unusedSources };
  }

  /**
   * The title of a rule that makes copies from this object; `undefined`: there is none. While there is one, the object
   * is never deleted. Claims of mode `fill` do not count, because a user could protect any object by naming it in an
   * annotation. Claims whose source is the rule's own object do not count, either.
   */
  userOf(target: ResourceKey): string | undefined {
    for (const { claim } of this.#entriesFrom(target)) {
      if (claim.source === target && claim.mode === 'own' && claim.isRuleSource !== true) return claim.owner.title;
    }
    // A rule without targets has no claim, but it depends on its source.
    for (const rule of this.#rulesOn.get(target)) if (!this.#byRule.has(rule)) return rule;
    return undefined;
  }

  #depend(rule: RuleKey, sources: readonly ResourceKey[]): Pick<BookChange, 'addedSources' | 'droppedSources'> {
    const before = this.sourcesOf(rule);
    const kept = new Set(sources);
    const addedSources = sources.filter((source) => this.#rulesOn.add(source, rule));
    const droppedSources = before.filter((source) => !kept.has(source) && this.#rulesOn.delete(source, rule));
    if (sources.length > 0) this.#sourcesOf.set(rule, sources);
    else this.#sourcesOf.delete(rule);
    return { addedSources, droppedSources };
  }

  /** The sources that `rule` depends on. */
  sourcesOf(rule: RuleKey): readonly ResourceKey[] {
    return this.#sourcesOf.get(rule) ?? [];
  }

  /** The rules that depend on `source`. */
  rulesOn(source: ResourceKey): Iterable<RuleKey> {
    return this.#rulesOn.get(source);
  }

  /** The claims on `target`, in any order. */
  on(target: ResourceKey): readonly Entry[] {
    return [...this.#byTarget.get(target)];
  }

  /** The number of claims on `target`. */
  countOn(target: ResourceKey): number {
    return this.#byTarget.size(target);
  }

  /** Some claim on `target`. Faster than `on`, because it makes no list. */
  firstOn(target: ResourceKey): Entry | undefined {
    return this.#byTarget.first(target);
  }

  /** Whether there is a claim on `target`. */
  isClaimed(target: ResourceKey): boolean {
    return this.#byTarget.has(target);
  }

  /** Whether `rule` has a claim on `target`. */
  claims(rule: RuleKey, target: ResourceKey): boolean {
    for (const { claim } of this.#byTarget.get(target)) if (claim.owner.key === rule) return true;
    return false;
  }

  /** The targets that have a claim with this source. */
  *targetsOf(source: ResourceKey): Iterable<ResourceKey> {
    for (const { target, claim } of this.#entriesFrom(source)) if (claim.source === source) yield target;
  }

  /** The claims whose source is the target with the key `place`. */
  *from(place: ResourceKey): Iterable<Entry> {
    for (const entry of this.#entriesFrom(place)) if (targetKeyOfSource(entry.claim) === place) yield entry;
  }

  /** Whether a claim copies from the target `place`. */
  isSource(place: ResourceKey): boolean {
    return this.#rulesFrom.has(place);
  }

  /** All claims of the rules that copy from `place`, also their claims with other sources. */
  *#entriesFrom(place: ResourceKey): Iterable<Entry> {
    for (const rule of this.#rulesFrom.get(place)) yield* this.of(rule);
  }

  of(rule: RuleKey): Iterable<Entry> {
    return this.#byRule.get(rule) ?? [];
  }

  /** Whether a claim of the rule has no final outcome yet. @see isUnderWay */
  isUnderWay(rule: RuleKey): boolean {
    return this.#pending.has(rule);
  }

  /** Records the outcome of a claim. @returns whether the outcome is another one than before */
  settle(entry: Entry, outcome: Outcome): boolean {
    if (sameOutcome(entry.outcome, outcome)) return false;
    // A run may end after its claim was removed from the book. Such a claim must not be counted.
    if (this.#byTarget.has(entry.target, entry)) {
      this.#count(entry, Number(isUnderWay(outcome)) - Number(isUnderWay(entry.outcome)));
    }
    entry.outcome = outcome;
    return true;
  }

  #count({ claim }: Entry, more: number): void {
    const { key } = claim.owner;
    const count = (this.#pending.get(key) ?? 0) + more;
    if (count > 0) this.#pending.set(key, count);
    else this.#pending.delete(key);
  }

  /** For metrics: the number of claims, by `<controller> <state>`. */
  counts(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const [rule, entries] of this.#byRule) {
      const controller = controllerOf(rule);
      for (const { outcome } of entries) {
        const key = `${controller} ${outcome.state}`;
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
    }
    return counts;
  }

  #insert(entry: Entry): void {
    this.#byTarget.add(entry.target, entry);
    this.#count(entry, Number(isUnderWay(entry.outcome)));
  }

  #remove(entry: Entry): void {
    this.#byTarget.delete(entry.target, entry);
    this.#count(entry, -Number(isUnderWay(entry.outcome)));
  }
}

/** The keys of the claims' sources, and the keys that these sources have as targets. */
function placesOf(entries: readonly Entry[]): ReadonlySet<ResourceKey> {
  const places = new Set<ResourceKey>();
  for (const { claim } of entries) {
    const place = targetKeyOfSource(claim);
    if (claim.source !== undefined) places.add(claim.source);
    if (place !== undefined) places.add(place);
  }
  return places;
}

function idOf({ target, claim: { mode } }: Claimed): ClaimId {
  return mode === 'own' ? target : `${mode} ${target}`;
}

/** Whether two claims of the same rule, mode and target ask for the same. */
function same(a: Claim, b: Claim): boolean {
  return (
    a.source === b.source &&
    a.sourcePlace === b.sourcePlace &&
    a.sourceGeneration === b.sourceGeneration &&
    a.shape.id === b.shape.id &&
    a.owner.rank === b.owner.rank &&
    a.owner.title === b.owner.title
  );
}

/** Sorts claims on one target: the owner that comes first has precedence. */
export function byRank(
  a: { readonly claim: { readonly owner: Owner } },
  b: { readonly claim: { readonly owner: Owner } },
): number {
  const [left, right] = [a.claim.owner, b.claim.owner];
  if (left.rank !== right.rank) return left.rank < right.rank ? -1 : 1;
  return left.key < right.key ? -1 : Number(left.key > right.key);
}
