/**
 * Decides for the commands what the operator would do with a cluster at present. It lists metadata, and applies the
 * same rule sets, claims and decisions as the operator. Content is read only if metadata are not enough, for many
 * targets at the same time. Nothing is written or watched.
 */
import type { ReadingConfig } from '../../config/config.ts';
import { type Claimed, type Outcome, PENDING } from '../../copy/model/claim.ts';
import {
  namespaceOf,
  parseResourceKey,
  parseRuleKey,
  type ResourceKey,
  resourceKey,
  ruleKey,
  type RuleKey,
} from '../../copy/model/keys.ts';
import type { Entry } from '../../copy/book/claim-book.ts';
import { Claims } from '../../copy/book/claims.ts';
import { Cycles } from '../../copy/plan/cycles.ts';
import { contestOf, decide, type Decision, type FactSource, type TargetReader } from '../../copy/plan/decide.ts';
import { outcomeOf, outcomesOf } from '../../copy/plan/contest.ts';
import { type Cause, withReason } from '../../copy/model/cause.ts';
import type { Evaluation } from '../../copy/model/rule-set.ts';
import type { KubeApi } from '../../kube/api.ts';
import { ServedNamespaces } from '../../kube/watch/served-namespaces.ts';
import { type Reach, reachOf } from '../../controllers/common/namespaces/reach.ts';
import { Contents } from './contents.ts';
import { type Changes, Inventory, type Lister, listerOf } from './inventory.ts';
import type { Description, ReaderEntry, RuleReader, SnapshotView } from './reader.ts';
import { needsOf, unreadOn } from '../readers.ts';
import { SECRET } from '../../copy/model/kind.ts';
import { placeOf, titleOf } from './places.ts';
import { COPY_LABEL, immutableBy, type Observed, PLACE_ANNOTATION, placeText } from '../../copy/model/observed.ts';

export interface SnapshotOptions {
  readonly api: KubeApi;
  /** Lists the objects. Default: by requests to the API server. */
  readonly lister?: Lister;
  /** The contents that earlier snapshots have read. */
  readonly contents?: Contents | undefined;
  /** The configuration of the operator. */
  readonly config: ReadingConfig;
  /** The readers of the controllers, by their names in reports, in the order in which Keyferry looks for their marks. */
  readonly controllers: ReadonlyMap<string, ReaderEntry>;
  /** Why only the namespaces of the configuration are listed, although the user did not ask for that. */
  readonly narrowed?: string | undefined;
  /** Changes that the snapshot treats as made already, for `plan`. */
  readonly changes?: Changes;
  /** Wall clock, ms. */
  readonly now: number;
  readonly signal?: AbortSignal | undefined;
}

/** @param system its name in reports */
export type Reader = RuleReader & Pick<ReaderEntry, 'collection' | 'ruleNames'> & { readonly system: string };

export class Snapshot implements SnapshotView {
  readonly inventory: Inventory;
  /** Name of the cluster in resource keys. */
  readonly cluster: string;
  /** The settings that the snapshot assumes beside the defaults, as `--name=value`. */
  readonly assumed: readonly string[];
  /** @see SnapshotOptions.narrowed */
  readonly narrowed: string | undefined;
  readonly rules = new Map<RuleKey, Evaluation>();
  /** The readers by the controller's name in rule keys; if its rules have no claims, by its name in reports. */
  readonly readers: ReadonlyMap<string, Reader>;
  readonly claims: Claims;
  readonly contents: Contents;
  readonly #source: FactSource;
  readonly #reader: TargetReader;
  readonly #signal: AbortSignal;

  readonly #reach: Reach;
  readonly #decisions = new Map<ResourceKey, Decision>();

