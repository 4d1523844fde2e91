/**
 * What a cluster holds that the replicator would look at, and what its rules come to: the real system, claim book and `plan`, on one
 * look at the cluster. Content is read only where metadata do not tell; it is compared and dropped.
 */
import { type Claim, type Outcome, PENDING, type SourceView } from '../../copy/claim.ts';
import { ClaimBook } from '../../copy/claim-book.ts';
import { type HolderKey, parseHolderKey, type RuleKey } from '../../copy/keys.ts';
import { CONFIG_MAP, type Kind, SECRET } from '../../copy/kind.ts';
import { gistOf, KubeStore } from '../../copy/kube-store.ts';
import { Namespaces } from '../../copy/namespaces.ts';
import { observe, type Observed } from '../../copy/observed.ts';
import { outcomesOf } from '../../copy/outcomes.ts';
import { type Facts, type Gist, type Held, type OwnerFate, plan, type Plan, type Remarks } from '../../copy/plan.ts';
import type { RuleSettings } from '../../controllers/replicator/rule.ts';
import { ReplicatorSystem } from '../../controllers/replicator/system.ts';
import type { KubeApi } from '../../kube/api.ts';
import { listAll } from '../kube-list.ts';

/** All are looked at; of what the replicator does not run for, it is only said that it is not followed. */
const KINDS: readonly Kind[] = [SECRET, CONFIG_MAP];
/** More facts than these are never needed for one plan. */
const MAX_ROUNDS = 6;

export class AnnotatedCluster {
  readonly system: ReplicatorSystem;
  readonly book = new ClaimBook();
  readonly #stores: ReadonlyMap<string, KubeStore>;
  readonly #objects = new Map<HolderKey, Observed>();
  readonly #owned = new Map<RuleKey, HolderKey[]>();
  readonly #rules = new Set<RuleKey>();
  readonly #gists = new Map<HolderKey, Gist | undefined>();
  readonly #decisions = new Map<HolderKey, Plan>();
  readonly #now: number;

