/**
 * The claims of all rules, and the marks on all objects. Together they determine the owner of each target. The engine
 * keeps them up to date from watches; a command such as `plan` fills them one time, from lists.
 *
 * Users clone and restore objects with `kubectl get -o yaml | kubectl apply`. A clone has the marks, too, but belongs
 * to the user. So each copy also has its place, the annotation `keyferry.dev/target` with its own namespace and name:
 * - The place names the object itself: the mark counts.
 * - The place names another object: the mark does not count.
 * - There is no place: an original program made the copy, or a user set the mark by hand. The mark counts if the rule
 *   that it names claims the target; and with `--adopt-orphans`, if the rule is gone (`leftoverOf`).
 */
import { type Outcome, sameOutcome, type Undeleted } from '../model/claim.ts';
import { controllerOf, parseResourceKey, type ResourceKey, type RuleKey } from '../model/keys.ts';
import { getOrCreate, SetMap } from '../../runtime/maps.ts';
import { isMarkedElsewhere, type Observed, MERGED_FROM, PLACE_ANNOTATION } from '../model/observed.ts';
import type { Evaluation, Findings, Mark, OrphanAction, RuleSet, RuleState } from '../model/rule-set.ts';
import { type BookChange, ClaimBook } from './claim-book.ts';

/** Finds out whether the claims of a rule are up to date. */
export interface RuleLookup {
  /** Whether the rule may have changed after its evaluation, and so may have claims that are not in the book. */
  isOutdated(): boolean;
  /** Reads the rule from the server. */
  getLive(): Promise<RuleState>;
}

/** The effects of an evaluation that was put into the book. */
export interface ClaimsChange extends BookChange {
  /**
   * The targets that have the rule's mark, but that the rule does not claim. Any field of the rule may decide whether
   * they are deleted. So they are listed whenever this evaluation differs from the last one.
   */
  readonly orphans: readonly ResourceKey[];
}

/** An object with the mark of an original and without a place, which the rule in the mark does not claim. */
export interface Leftover {
  /** The rule in the mark. */
  readonly rule: RuleKey;
  /** Why Keyferry keeps it in any case; `undefined`: it is deleted with `--adopt-orphans`, and else kept. */
  readonly keptBecause: string | undefined;
}

/** A target that is to be deleted or emptied. */
interface Unwanted {
  /** Monotonic, ms. */
  readonly since: number;
  /** The grace of the rule that let the target go; `undefined`: no rule did so. */
  readonly graceMs?: number | undefined;
}

/**
 * How long a copy stays that no rule claims any more, ms. Meanwhile another rule may claim the copy and take it over, for
 * example if one `kubectl apply` swaps the targets of two rules, or its own rule may be made again.
 */
const UNCLAIMED_MS = 500;

export class Claims {
  readonly book = new ClaimBook();
  readonly #ruleSets = new Map<string, RuleSet>();
  readonly #versions = new Map<RuleKey, string>();
  /** The findings of each rule whose last evaluation had findings. */
  readonly #findings = new Map<RuleKey, Findings>();
  readonly #owned = new SetMap<RuleKey, ResourceKey>();
  readonly #unwanted = new Map<ResourceKey, Unwanted>();
  readonly #monotonic: (() => number) | undefined;
  readonly #adoptsOrphans: boolean;
  /** The copies that their rule did not claim when the last try to delete them failed. Each is in `#owned`. */
  readonly #undeleted = new Map<ResourceKey, Outcome>();

  /**
   * @param monotonic clock, ms. A command has none, so that its decisions do not wait
   * @param adoptsOrphans the copies of originals whose rule is gone are deleted, as Keyferry's own
   */
  constructor(monotonic?: () => number, adoptsOrphans = false) {
    this.#monotonic = monotonic;
    this.#adoptsOrphans = adoptsOrphans;
  }

  add(rules: RuleSet): void {
    this.#ruleSets.set(rules.name, rules);
  }

  /** @throws Error if the rule's controller was not added */
  ruleSetOf(rule: RuleKey): RuleSet {
    const rules = this.#ruleSets.get(controllerOf(rule));
    if (rules === undefined) throw new Error(`no controller for the rule ${rule}`);
    return rules;
  }

