/**
 * The claims of all rules, and the marks on all objects. Together they determine the owner of each target. The engine
 * keeps them up to date from watches; a short command fills them once from lists.
 *
 * Users clone and restore objects with `kubectl get -o yaml | kubectl apply`, marks included, and the clone is theirs.
 * So every copy also carries its place, and a mark counts only there:
 * - The place names the object itself: the mark counts.
 * - The place names another object: the mark does not count.
 * - There is no place: an original made the copy, or a user set the mark by hand. The mark counts only if the rule that
 *   it names claims the target.
 */
import { type Claim, type Claimed, type DesiredState, PENDING, type Shape } from '../model/claim.ts';
import { controllerOf, parseResourceKey, type ResourceKey, type RuleKey } from '../model/keys.ts';
import { getOrCreate, SetMap } from '../../runtime/maps.ts';
import { isMarkedElsewhere, type Observed, PLACE_ANNOTATION } from '../model/observed.ts';
import type { Evaluation, Findings, RuleSet, RuleState } from '../model/rule-set.ts';
import { type BookChange, ClaimBook } from './claim-book.ts';
import { Cycles, type CyclesOptions } from './cycles.ts';
import type { OrphanAction } from '../plan/facts.ts';
import { nobodyCause } from '../model/cause.ts';

/** Tells how up to date the claims of a rule are. */
export interface RuleLookup {
  /** Whether the rule may have claims that are not in the book, because of a change since its evaluation. */
  isOutdated(): boolean;
  /** Reads the rule from the server. */
  getLive(): Promise<RuleState>;
}

/** The result of an evaluation. */
export interface ClaimsChange extends BookChange {
  /**
   * Targets that carry the rule's mark but that it does not claim. Any part of the rule may decide whether they are
   * deleted, so they are listed whenever the evaluation differs from the last one.
   */
  readonly orphans: readonly ResourceKey[];
}

export class Claims {
  readonly book = new ClaimBook();
  /** Claims that are not carried out, because their content would return to its origin. */
  readonly cycles: Cycles;
  readonly #ruleSets = new Map<string, RuleSet>();
  readonly #versions = new Map<RuleKey, string>();
  /** The findings of each rule that has some. */
  readonly #findings = new Map<RuleKey, Findings>();
  readonly #owned = new SetMap<RuleKey, ResourceKey>();

  constructor(options: Omit<CyclesOptions, 'book'>) {
    this.cycles = new Cycles({ ...options, book: this.book });
  }

  add(rules: RuleSet): void {
    this.#ruleSets.set(rules.name, rules);
  }

  /** @throws Error for a rule of a controller that was not added */
  ruleSetOf(rule: RuleKey): RuleSet {
    const rules = this.#ruleSets.get(controllerOf(rule));
    if (rules === undefined) throw new Error(`no controller for the rule ${rule}`);
    return rules;
  }

  /**
   * Puts the claims of an evaluation into the book.
   * @param evaluation `undefined`: the rule does not exist
   * @param isPrepared `false`: the finalizer is not written yet. The claims count, so that no copy is an orphan, but
   *   targets stay unchanged, and no further source is read
   */
  put(rule: RuleKey, evaluation: Evaluation | undefined, isPrepared = true): ClaimsChange {
    const { claims = [], sources = [], refusal, outOfReach, demand } = evaluation ?? {};
    const change = isPrepared
      ? this.book.replace(rule, claims, sources)
      : this.book.replace(rule, unprepared(claims), this.book.sourcesOf(rule));
    const version = this.#versions.get(rule);
    const isSame = evaluation?.version === version && evaluation !== undefined && change.targets.length === 0;
    if (evaluation === undefined) this.#versions.delete(rule);
    else this.#versions.set(rule, evaluation.version);
    if ((refusal ?? outOfReach) === undefined) this.#findings.delete(rule);
    else this.#findings.set(rule, { refusal, outOfReach });
    this.#ruleSets.get(controllerOf(rule))?.limits?.record(rule, demand);
    const orphans = isSame ? [] : [...this.ownedBy(rule)].filter((target) => !this.book.claims(rule, target));
    return { ...change, orphans };
  }

  /** The version of the rule that its claims were made from; `undefined`: it was not evaluated, or does not exist. */
  versionOf(rule: RuleKey): string | undefined {
    return this.#versions.get(rule);
  }

  /** The refusal of the rule, and the targets out of its reach, according to its last evaluation. */
  findingsOf(rule: RuleKey): Findings {
    return this.#findings.get(rule) ?? {};
  }

  /** The rules that were evaluated and exist. */
  get rules(): Iterable<RuleKey> {
    return this.#versions.keys();
  }