  private constructor(
    api: KubeApi,
    settings: RuleSettings,
    kinds: readonly Kind[],
    namespaces: Namespaces,
    now: number,
  ) {
    this.#now = now;
    this.#stores = new Map(
      KINDS.map((kind) => [
        kind.kind,
        new KubeStore({ api, kind, onChange: () => undefined, onKnown: () => undefined }),
      ]),
    );
    this.system = new ReplicatorSystem({
      api,
      settings,
      kinds,
      namespaces,
      observed: (kind, namespace, name) => this.#objects.get(this.#store(kind.kind).key(namespace, name)),
      recordEvent: () => undefined,
    });
  }

  /**
   * Looks at the cluster and settles every claim.
   * @param kinds that the replicator runs for
   * @throws what `api.request` throws
   */
  static async read(
    api: KubeApi,
    settings: RuleSettings,
    kinds: readonly Kind[],
    now: number,
    signal: AbortSignal | undefined,
  ): Promise<AnnotatedCluster> {
    const options = { metadataOnly: true, ...(signal === undefined ? {} : { signal }) };
    const namespaces = new Namespaces(() => undefined);
    for (const namespace of (await listAll(api, '/api/v1/namespaces', options)) ?? [])
      namespaces.sink.upsert(namespace, true);
    const cluster = new AnnotatedCluster(api, settings, kinds, namespaces, now);
    for (const kind of KINDS) {
      for (const { metadata } of (await listAll(api, `${kind.groupPath}/${kind.plural}`, options)) ?? []) {
        const key = cluster.#store(kind.kind).key(metadata.namespace ?? '', metadata.name);
        cluster.#put(key, observe(metadata));
      }
    }
    const targets = cluster.#claim();
    for (const target of targets) await cluster.#settle(target, signal);
    return cluster;
  }

  /** Everything there is, by key. */
  get objects(): ReadonlyMap<HolderKey, Observed> {
    return this.#objects;
  }

  /** The marks of rules on what they have made. */
  get owned(): ReadonlyMap<RuleKey, readonly HolderKey[]> {
    return this.#owned;
  }

  /** Whether an object asks for something, even if nothing can come of it. */
  isRule(rule: RuleKey): boolean {
    return this.#rules.has(rule);
  }

  /** What becomes of a copy that its rule does not claim. */
  fateOf(owner: RuleKey, observed: Observed): OwnerFate {
    return this.system.dispose(owner, observed, this.#rules.has(owner));
  }

  #store(kind: string): KubeStore {
    const store = this.#stores.get(kind);
    if (store === undefined) throw new TypeError(`no store for the kind ${kind}`);
    return store;
  }

  #put(key: HolderKey, observed: Observed): void {
    this.#objects.set(key, observed);
    const owner = this.system.ownerOf(observed, key);
    if (owner !== undefined) this.#owned.set(owner, [...(this.#owned.get(owner) ?? []), key]);
  }

  #claim(): Set<HolderKey> {
    const targets = new Set<HolderKey>();
    const view = { ownedBy: (rule: RuleKey): Iterable<HolderKey> => this.#owned.get(rule) ?? [] };
    for (const key of this.#objects.keys()) {
      const rule = this.system.ruleOf(key);
      const evaluation = rule === undefined ? undefined : this.system.evaluate(rule, view);
      if (rule === undefined || evaluation === undefined) continue;
      this.#rules.add(rule);
      this.book.replace(rule, evaluation.claims, evaluation.sources);
      for (const { target } of evaluation.claims) targets.add(target);
    }
    return targets;
  }

  async #settle(target: HolderKey, signal: AbortSignal | undefined): Promise<void> {
    const entries = this.book.on(target);
    const decision = await this.decide(target, signal);
    const [outcome, remarks] = outcomeOf(decision);
    for (const [entry, mine] of outcomesOf(entries, outcome, remarks)) this.book.settle(entry, mine);
  }

  /** What would be done with a target. @throws what `api.request` throws */
  async decide(target: HolderKey, signal: AbortSignal | undefined): Promise<Plan> {
    const known = this.#decisions.get(target);
    if (known !== undefined) return known;
    const decision = await this.#plan(target, signal);
    this.#decisions.set(target, decision);
    return decision;
  }

  async #plan(target: HolderKey, signal: AbortSignal | undefined): Promise<Plan> {
    const store = this.#store(parseHolderKey(target).kind);
    const entries = this.book.on(target);
    const observed = this.#objects.get(target);
    const markedBy = observed === undefined ? undefined : this.system.ownerOf(observed, target);
    let held: Held | undefined;
    let immutable = false;
    let ownerFate: OwnerFate | undefined;
    let decision: Plan = { do: 'nothing' };
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      const facts: Facts = {
        entries,
        presence: observed === undefined ? 'absent' : 'present',
        observed,
        markedBy,
        goingAway: false,
        viewOf: (claim) => this.#view(claim),
        gistOf: ({ source }) => (source === undefined ? undefined : this.#gists.get(source)),
        held,
        type: store.kind.typed ? held?.gist.type : '',
        ownerFate,
        frozen: immutable,
        now: this.#now,
      };
      decision = plan(facts);
      if (decision.do !== 'need') return decision;
      if (decision.fact === 'owner') {
        if (markedBy === undefined || observed === undefined) return decision;
        ownerFate = this.fateOf(markedBy, observed);
      } else if (decision.fact === 'source') {
        for (const { claim } of entries) await this.#readSource(claim, signal);
      } else {
        const read = await store.read(target, signal);
        // Another version than was listed: it changes while we look.
        if (read?.object.metadata.resourceVersion !== observed?.resourceVersion || read === undefined) return decision;
        held = { resourceVersion: read.object.metadata.resourceVersion, gist: gistOf(read.content) };
        immutable = read.immutable;
      }
    }
    return decision;
  }

  async #readSource({ source }: Claim, signal: AbortSignal | undefined): Promise<void> {
    if (source === undefined || this.#gists.has(source)) return;
    const read = await this.#store(parseHolderKey(source).kind).read(source, signal);
    this.#gists.set(source, read && gistOf(read.content));
  }

  #view({ source }: Claim): SourceView {
    if (source === undefined) return { state: 'unknown' };
    const found = this.#objects.get(source);
    if (found !== undefined) {
      const { resourceVersion, labels, annotations } = found;
      return { state: 'present', version: resourceVersion, labels, annotations };
    }
    const { kind, namespace, name } = parseHolderKey(source);
    const message = `${kind.toLowerCase()} ${namespace}/${name} not found, waiting to appear`;
    return { state: 'missing', reason: `No${kind}`, message };
  }
}

/** What would be settled if Keyferry did what the plan says; what is still to be done is pending. */
function outcomeOf(decision: Plan): readonly [Outcome | undefined, Remarks | undefined] {
  switch (decision.do) {
    case 'nothing':
      return [undefined, decision.remarks];
    case 'wait':
      return [{ state: 'waiting', reason: decision.reason, message: decision.message }, decision.remarks];
    case 'fail':
      return [{ state: 'error', reason: decision.reason, message: decision.message }, decision.remarks];
    case 'conflict':
      return [{ state: 'conflict', reason: 'Conflict', message: decision.message }, decision.remarks];
    case 'create':
    case 'update':
    case 'replace':
    case 'delete':
    case 'need':
      return [PENDING, undefined];
    default:
      return decision satisfies never;
  }
}