  /**
   * Puts the claims of an evaluation into the book.
   * @param evaluation `undefined`: the rule does not exist
   */
  put(rule: RuleKey, evaluation: Evaluation | undefined): ClaimsChange {
    const { claims = [], sources = [], refusal, outOfReach } = evaluation ?? {};
    const change = this.book.replace(rule, claims, sources);
    const version = this.#versions.get(rule);
    const isSame = evaluation?.version === version && evaluation !== undefined && change.targets.length === 0;
    if (evaluation === undefined) this.#versions.delete(rule);
    else this.#versions.set(rule, evaluation.version);
    if ((refusal ?? outOfReach) === undefined) this.#findings.delete(rule);
    else this.#findings.set(rule, { refusal, outOfReach });
    const rules = this.#ruleSets.get(controllerOf(rule));
    const orphans = isSame ? [] : [...this.ownedBy(rule)].filter((target) => !this.book.claims(rule, target));
    const since = this.#monotonic?.() ?? 0;
    const graceMs = rules?.graceMs?.(rule, true) ?? 0;
    for (const target of change.targets) {
      if (!this.#owned.has(rule, target) || this.book.claims(rule, target)) continue;
      // If several rules let the copy go, the longest grace counts.
      this.#unwanted.set(target, { since, graceMs: Math.max(graceMs, this.#unwanted.get(target)?.graceMs ?? 0) });
    }
    return { ...change, orphans };
  }

  /**
   * As `put`, for an outdated evaluation: the rule, or an object that it reads, has changed meanwhile. A new claim may be
   * forbidden now, so the rule gets no new targets. But claims that the rule dropped end at once: otherwise the author
   * of a slow rule could keep forbidden copies by changing the rule again and again. The version stays.
   * @returns `undefined`: the rule has no claims yet
   */
  putOutdated(rule: RuleKey, evaluation: Evaluation | undefined): ClaimsChange | undefined {
    const version = this.#versions.get(rule);
    if (evaluation === undefined || version === undefined) return undefined;
    const known = evaluation.claims.filter(({ target }) => this.book.claims(rule, target));
    return this.put(rule, { ...evaluation, version, claims: known });
  }

  /** The version of the rule that its claims were made from; `undefined`: not evaluated, or the rule does not exist. */
  versionOf(rule: RuleKey): string | undefined {
    return this.#versions.get(rule);
  }

  /** The rule's refusal, and the namespaces out of its reach, from its last evaluation. */
  findingsOf(rule: RuleKey): Findings {
    return this.#findings.get(rule) ?? {};
  }

  /** The rules that exist and were evaluated. */
  get rules(): Iterable<RuleKey> {
    return this.#versions.keys();
  }

  /** Records the marks on an object: it is filed under each rule whose mark may count. */
  objectChanged(
    key: ResourceKey,
    before: Observed | undefined,
    after: Observed | undefined,
  ): { readonly lost: readonly RuleKey[]; readonly isMarked: boolean } {
    const was = before === undefined ? [] : this.#filedUnder(before, key);
    const is = after === undefined ? [] : this.#filedUnder(after, key);
    const lost = was.filter((rule) => !is.includes(rule));
    const added = is.filter((rule) => !was.includes(rule));
    if (lost.length + added.length > 0) this.#undeleted.delete(key);
    for (const rule of lost) this.#owned.delete(rule, key);
    for (const rule of added) {
      // If a claim has an equal key, the string of the claim is stored, so that each key is in memory only once.
      const entry = this.book.firstOn(key);
      const owner = entry?.claim.owner.key;
      this.#owned.add(owner === rule ? owner : rule, entry?.target ?? key);
    }
    return { lost, isMarked: was.length + is.length > 0 };
  }

  /** The targets that have the rule's mark, if the mark was written for the target itself. */
  ownedBy(rule: RuleKey): Iterable<ResourceKey> {
    return this.#owned.get(rule);
  }

  /** Whether the target is one of `ownedBy`. */
  owns(rule: RuleKey, target: ResourceKey): boolean {
    return this.#owned.has(rule, target);
  }

  /**
   * Records whether a copy is still there although its rule does not claim it. Any user can forge the mark of another
   * user's rule. So only what the server refuses counts, because no author of Secrets can cause a refusal, and only a
   * place that Keyferry's field manager wrote. @see docs/security-model.md
   * @param outcome of the last try; `undefined`: it did not fail
   * @returns the rules whose undeleted copies have changed
   */
  settleUndeleted(
    target: ResourceKey,
    observed: Observed | undefined,
    outcome: Outcome | undefined,
  ): readonly RuleKey[] {
    const before = this.#undeleted.get(target);
    if (outcome === undefined && before === undefined) return [];
    const isCopy = observed?.ownAnnotations.includes(PLACE_ANNOTATION) === true;
    const rules = isCopy ? this.#filedUnder(observed, target) : [];
    const isWanted = rules.length === 0 || rules.some((rule) => this.book.claims(rule, target));
    if (outcome === undefined || isWanted) this.#undeleted.delete(target);
    else this.#undeleted.set(target, outcome);
    return before !== undefined && outcome !== undefined && sameOutcome(before, outcome) ? [] : rules;
  }

  /** The copies that the rule no longer wants, and that could not be deleted. The rule need not exist. */
  undeletedOf(rule: RuleKey): readonly Undeleted[] {
    if (this.#undeleted.size === 0) return [];
    return [...this.ownedBy(rule)].flatMap((target) => {
      const outcome = this.book.claims(rule, target) ? undefined : this.#undeleted.get(target);
      return outcome === undefined ? [] : { target, outcome };
    });
  }

  /** The rules with marks that were written for the object that has them. The rules need not exist. */
  get owners(): Iterable<RuleKey> {
    return this.#owned.keys();
  }

  /**
   * The marks that may count on an object. On one of a user that only got keys, whole copies have no say. A copy with the
   * marks of several ends as the one says that keeps the keys of others, so its mark is the first one.
   */
  #marksOn(observed: Observed, target: ResourceKey): readonly Mark[] {
    const { annotations } = observed;
    if (isMarkedElsewhere(annotations, parseResourceKey(target))) return [];
    const marks = [...this.#ruleSets.values()].flatMap((rules) => rules.markOn(observed, target) ?? []);
    const merging = marks.filter(({ merges }) => merges === true);
    if (MERGED_FROM in annotations) return merging;
    return merging.length === 0 ? marks : [...merging, ...marks.filter(({ merges }) => merges !== true)];
  }

  /** The rules whose marks may count without a claim. Only the object decides, because the index must find it again. */
  #filedUnder(observed: Observed, target: ResourceKey): readonly RuleKey[] {
    const placed = PLACE_ANNOTATION in observed.annotations;
    if (!placed && !this.#adoptsOrphans) return [];
    const marks = this.#marksOn(observed, target);
    return marks.filter((mark) => placed || doubtOf(mark) === undefined).map(({ rule }) => rule);
  }

  /**
   * What becomes of an object with the mark of an original and without a place. With `--adopt-orphans` it is deleted if
   * it looks wholly like a copy, nobody uses it, and its rule is gone; before, the rule is read from the server.
   * @returns `undefined`: it is no such object, or a rule in its marks claims it
   */
  leftoverOf(observed: Observed, target: ResourceKey): Leftover | undefined {
    if (PLACE_ANNOTATION in observed.annotations) return undefined;
    let left: Leftover | undefined;
    for (const mark of this.#marksOn(observed, target)) {
      const { rule } = mark;
      if (this.book.claims(rule, target)) return undefined;
      const own = this.#versions.has(rule) ? 'its rule exists' : doubtOf(mark);
      left = { rule: left?.rule ?? rule, keptBecause: left?.keptBecause ?? own };
    }
    return left && { ...left, keptBecause: left.keptBecause ?? this.#usedBy(observed, target) };
  }

  #usedBy({ trimmed }: Observed, target: ResourceKey): string | undefined {
    if (trimmed === true) return 'its labels and annotations are too long to be read';
    const filler = this.book.on(target).find(({ claim }) => claim.mode === 'fill');
    if (filler !== undefined) return `${filler.claim.owner.title} fills it`;
    const [user] = this.book.rulesOn(target);
    return user === undefined && !this.book.isSource(target) ? undefined : 'it is the source of other copies';
  }

  /**
   * The rules whose marks on the object count. The first one has it: a rule that leaves the object as it is, else one that
   * claims the object, else one that releases it.
   */
  ownersOf(observed: Observed, target: ResourceKey): readonly RuleKey[] {
    const marks = this.#marksOn(observed, target).map(({ rule }) => rule);
    if (marks.length === 0) return marks;
    const owners =
      PLACE_ANNOTATION in observed.annotations
        ? marks
        : marks.filter((rule) => this.book.claims(rule, target) && this.#mayAdopt(rule, observed, target));
    if (owners.length > 1) owners.sort((a, b) => this.#precedence(a, target) - this.#precedence(b, target));
    if (owners.length > 0 || !this.#adoptsOrphans) return owners;
    const left = this.leftoverOf(observed, target);
    return left !== undefined && left.keptBecause === undefined ? marks : [];
  }

  #precedence(rule: RuleKey, target: ResourceKey): number {
    const claims = this.book.on(target).filter(({ claim }) => claim.owner.key === rule);
    if (claims.length === 0) return 3;
    if (claims.every(({ claim }) => claim.mode === 'release')) return 2;
    // Without a source, the rule leaves the copy as it is, or marks it to be kept.
    return claims.some(({ claim: { mode, source } }) => mode === 'own' && source === undefined) ? 0 : 1;
  }

  /**
   * Whether the mark of a rule counts on an object without `keyferry.dev/target`. If the object is a source of copies,
   * the mark alone is not enough, because a user may have set it by hand. A copy made by the original program also has
   * the version of its source.
   */
  #mayAdopt(rule: RuleKey, observed: Observed, target: ResourceKey): boolean {
    const claims = this.book.on(target).filter(({ claim }) => claim.owner.key === rule && claim.mode !== 'fill');
    if (this.book.userOf(target) === undefined) return claims.length > 0;
    return claims.some(({ claim: { mode, shape } }) => mode === 'own' && shape.heldVersion(observed) !== undefined);
  }

  /**
   * Whether to delete a target that its owner does not claim: only if the owner does not exist, or exists in exactly
   * the version that its claims were made from.
   */
  async orphanActionOf(
    rule: RuleKey,
    target: ResourceKey,
    observed: Observed,
    lookup: RuleLookup,
  ): Promise<OrphanAction | 'later'> {
    const rules = this.ruleSetOf(rule);
    // Nothing is read for an outdated rule: it may have thousands of copies, and the answer is `later` anyway.
    if (lookup.isOutdated()) return 'later';
    const live = await lookup.getLive();
    if (live.state === 'gone') return rules.orphanPolicy(rule, observed, false);
    // The server has another version: the watch has not reported it yet, and will enqueue the rule.
    if (this.#versions.get(rule) !== live.version) return 'later';
    // A new namespace may have copies (from a backup) that the rule has not claimed yet.
    if (lookup.isOutdated() || this.book.claims(rule, target)) return 'later';
    // A refused rule keeps its copies, and so a copy that appeared after its evaluation (restored from a backup).
    if (this.findingsOf(rule).refusal !== undefined) return 'keep';
    return rules.orphanPolicy(rule, observed, true);
  }

  /**
   * How long a target must still be unwanted before it may be deleted or emptied, ms: the grace of its rule, and if no
   * rule claims the target, at least `UNCLAIMED_MS`. The time begins when its rule drops the claim, or else with the
   * first call. `undefined`: it need not wait.
   * @param rule that fills the target, or that its mark names
   */
  graceLeft(rule: RuleKey, target: ResourceKey): number | undefined {
    if (this.#monotonic === undefined) return undefined;
    const now = this.#monotonic();
    const unwanted: Unwanted = this.#unwanted.get(target) ?? { since: now };
    const graceMs = unwanted.graceMs ?? this.ruleSetOf(rule).graceMs?.(rule, false) ?? 0;
    const isClaimed = this.book.on(target).some(({ claim: { mode, owner } }) => mode === 'own' || owner.key === rule);
    const waitMs = Math.max(graceMs, isClaimed ? 0 : UNCLAIMED_MS);
    if (waitMs === 0) return undefined;
    this.#unwanted.set(target, unwanted);
    return Math.max(0, unwanted.since + waitMs - now);
  }

  /** How long a target that is to be deleted has been unwanted, ms. The time begins as in `graceLeft`. */
  unwantedMs(target: ResourceKey): number {
    const now = this.#monotonic?.() ?? 0;
    return now - getOrCreate(this.#unwanted, target, () => ({ since: now })).since;
  }

  /** Called when a target that may have been unwanted is wanted again, kept, or gone. */
  wanted(target: ResourceKey): void {
    this.#unwanted.delete(target);
  }
}

function doubtOf({ doubt = 'only its rule could tell whether it is a copy' }: Mark): string | undefined {
  return doubt ?? undefined;
}
