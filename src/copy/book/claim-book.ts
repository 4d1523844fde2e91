/**
 * All claims, by rule, by target and by source, each with its outcome.
 *
 * Invariants: a claim is in all indexes or in none; a rule has at most one claim of a mode on a target; no index keeps
 * an empty set. The book is derived state: it can be discarded and filled again from the rules.
 *
 * Any user can create a rule with thousands of claims, and thousands of rules with a claim on one target. So the cost
 * of each step is proportional to the claims concerned. There are tens of thousands of claims, so only the index by
 * target has an entry for each claim: the other indexes lead to the rule.
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

/** A claim on a target, in the book. `outcome` is set by `ClaimBook.settle` only. */
export interface Entry extends Claimed {
  outcome: Outcome;
}

/** The result of a change of a rule's claims or sources. */
export interface BookChange {
  /** Targets on which a claim was added, removed or changed. */
  readonly targets: readonly ResourceKey[];
  /** Sources that no rule depended on before. */
  readonly addedSources: readonly ResourceKey[];
  /** Sources that no rule depends on now. */
  readonly droppedSources: readonly ResourceKey[];
  /** Objects from which no rule makes copies now. @see ClaimBook.userOf */
  readonly unusedSources: readonly ResourceKey[];
}

/** Identifies a claim of a rule: the target, after the mode if the mode is not `own`. No target key has a blank. */
type ClaimId = string;

export class ClaimBook {
  readonly #byRule = new Map<RuleKey, readonly Entry[]>();
  readonly #byTarget = new SetMap<ResourceKey, Entry>();
  /** The rules that copy from a source, by the key of the source and by its key as a target. A rule has few sources. */
  readonly #rulesFrom = new SetMap<ResourceKey, RuleKey>();
  readonly #sourcesOf = new Map<RuleKey, readonly ResourceKey[]>();
  readonly #rulesOn = new SetMap<ResourceKey, RuleKey>();
  /** Number of a rule's claims that are under way. */
  readonly #pending = new Map<RuleKey, number>();

  /**
   * Replaces the claims of the rule. Unchanged claims keep their outcomes.
   * @param sources all sources of the rule, even if it has no claims
   */
  replace(rule: RuleKey, claims: Iterable<Claimed>, sources: readonly ResourceKey[]): BookChange {
    const old = this.#byRule.get(rule) ?? [];
    const before = new Map<ClaimId, Entry>();
    for (const entry of old) before.set(idOf(entry), entry);
    const after = new Map<ClaimId, Entry>();
    const targets: ResourceKey[] = [];
    for (const claimed of claims) {
      const { target, claim } = claimed;
      const id = idOf(claimed);
      if (after.has(id)) continue;
      const known = before.get(id);
      if (known !== undefined && same(known.claim, claim)) {
        after.set(id, known);
        continue;
      }
      const entry = { target, claim, outcome: PENDING };
      after.set(id, entry);
      this.#insert(entry);
      targets.push(target);
    }
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
   * The title of a rule that makes copies from an object. While there is such a rule, the object is never deleted.
   * Claims of mode `fill` do not count: any user who may annotate an object could name any other object in it. Nor do
   * claims whose source is the rule's own object.
   */
  userOf(target: ResourceKey): string | undefined {
    for (const { claim } of this.#entriesFrom(target)) {
      if (claim.source === target && claim.mode === 'own' && claim.isRuleSource !== true) return claim.owner.title;
    }
    // A rule without targets has no claim, but depends on its source.
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

  /** The sources of `rule`. */
  sourcesOf(rule: RuleKey): readonly ResourceKey[] {
    return this.#sourcesOf.get(rule) ?? [];
  }

  /** Rules that depend on `source`. */
  rulesOn(source: ResourceKey): Iterable<RuleKey> {
    return this.#rulesOn.get(source);
  }

  /** Claims on `target`, in no order. */
  on(target: ResourceKey): readonly Entry[] {
    return [...this.#byTarget.get(target)];
  }

  /** The number of claims on `target`. */
  countOn(target: ResourceKey): number {
    return this.#byTarget.size(target);
  }

  /** One of the claims on `target`, without a list of all. */
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

  /** Targets of the claims with the source `source`. */
  *targetsOf(source: ResourceKey): Iterable<ResourceKey> {
    for (const { target, claim } of this.#entriesFrom(source)) if (claim.source === source) yield target;
  }

  /** Claims whose source has the key `place` as a target. */
  *from(place: ResourceKey): Iterable<Entry> {
    for (const entry of this.#entriesFrom(place)) if (targetKeyOfSource(entry.claim) === place) yield entry;
  }

  /** Whether a claim copies from `place`. */
  isSource(place: ResourceKey): boolean {
    return this.#rulesFrom.has(place);
  }

  /** All claims of the rules that have a claim from the place. */
  *#entriesFrom(place: ResourceKey): Iterable<Entry> {
    for (const rule of this.#rulesFrom.get(place)) yield* this.of(rule);
  }

  of(rule: RuleKey): Iterable<Entry> {
    return this.#byRule.get(rule) ?? [];
  }

  /** Whether some claim of the rule is under way. @see isUnderWay */
  isUnderWay(rule: RuleKey): boolean {
    return this.#pending.has(rule);
  }

  /** Records the outcome of a claim. @returns whether it changed */
  settle(entry: Entry, outcome: Outcome): boolean {
    if (sameOutcome(entry.outcome, outcome)) return false;
    // A run may end after its claim was removed from the book.
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

  /** The number of claims in each state, for metrics. */
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

/** The keys of the sources of the claims, and the keys that these sources have as targets. */
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

/** Whether two claims of the same rule and mode request the same. */
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

/** The order of precedence of owners that claim one target. */
export function byRank(
  a: { readonly claim: { readonly owner: Owner } },
  b: { readonly claim: { readonly owner: Owner } },
): number {
  const [left, right] = [a.claim.owner, b.claim.owner];
  if (left.rank !== right.rank) return left.rank < right.rank ? -1 : 1;
  return left.key < right.key ? -1 : Number(left.key > right.key);
}