  private constructor(options: SnapshotOptions, inventory: Inventory, readers: readonly Reader[], reach: Reach) {
    this.inventory = inventory;
    this.assumed = options.config.assumed;
    this.narrowed = options.narrowed;
    this.cluster = options.api.cluster;
    this.#reach = reach;
    this.#signal = options.signal ?? new AbortController().signal;
    this.readers = new Map(readers.map((reader) => [reader.ruleSet?.name ?? reader.system, reader]));
    const claims = new Claims(undefined, options.config.limits.adoptOrphans);
    this.claims = claims;
    for (const { ruleSet } of readers) if (ruleSet !== undefined) claims.add(ruleSet);
    const { api, changes, now, signal } = options;
    const kinds = readers.flatMap(({ collection }) => collection?.content ?? []);
    this.contents = options.contents ?? new Contents(api, signal, changes, kinds, inventory.served === undefined);
    this.contents.forgetOthers((key) => inventory.objects.get(key)?.resourceVersion);
    [this.#source, this.#reader] = factsFrom(inventory, claims, this.contents, now);
    for (const [key, observed] of inventory.objects) claims.objectChanged(key, undefined, observed);
  }

  /**
   * Lists the objects of the cluster and makes the claims of all rules.
   * @throws MissingRight, and the errors of `api.request`
   */
  static async at(options: SnapshotOptions): Promise<Snapshot> {
    const { api, lister = listerOf(api), controllers, changes, signal } = options;
    const inventory = new Inventory(
      ServedNamespaces.of(options.config.namespaces, options.narrowed === undefined ? 'command' : 'rights'),
    );
    const reach = reachOf(options.config.limits);
    const scope = {
      cluster: api.cluster,
      config: options.config,
      namespaces: inventory.namespaces,
      served: inventory.served,
      reach,
      // No rule shrinks or goes in a snapshot.
      onRoom: () => undefined,
    };
    const opened = Array.from(controllers, ([system, { ruleNames, collection, open }]): Reader => {
      return Object.assign(open(inventory, scope), { system, ruleNames, collection });
    });
    await inventory.list(api.cluster, lister, needsOf(controllers, options.config.controllers), changes, signal);
    const makers = new Set<string>();
    for (const [key, { labels, annotations }] of inventory.objects) {
      const maker = labels[COPY_LABEL];
      if (maker === undefined || makers.has(maker)) continue;
      // Everybody can write the label, but a clone of a copy has the place of that copy.
      if (annotations[PLACE_ANNOTATION] === placeText(parseResourceKey(key))) makers.add(maker);
    }
    const isNamed = options.config.controllers !== undefined;
    const readers = opened.filter(
      ({ system }) => isNamed || controllers.get(system)?.original?.prefix === undefined || makers.has(system),
    );
    const snapshot = new Snapshot(options, inventory, readers, reach);
    const { claims, rules } = snapshot;
    for (const reader of readers) {
      for (const object of reader.ruleSet === undefined ? [] : snapshot.candidates(reader)) {
        const rule = snapshot.ruleIn(reader, object);
        if (rule === undefined) continue;
        const evaluation = await claims.ruleSetOf(rule).evaluate(rule, claims);
        if (evaluation === undefined) continue;
        rules.set(rule, evaluation);
        claims.put(rule, evaluation);
      }
    }
    return snapshot;
  }

  /** The title of a rule: `SecretMirror default/mysecret-mirror`. The rule need not exist. */
  titleOf(rule: RuleKey): string {
    return titleOf(placeOf(this.objectOf(rule)));
  }

  /** The rules of an object, which need not exist. Of annotated objects, several controllers may have rules. */
  rulesOf(object: ResourceKey): readonly RuleKey[] {
    return [...this.readers.values()].flatMap((reader) => this.ruleIn(reader, object) ?? []);
  }

  /** The first rule of an object that exists, or could; `undefined`: its kind has no rules with claims. */
  ruleOf(object: ResourceKey): RuleKey | undefined {
    const rules = this.rulesOf(object);
    return rules.find((rule) => this.rules.has(rule)) ?? rules[0];
  }

  /** The rule of an object for one controller. */
  ruleIn(reader: Reader, object: ResourceKey): RuleKey | undefined {
    const { kind, namespace, name } = parseResourceKey(object);
    const isOfKind = reader.ruleSet !== undefined && reader.collection?.kind === kind;
    return isOfKind ? ruleKey(reader.ruleSet.name, namespace, name) : reader.ruleOf?.(object);
  }

  /** The object of a rule, which need not exist. */
  objectOf(rule: RuleKey): ResourceKey {
    const { controller, kind, namespace, name } = parseRuleKey(rule);
    return resourceKey(this.cluster, this.readers.get(controller)?.collection?.kind ?? kind, namespace, name);
  }

  /** The objects that may be rules of a reader. */
  candidates({ collection, ruleSet }: Reader): Iterable<ResourceKey> {
    const all = [...this.inventory.candidates(collection)];
    const annotationsOf = (key: ResourceKey) => this.inventory.objects.get(key)?.annotations ?? {};
    return collection === undefined ? all.filter((key) => ruleSet?.isKept?.(annotationsOf(key)) !== false) : all;
  }

  /** What is to be said of an object as a rule; `undefined`: it is no rule. */
  describe(object: ResourceKey): Description | undefined {
    for (const reader of this.readers.values()) {
      const description = reader.describe(object, this);
      if (description !== undefined) return description;
    }
    return undefined;
  }

  /** What a user should know about an object. */
  notesOn(object: ResourceKey): readonly string[] {
    const how = (system: string): string => `has annotations that have an effect only with ${system} in --controllers`;
    return [...(this.describe(object)?.notes ?? []), ...this.unreadOn(object).map(how)];
  }

  /** The controllers whose label or annotations an object has, although this command does not read them. */
  unreadOn(object: ResourceKey): readonly string[] {
    const observed = this.inventory.objects.get(object);
    return observed === undefined
      ? []
      : unreadOn(observed, new Set([...this.readers.values()].map((one) => one.system)));
  }

  whyNot(rule: RuleKey, object: ResourceKey): string | undefined {
    const { namespace } = parseResourceKey(object);
    if (this.claims.ruleSetOf(rule).selects?.(rule, object)?.() !== true)
      return this.describe(this.objectOf(rule))?.exclusionOf?.(namespace);
    const refusal = this.#refusalOf(rule, namespace);
    return refusal && withReason(refusal);
  }

  /** The limit or consent that keeps a rule out of a namespace that it selects; `undefined`: none, or not selected. */
  refusalOf(rule: RuleKey, object: ResourceKey): Cause | undefined {
    if (this.claims.ruleSetOf(rule).selects?.(rule, object)?.() !== true) return undefined;
    return this.#refusalOf(rule, parseResourceKey(object).namespace);
  }

  /** The limit that keeps all rules out of a namespace; `undefined`: none. */
  limitOn(namespace: string): Cause | undefined {
    return this.#reach.toRefusal(namespace, namespace, this.inventory.namespaces.factsOf(namespace));
  }

  #refusalOf(rule: RuleKey, namespace: string): Cause | undefined {
    const home = namespaceOf(rule);
    const { namespaces } = this.inventory;
    return (
      this.#reach.fromRefusal(home, namespaces.factsOf(home)) ??
      this.#reach.toRefusal(home, namespace, namespaces.factsOf(namespace))
    );
  }

