/**
 * One look at a cluster: what its rules come to. The real systems, claim book and `plan`, on what the lists of metadata say;
 * content is read only where metadata do not tell. Nothing is written, and nothing is watched.
 *
 * A Look does not age: it says what was true when it was made.
 */
import { MIRRORS_GROUP, MIRRORS_VERSION, SECRET_MIRROR_PLURAL } from '../../controllers/mirrors/api.ts';
import { MirrorStore } from '../../controllers/mirrors/mirror-store.ts';
import { MirrorSystem } from '../../controllers/mirrors/reconciler.ts';
import { annotationNames } from '../../controllers/replicator/annotations.ts';
import { REPLICATED_KINDS } from '../../controllers/replicator/controller.ts';
import { readRule, type ReplicationRule, type RuleSettings } from '../../controllers/replicator/rule.ts';
import { ReplicatorReconciler } from '../../controllers/replicator/reconciler.ts';
import { type Claim, type Outcome, PENDING, type SourceView } from '../../copy/model/claim.ts';
import { ClaimBook } from '../../copy/plan/claim-book.ts';
import { Cycles, flowOf } from '../../copy/plan/cycles.ts';
import { type ResourceKey, resourceKey, parseResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { CONFIG_MAP, type Kind, SECRET } from '../../copy/model/kind.ts';
import { ownerByMark, placedOwner } from '../../copy/plan/marks.ts';
import { Namespaces } from '../../copy/cluster/namespaces.ts';
import { observe, type Observed } from '../../copy/model/observed.ts';
import { outcomesOf } from '../../copy/plan/outcomes.ts';
import { PatternCache, type RegexMode } from '../../controllers/common/namespace-patterns.ts';
import type { Contest, Facts, Need, OwnerFate, Plan, Remarks } from '../../copy/plan/facts.ts';
import { plan } from '../../copy/plan/plan.ts';
import type { Evaluation, RuleReconciler } from '../../copy/rule-reconciler.ts';
import type { KubeApi, KubeObject } from '../../kube/api.ts';
import type { ReplicatorReading } from '../actions.ts';
import { finish } from '../../runtime/slices.ts';
import { listReachable, type Reach } from '../kube-list.ts';
import { Contents } from './contents.ts';

/** All are looked at; of what the replicator does not run for, it is only said that it is not followed. */
const KINDS: readonly Kind[] = [SECRET, CONFIG_MAP];
/** More facts than these are never needed for one plan. */
const MAX_ROUNDS = 6;
const NAMESPACES = { groupPath: '/api/v1', plural: 'namespaces' };
const MIRRORS = { groupPath: `/apis/${MIRRORS_GROUP}/${MIRRORS_VERSION}`, plural: SECRET_MIRROR_PLURAL };

/** Of a source in Vault: reading it there would take the mirror's login, and of dynamic credentials make new ones. */
export const NOT_ASKED = {
  state: 'missing',
  reason: 'Vault',
  message: 'what is there is not looked at',
} as const satisfies SourceView;

export interface LookOptions {
  readonly api: KubeApi;
  /** As the operator runs. */
  readonly regexMode: RegexMode;
  readonly replicator: ReplicatorReading;
  /** Looked at alone where the caller may not list a whole cluster. */
  readonly namespace?: string | undefined;
  /** Wall clock, ms. */
  readonly now: number;
  readonly signal?: AbortSignal | undefined;
}

/** What would be done with a target, and what the claims on it would be told afterwards. */
export interface Decision {
  readonly plan: Plan;
  readonly outcome: Outcome | undefined;
  readonly remarks: Remarks | undefined;
}

export class Look {
  readonly book = new ClaimBook();
  readonly mirrors = new MirrorStore(() => undefined);
  readonly namespaces = new Namespaces(() => undefined);
  readonly patterns: PatternCache;
  readonly settings: RuleSettings;
  readonly mirrorSystem: MirrorSystem;
  readonly replicator: ReplicatorReconciler;
  readonly #options: LookOptions;
  readonly #systems: ReadonlyMap<string, RuleReconciler>;
  readonly #reach = new Map<string, Reach>();
  readonly #objects = new Map<ResourceKey, Observed>();
  readonly #owned = new Map<RuleKey, ResourceKey[]>();
  readonly #rules = new Map<RuleKey, Evaluation>();
  /** Rules that are still to be evaluated. */
  readonly #outdated = new Set<RuleKey>();
  readonly #cycles = new Cycles({
    book: this.book,
    flowOf: (claim) =>
      flowOf(
        claim,
        this.#objects.get(claim.target),
        this.#contest(claim.target, (one) => this.#view(one)),
      ),
    onChange: () => undefined,
  });
  readonly #contents: Contents;
  readonly #decisions = new Map<ResourceKey, Decision>();

  private constructor(options: LookOptions) {
    const { api, regexMode, replicator, now } = options;
    this.#options = options;
    this.#contents = new Contents(api, KINDS);
    this.patterns = new PatternCache(regexMode);
    this.settings = {
      names: annotationNames(replicator.annotationsPrefix),
      allowAll: replicator.allowAll,
      ignoreUnknown: replicator.ignoreUnknown,
      // What is there keeps its labels; they are given at creation only.
      createWithLabels: {},
      patterns: new PatternCache('full'),
    };
    const { namespaces } = this;
    this.mirrorSystem = new MirrorSystem({
      api,
      mirrors: this.mirrors,
      namespaces,
      patterns: this.patterns,
      secretKey: (namespace, name) => this.key(SECRET, namespace, name),
      viewOf: () => ({ state: 'unknown' }),
      recordEvent: () => undefined,
      onSynced: () => undefined,
      onGone: () => undefined,
      deletionTimeoutMs: 0,
      onRoom: (rule) => this.#outdated.add(rule),
      synced: async () => await Promise.resolve(),
      now: () => now,
    });
    this.replicator = new ReplicatorReconciler({
      api,
      settings: this.settings,
      kinds: replicator.runReplicators.map((kind) => REPLICATED_KINDS[kind]),
      namespaces,
      observed: (kind, namespace, name) => this.#objects.get(this.key(kind, namespace, name)),
      recordEvent: () => undefined,
      onRoom: (rule) => this.#outdated.add(rule),
    });
    this.#systems = new Map<string, RuleReconciler>(
      [this.mirrorSystem, this.replicator].map((system) => [system.name, system]),
    );
  }

  /**
   * Lists what there is and makes the claims of every rule.
   * @throws what `api.request` throws, but for a right that is missing (`reach` tells)
   */
  static async at(options: LookOptions): Promise<Look> {
    const look = new Look(options);
    const { api, namespace, signal } = options;
    const metadata = { metadataOnly: true, signal };
    const list = async (what: string, collection: typeof NAMESPACES, take: (item: KubeObject) => void, more = {}) => {
      look.#reach.set(what, await listReachable(api, collection, namespace, take, { signal, ...more }));
    };
    await Promise.all([
      list('Namespace', NAMESPACES, (item) => look.namespaces.sink.upsert(item, true), metadata),
      list('SecretMirror', MIRRORS, (item) => look.mirrors.put(item)),
      ...KINDS.map(async (kind) => await list(kind.kind, kind, (item) => look.#put(kind, item), metadata)),
    ]);
    if (!look.isWhole('Namespace') && namespace !== undefined) {
      const uid = '';
      look.namespaces.sink.upsert(
        { metadata: { name: namespace, uid, resourceVersion: '', creationTimestamp: '' } },
        true,
      );
    }
    look.#claim();
    return look;
  }

  /** How much of a kind could be listed. */
  reach(kind: string): Reach {
    return this.#reach.get(kind) ?? { extent: 'cluster' };
  }

  /** Whether all objects of a kind are known. */
  isWhole(kind: string): boolean {
    const { extent } = this.reach(kind);
    return extent === 'cluster' || extent === 'not installed';
  }

  /** Everything there is, by key. */
  get objects(): ReadonlyMap<ResourceKey, Observed> {
    return this.#objects;
  }

  /** What rules have made, by the marks that have their place. */
  get owned(): ReadonlyMap<RuleKey, readonly ResourceKey[]> {
    return this.#owned;
  }

  /** Every rule that asks for something, even if nothing can come of it. */
  get rules(): ReadonlyMap<RuleKey, Evaluation> {
    return this.#rules;
  }

  key({ kind }: Kind, namespace: string, name: string): ResourceKey {
    return resourceKey(this.#options.api.cluster, kind, namespace, name);
  }

  /** The rule whose mark on the object counts, whichever system made it. */
  ownerOf(observed: Observed, target: ResourceKey): RuleKey | undefined {
    return ownerByMark(this.#systems.values(), this.book, observed, target);
  }

  /** The claims on a target, and what decides between them. */
  contestOf(target: ResourceKey): Contest {
    return this.#contest(target, (claim) => this.#cycles.of(claim) ?? this.#view(claim));
  }

  /** What the annotations of an object ask for; where that is refused, why. */
  askedBy(key: ResourceKey, { annotations }: Observed): ReplicationRule | undefined {
    const rule = this.replicator.ruleOf(key);
    const refusal = rule === undefined ? undefined : this.replicator.refusalOf(rule);
    if (refusal !== undefined) return { kind: 'broken', refusal };
    return readRule(this.settings, parseResourceKey(key), annotations);
  }

  /** What becomes of a copy that its rule does not claim. */
  fateOf(owner: RuleKey, observed: Observed): OwnerFate {
    return this.#reconcilerOf(owner).orphanPolicy(owner, observed, this.#rules.has(owner));
  }

  /**
   * Decides targets, as the engine would. Reads what is needed for all of them together.
   * @throws what `api.request` throws
   */
  async decide(targets: Iterable<ResourceKey>): Promise<void> {
    let open = [...new Set(targets)].filter((target) => !this.#decisions.has(target));
    for (let round = 1; open.length > 0; round += 1) {
      const wanted = new Set<ResourceKey>();
      const undecided: ResourceKey[] = [];
      for (const target of open) {
        const decision = this.#plan(target);
        const needs = decision.do === 'need' ? this.#readable(decision, target) : [];
        if (needs.length > 0 && round < MAX_ROUNDS) {
          undecided.push(target);
          for (const key of needs) wanted.add(key);
        } else {
          this.#decisions.set(target, decisionOf(decision));
        }
      }
      await this.#contents.read(wanted, this.#options.signal);
      open = undecided;
    }
  }

  /** What `decide` came to. @throws TypeError for a target that it was not asked for */
  decisionOn(target: ResourceKey): Decision {
    const decision = this.#decisions.get(target);
    if (decision === undefined) throw new TypeError(`not decided: ${target}`);
    return decision;
  }

  /** Decides the targets of these rules, and tells their claims what came of it. @throws what `api.request` throws */
  async settle(rules: Iterable<RuleKey>): Promise<void> {
    const targets = new Set<ResourceKey>();
    for (const rule of rules) for (const { claim } of this.book.of(rule)) targets.add(claim.target);
    await this.decide(targets);
    for (const target of targets) {
      const { outcome, remarks } = this.decisionOn(target);
      for (const [entry, mine] of outcomesOf(this.contestOf(target), outcome, remarks)) this.book.settle(entry, mine);
    }
  }

  #contest(target: ResourceKey, viewOf: Contest['viewOf']): Contest {
    const observed = this.#objects.get(target);
    const markedBy = observed && this.ownerOf(observed, target);
    return { entries: this.book.on(target), markedBy, viewOf, now: this.#options.now };
  }

  #reconcilerOf(rule: RuleKey): RuleReconciler {
    const system = this.#systems.get(rule.slice(0, rule.indexOf(':')));
    if (system === undefined) throw new TypeError(`no system for the rule ${rule}`);
    return system;
  }

  #put(kind: Kind, { metadata }: KubeObject): void {
    const key = this.key(kind, metadata.namespace ?? '', metadata.name);
    const observed = observe(metadata);
    this.#objects.set(key, observed);
    const owner = placedOwner(this.#systems.values(), observed, key);
    if (owner === undefined) return;
    const owned = this.#owned.get(owner);
    if (owned === undefined) this.#owned.set(owner, [key]);
    else owned.push(key);
  }

  #claim(): void {
    const view = { ownedBy: (rule: RuleKey): Iterable<ResourceKey> => this.#owned.get(rule) ?? [] };
    const rules: RuleKey[] = Array.from(this.mirrors.all(), ([rule]) => rule);
    for (const key of this.#objects.keys()) {
      const rule = this.replicator.ruleOf(key);
      if (rule !== undefined) rules.push(rule);
    }
    for (const rule of rules) this.#outdated.add(rule);
    // An older rule may leave no room for a younger one that was evaluated before it.
    for (const rule of this.#outdated) {
      this.#outdated.delete(rule);
      const evaluation = finish(this.#reconcilerOf(rule).evaluate(rule, view));
      if (evaluation === undefined) continue;
      this.#rules.set(rule, evaluation);
      this.#cycles.changed(this.book.replace(rule, evaluation.claims, evaluation.sources));
    }
  }

  #plan(target: ResourceKey): Plan {
    const observed = this.#objects.get(target);
    const contest = this.contestOf(target);
    const { markedBy } = contest;
    const read = this.#contents.of(target) ?? undefined;
    // Another version than was listed: it changes while we look.
    const held = read?.resourceVersion === observed?.resourceVersion ? read : undefined;
    const facts = (ownerFate: OwnerFate | undefined): Facts => ({
      ...contest,
      presence: observed === undefined ? 'absent' : 'present',
      observed,
      usedBy: this.book.userOf(target),
      goingAway: false,
      fingerprintOf: ({ source }) => (source === undefined ? undefined : this.#contents.of(source)?.fingerprint),
      held,
      type: parseResourceKey(target).kind === SECRET.kind ? held?.fingerprint.type : '',
      ownerFate,
      frozen: held?.immutable ?? false,
    });
    const decision = plan(facts(undefined));
    if (decision.do !== 'need' || decision.fact !== 'owner' || observed === undefined || markedBy === undefined) {
      return decision;
    }
    return plan(facts(this.fateOf(markedBy, observed)));
  }

  /** What has to be read for a plan, and was not read yet. */
  #readable(need: Need, target: ResourceKey): ResourceKey[] {
    const keys = need.fact === 'source' ? [need.claim.source] : need.fact === 'target' ? [target] : [];
    return keys.filter((key) => key !== undefined && this.#contents.of(key) === undefined) as ResourceKey[];
  }

  #view({ source }: Claim): SourceView {
    if (source === undefined) return NOT_ASKED;
    const found = this.#objects.get(source);
    if (found !== undefined) {
      const { resourceVersion, labels, annotations } = found;
      return { state: 'present', version: resourceVersion, labels, annotations };
    }
    const { kind, namespace, name } = parseResourceKey(source);
    if (!this.isWhole(kind) && namespace !== this.#options.namespace) return { state: 'unknown' };
    const message = `${kind.toLowerCase()} ${namespace}/${name} not found, waiting to appear`;
    return { state: 'missing', reason: `No${kind}`, message };
  }
}

/** What would be settled if Keyferry did what the plan says; what is still to be done is pending. */
function decisionOf(decision: Plan): Decision {
  switch (decision.do) {
    case 'nothing':
      return { plan: decision, outcome: undefined, remarks: decision.remarks };
    case 'wait': {
      const { for: waitsFor, reason, message, remarks } = decision;
      return { plan: decision, outcome: { state: 'waiting', for: waitsFor, reason, message }, remarks };
    }
    case 'fail': {
      const { reason, message, remarks } = decision;
      return { plan: decision, outcome: { state: 'error', reason, message }, remarks };
    }
    case 'conflict': {
      const { message, remarks } = decision;
      return { plan: decision, outcome: { state: 'conflict', reason: 'Conflict', message }, remarks };
    }
    case 'create':
    case 'update':
    case 'replace':
    case 'delete':
    case 'need':
      return { plan: decision, outcome: PENDING, remarks: undefined };
    default:
      return decision satisfies never;
  }
}