  /** Records the marks on an object. @returns the rule whose mark counted before, and the rule whose mark counts now */
  objectChanged(
    key: ResourceKey,
    before: Observed | undefined,
    after: Observed | undefined,
  ): { readonly was: RuleKey | undefined; readonly is: RuleKey | undefined } {
    const was = before && this.#placedOwner(before, key);
    const is = after && this.#placedOwner(after, key);
    if (was === is) return { was, is };
    if (was !== undefined) this.#owned.delete(was, key);
    // If a claim has an equal key, the string of the claim is used, so that memory holds each key once.
    const entry = this.book.firstOn(key);
    const owner = entry?.claim.owner.key;
    if (is !== undefined) this.#owned.add(owner === is ? owner : is, entry?.target ?? key);
    return { was, is };
  }

  /** Targets that carry the rule's mark in the place that it was written for. */
  ownedBy(rule: RuleKey): Iterable<ResourceKey> {
    return this.#owned.get(rule);
  }

  /** The rules whose marks are on objects in their places. A rule need not exist. */
  get owners(): Iterable<RuleKey> {
    return this.#owned.keys();
  }

  /** The rule whose mark counts regardless of claims, because the mark was written for this place. */
  #placedOwner(observed: Observed, target: ResourceKey): RuleKey | undefined {
    if (!(PLACE_ANNOTATION in observed.annotations)) return undefined;
    if (isMarkedElsewhere(observed.annotations, parseResourceKey(target))) return undefined;
    for (const rules of this.#ruleSets.values()) {
      const named = rules.ownerOf(observed, target);
      if (named !== undefined) return named;
    }
    return undefined;
  }

  /** The rule whose mark on the object counts. If several marks count, it is the rule that claims the target. */
  ownerOf(observed: Observed, target: ResourceKey): RuleKey | undefined {
    if (isMarkedElsewhere(observed.annotations, parseResourceKey(target))) return undefined;
    const placed = PLACE_ANNOTATION in observed.annotations;
    let owner: RuleKey | undefined;
    for (const rules of this.#ruleSets.values()) {
      const named = rules.ownerOf(observed, target);
      if (named === undefined) continue;
      if (this.book.claims(named, target) && (placed || this.#mayAdopt(named, observed, target))) return named;
      if (placed) owner ??= named;
    }
    return owner;
  }

  /**
   * Whether the mark of a rule counts although the object has no place. For a source of other copies the mark alone is
   * not enough, because a user may have set it by hand: a copy made by the original also has the version of its source.
   */
  #mayAdopt(rule: RuleKey, observed: Observed, target: ResourceKey): boolean {
    const claims = this.book.on(target).filter(({ claim }) => claim.owner.key === rule && claim.mode !== 'fill');
    if (this.book.userOf(target) === undefined) return claims.length > 0;
    return claims.some(({ claim: { mode, shape } }) => mode === 'own' && shape.heldVersion(observed) !== undefined);
  }

  /**
   * Whether to delete a target that its owner does not claim. It is deleted only if the owner does not exist, or exists
   * in exactly the version that its claims were made from.
   */
  async orphanActionOf(
    rule: RuleKey,
    target: ResourceKey,
    observed: Observed,
    lookup: RuleLookup,
  ): Promise<OrphanAction | 'later'> {
    const rules = this.ruleSetOf(rule);
    // Then nothing is read, because an outdated rule may have thousands of copies, and the answer is `later` anyway.
    if (lookup.isOutdated()) return 'later';
    const live = await lookup.getLive();
    if (live.state === 'gone') return rules.orphanPolicy(rule, observed, false);
    // Another version on the server: the watch is behind, and will enqueue the rule.
    if (this.#versions.get(rule) !== live.version) return 'later';
    // A new namespace may contain copies (from a backup) before the rule has claimed them.
    if (lookup.isOutdated() || this.book.claims(rule, target)) return 'later';
    // A refused rule keeps its copies, also a copy that appeared after its evaluation (restored from a backup).
    if (this.findingsOf(rule).refusal !== undefined) return 'keep';
    return rules.orphanPolicy(rule, observed, true);
  }
}

const WAIT: DesiredState = {
  kind: 'wait',
  for: 'watch',
  ...nobodyCause(PENDING.reason, 'the finalizer of the rule is being written'),
};

/** The desired state of the targets of a rule that is not prepared: unchanged, until its finalizer is on the server. */
export const UNPREPARED: Shape = { id: 'unprepared', desiredState: () => WAIT, heldVersion: () => undefined };

function unprepared(claims: readonly Claimed[]): Claimed[] {
  const changed = new Map<Claim, Claim>();
  return claims.map(({ target, claim }) => {
    return { target, claim: getOrCreate(changed, claim, () => ({ ...claim, shape: UNPREPARED })) };
  });
}