  copyOf({ target, claim: { mode, owner, shape } }: Claimed): Observed | undefined {
    const observed = this.inventory.objects.get(target);
    if (observed === undefined) return undefined;
    if (mode === 'fill') return shape.heldVersion(observed) === undefined ? undefined : observed;
    // A mark with a place was filed under its rule.
    const isOwned =
      PLACE_ANNOTATION in observed.annotations
        ? this.claims.owns(owner.key, target)
        : this.claims.ownersOf(observed, target).includes(owner.key);
    return isOwned ? observed : undefined;
  }

  /** Decides on targets as the operator would. Reads many objects together. @throws the errors of `api.request` */
  async decide(targets: Iterable<ResourceKey>): Promise<void> {
    const open = [...new Set(targets)].filter((target) => !this.#decisions.has(target));
    await Promise.all(
      open.map(async (target) =>
        this.#decisions.set(target, await decide(target, this.#source, this.#reader, this.#signal)),
      ),
    );
  }

  /** @throws TypeError: the target was not decided */
  decisionOn(target: ResourceKey): Decision {
    const decision = this.#decisions.get(target);
    if (decision === undefined) throw new TypeError(`not decided: ${target}`);
    return decision;
  }

  /** The outcomes of the claims on a target for which `decide` was called. */
  outcomesOn(target: ResourceKey): Iterable<readonly [Entry, Outcome]> {
    const { facts, plan } = this.decisionOn(target);
    const outcome = outcomeOf(plan);
    // A plan may have remarks (warnings for the user). Those of a pending write count only after the write.
    return outcomesOf(facts, outcome, outcome === PENDING || !('remarks' in plan) ? undefined : plan.remarks);
  }

  /** Decides the targets of these rules and records the outcomes. @throws the errors of `api.request` */
  async settle(rules: Iterable<RuleKey>): Promise<void> {
    const { book } = this.claims;
    const targets = new Set<ResourceKey>();
    for (const rule of rules) for (const { target } of book.of(rule)) targets.add(target);
    await this.decide(targets);
    for (const target of targets) {
      for (const [entry, outcome] of this.outcomesOn(target)) book.settle(entry, outcome);
    }
  }
}

function factsFrom(inventory: Inventory, claims: Claims, contents: Contents, now: number): [FactSource, TargetReader] {
  const reader: TargetReader = {
    state: (target) => {
      const observed = inventory.objects.get(target);
      const read = contents.of(target) ?? undefined;
      // If the content and the list differ in the version, the target has just changed, so the content is not used.
      const held = read?.resourceVersion === observed?.resourceVersion ? read : undefined;
      return {
        presence: observed === undefined ? 'absent' : 'present',
        observed,
        goingAway: false,
        held,
        type: parseResourceKey(target).kind === SECRET.kind ? held?.fingerprint.type : '',
        immutable: held?.immutable ?? (observed && immutableBy(observed)),
        cannotUpdate: held?.immutable ?? false,
      };
    },
    read: async (target, part) => await contents.read(target, undefined, part),
  };
  const source: FactSource = {
    claims,
    cycles: new Cycles({
      book: claims.book,
      contestOf: (target) => contestOf(target, source, reader),
      onChange: () => undefined,
    }),
    sources: {
      view: (source) => inventory.view(source),
      fingerprint: (source) => (source === undefined ? undefined : contents.of(source)?.fingerprint),
      load: async (source, _signal, selection) => ((await contents.read(source, selection)) ? source : undefined),
    },
    hasNamespace: (name) => inventory.hasNamespace(name),
    orphanActionOf: async (owner, target, observed) => {
      const version = claims.versionOf(owner);
      return await claims.orphanActionOf(owner, target, observed, {
        // If its namespace was read, a rule that the lists do not contain is gone.
        isOutdated: () => version === undefined && inventory.isUnserved(namespaceOf(owner)),
        getLive: () => Promise.resolve(version === undefined ? { state: 'gone' } : { state: 'there', version }),
      });
    },
    now: () => now,
  };
  return [source, reader];
}
