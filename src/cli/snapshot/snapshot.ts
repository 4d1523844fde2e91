/**
 * The rules, claims and decisions of a cluster at one time: the reconcilers of all controllers, the claims and the decisions of the operator,
 * over lists of metadata. Content is read only where metadata do not decide. Nothing is written, and nothing is watched.
 */
import { PatternCache, type RegexMode } from '../../controllers/common/namespace-patterns.ts';
import { MirrorReconciler } from '../../controllers/mirrors/reconciler.ts';
import { annotationNames } from '../../controllers/replicator/annotations.ts';
import { REPLICATED_KINDS } from '../../controllers/replicator/controller.ts';
import { ReplicatorReconciler } from '../../controllers/replicator/reconciler.ts';
import { readRule, type ReplicationRule, type RuleSettings } from '../../controllers/replicator/rule.ts';
import { type Outcome, PENDING } from '../../copy/model/claim.ts';
import { parseResourceKey, type ResourceKey, resourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { type Kind, SECRET } from '../../copy/model/kind.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Entry } from '../../copy/plan/claim-book.ts';
import { Claims } from '../../copy/plan/claims.ts';
import { decide, type Decision, type FactSource, flowIn, type TargetReader } from '../../copy/plan/decide.ts';
import { outcomeOf, outcomesOf } from '../../copy/plan/outcomes.ts';
import type { Evaluation } from '../../copy/rule-reconciler.ts';
import type { KubeApi } from '../../kube/api.ts';
import { finish } from '../../runtime/slices.ts';
import type { ReplicatorReading } from '../actions.ts';
import { factsFrom } from './facts.ts';
import { type Changes, Inventory } from './inventory.ts';

export interface SnapshotOptions {
  readonly api: KubeApi;
  /** As the operator is configured. */
  readonly regexMode: RegexMode;
  readonly replicator: ReplicatorReading;
  /** Listed alone where the caller may not list the whole cluster. */
  readonly namespace?: string | undefined;
  /** Changes that are assumed to be made. */
  readonly changes?: Changes;
  /** Wall clock, ms. */
  readonly now: number;
  readonly signal?: AbortSignal | undefined;
}

export class Snapshot {
  readonly inventory: Inventory;
  /** Every rule that requests copies, even if none can be made. */
  readonly rules: ReadonlyMap<RuleKey, Evaluation>;
  readonly patterns: PatternCache;
  readonly settings: RuleSettings;
  readonly mirrorReconciler: MirrorReconciler;
  readonly replicator: ReplicatorReconciler;
  readonly claims: Claims;
  readonly #cluster: string;
  readonly #source: FactSource;
  readonly #reader: TargetReader;
  readonly #signal: AbortSignal;
  readonly #decisions = new Map<ResourceKey, Decision>();

  private constructor(options: SnapshotOptions, inventory: Inventory) {
    const { api, regexMode, replicator, now } = options;
    const { mirrors, namespaces, objects } = inventory;
    this.inventory = inventory;
    this.#cluster = api.cluster;
    this.#signal = options.signal ?? new AbortController().signal;
    this.patterns = new PatternCache(regexMode);
    this.settings = {
      names: annotationNames(replicator.annotationsPrefix),
      allowAll: replicator.allowAll,
      ignoreUnknown: replicator.ignoreUnknown,
      // These labels are set at creation only: copies that exist keep theirs.
      createWithLabels: {},
      patterns: new PatternCache('full'),
    };
    const outdated = new Set<RuleKey>();
    this.mirrorReconciler = new MirrorReconciler({
      api,
      mirrors,
      namespaces,
      patterns: this.patterns,
      secretKey: (namespace, name) => this.key(SECRET, namespace, name),
      viewOf: () => ({ state: 'unknown' }),
      recordEvent: () => undefined,
      onSynced: () => undefined,
      onGone: () => undefined,
      deletionTimeoutMs: 0,
      onLimitChange: (rule) => outdated.add(rule),
      synced: async () => await Promise.resolve(),
      now: () => now,
    });
    this.replicator = new ReplicatorReconciler({
      api,
      settings: this.settings,
      kinds: replicator.runReplicators.map((kind) => REPLICATED_KINDS[kind]),
      namespaces,
      observed: (kind, namespace, name) => objects.get(this.key(kind, namespace, name)),
      recordEvent: () => undefined,
      onLimitChange: (rule) => outdated.add(rule),
    });
    const claims: Claims = new Claims({
      flowOf: (claim) => flowIn(claim, this.#source, this.#reader),
      onChange: () => undefined,
    });
    this.claims = claims;
    claims.add(this.mirrorReconciler);
    claims.add(this.replicator);
    const { source, reader } = factsFrom(inventory, claims, options);
    this.#source = source;
    this.#reader = reader;
    for (const [rule] of mirrors.all()) outdated.add(rule);
    for (const [key, observed] of objects) {
      claims.objectChanged(key, undefined, observed);
      const rule = this.replicator.ruleOf(key);
      if (rule !== undefined) outdated.add(rule);
    }
    this.rules = this.#evaluate(outdated);
  }

  /**
   * Lists the objects of the cluster and makes the claims of every rule.
   * @throws the errors of `api.request`, except for a missing permission (see `Inventory.reach`)
   */
  static async at(options: SnapshotOptions): Promise<Snapshot> {
    const { api, namespace, changes, signal } = options;
    return new Snapshot(options, await Inventory.list(api, namespace, changes, signal));
  }

  key({ kind }: Kind, namespace: string, name: string): ResourceKey {
    return resourceKey(this.#cluster, kind, namespace, name);
  }

  /** The rule in the annotations of an object, or its refusal. */
  replicationRuleOf(key: ResourceKey, { annotations }: Observed): ReplicationRule | undefined {
    const rule = this.replicator.ruleOf(key);
    const refusal = rule === undefined ? undefined : this.replicator.refusalOf(rule);
    if (refusal !== undefined) return { kind: 'broken', refusal };
    return readRule(this.settings, parseResourceKey(key), annotations);
  }

  /**
   * Decides targets, as the operator would. Reads the objects that they need together.
   * @throws the errors of `api.request`
   */
  async decide(targets: Iterable<ResourceKey>): Promise<void> {
    const open = [...new Set(targets)].filter((target) => !this.#decisions.has(target));
    await Promise.all(
      open.map(async (target) =>
        this.#decisions.set(target, await decide(target, this.#source, this.#reader, this.#signal)),
      ),
    );
  }

  /** @throws TypeError for a target that was not decided */
  decisionOn(target: ResourceKey): Decision {
    const decision = this.#decisions.get(target);
    if (decision === undefined) throw new TypeError(`not decided: ${target}`);
    return decision;
  }

  /** The outcomes of the claims on a decided target. */
  outcomesOn(target: ResourceKey): Iterable<readonly [Entry, Outcome]> {
    const { facts, plan } = this.decisionOn(target);
    const outcome = outcomeOf(plan);
    // The remarks of a write hold once it is done.
    return outcomesOf(facts, outcome, outcome === PENDING || !('remarks' in plan) ? undefined : plan.remarks);
  }

  /** Decides the targets of these rules, and records the outcomes of their claims. @throws the errors of `api.request` */
  async settle(rules: Iterable<RuleKey>): Promise<void> {
    const { book } = this.claims;
    const targets = new Set<ResourceKey>();
    for (const rule of rules) for (const { claim } of book.of(rule)) targets.add(claim.target);
    await this.decide(targets);
    for (const target of targets) {
      for (const [entry, outcome] of this.outcomesOn(target)) book.settle(entry, outcome);
    }
  }

  /** @param outdated rules to evaluate; an evaluation may add others (an older rule may leave no room for a younger one) */
  #evaluate(outdated: Set<RuleKey>): Map<RuleKey, Evaluation> {
    const rules = new Map<RuleKey, Evaluation>();
    for (const rule of outdated) {
      outdated.delete(rule);
      const evaluation = finish(this.claims.reconcilerOf(rule).evaluate(rule, this.claims));
      if (evaluation === undefined) continue;
      rules.set(rule, evaluation);
      this.claims.put(rule, evaluation);
    }
    return rules;
  }
}
