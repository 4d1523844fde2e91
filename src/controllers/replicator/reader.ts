/** The annotated objects for `status` and `plan`. They have no status of their own: their targets are decided as the controller would. */
import {
  parseResourceKey,
  parseRuleKey,
  resourceKey,
  type ResourceKey,
  type RuleKey,
  ruleName,
} from '../../copy/model/keys.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Entry } from '../../copy/book/claim-book.ts';
import { PatternCache } from '../common/namespaces/namespace-patterns.ts';
import type { Inventory } from '../common/snapshot/inventory.ts';
import { heldBy, isUndecided, leftoverOf } from '../common/snapshot/leftovers.ts';
import type { ControllerReader, ReaderContext, RuleReader } from '../common/snapshot/reader.ts';
import type { Snapshot } from '../common/snapshot/snapshot.ts';
import {
  byName,
  type ControllerStatus,
  type CopyStatus,
  copyStatus,
  failingOf,
  LIMITED,
  notReady,
  orphanNote,
  type OrphanStatus,
  type RuleState,
  type RuleStatus,
} from '../common/snapshot/status-report.ts';
import { type AnnotationNames, annotationNames, listItems } from './rules/annotations.ts';
import { isFilled } from './rules/bookkeeping.ts';
import { FOREIGN } from './foreign/programs.ts';
import { ForeignRequests } from './foreign/requests.ts';
import { REPLICATED_KINDS, REPLICATOR_CONTROLLER, ReplicatorRules } from './rules/rule-set.ts';
import { eventsOf } from './rules/rule-events.ts';
import { readRule, type ReplicationRule, type RuleSettings, unknownOn } from './rules/rule.ts';

export const replicatorReader: ControllerReader = {
  collection: undefined,
  open: (context) => new ReplicatorReader(context),
};

/** An object whose annotations request copies. */
interface Annotated {
  readonly key: ResourceKey;
  readonly observed: Observed;
  readonly replication: ReplicationRule;
}

class ReplicatorReader implements RuleReader {
  readonly ruleNames = 'Secrets or ConfigMaps with replicator annotations';
  readonly ruleSet: ReplicatorRules;
  readonly #names: AnnotationNames;
  readonly #settings: RuleSettings;
  readonly #inventory: Inventory;
  /** Of programs whose annotations the replicator can go on for. */
  #foreign: readonly ForeignRequests[] | undefined;

  constructor({ api, config, inventory, onLimitChange }: ReaderContext) {
    const { annotationsPrefix, allowAll, ignoreUnknown, runReplicators } = config.replicator;
    this.#inventory = inventory;
    this.#names = annotationNames(annotationsPrefix);
    this.#settings = {
      names: this.#names,
      allowAll,
      ignoreUnknown,
      // These labels are set at creation only: copies that exist keep theirs.
      createWithLabels: {},
      patterns: new PatternCache('full'),
    };
    this.ruleSet = new ReplicatorRules({
      cluster: api.cluster,
      settings: this.#settings,
      kinds: runReplicators.map((kind) => REPLICATED_KINDS[kind]),
      namespaces: inventory.namespaces,
      observed: ({ kind }, namespace, name) => inventory.objects.get(resourceKey(api.cluster, kind, namespace, name)),
      onLimitChange,
    });
  }

  *rules(): Iterable<RuleKey> {
    for (const key of this.#inventory.objects.keys()) {
      const rule = this.ruleOf(key);
      if (rule !== undefined) yield rule;
    }
  }

  ruleOf(object: ResourceKey): RuleKey | undefined {
    return this.ruleSet.ruleOf(object);
  }

  titleOf(rule: RuleKey): string {
    return ruleName(rule).replace('/', ' ');
  }

  problemsOf(object: ResourceKey): readonly string[] {
    const observed = this.#inventory.objects.get(object);
    if (observed === undefined || this.ruleOf(object) === undefined) return [];
    const replication = this.#replicationRuleOf(object, observed);
    return replication?.kind === 'broken' ? [replication.refusal.message] : [];
  }

  noteOn(rule: RuleKey): string | undefined {
    // Without a list of all namespaces it is not known what a pattern matches.
    if (!this.#inventory.isWhole('Namespace')) return undefined;
    return (
      this.ruleSet
        .warningsOf(rule)
        .map(({ message }) => message)
        .join('; ') || undefined
    );
  }

  /** The rule in the annotations of an object, or its refusal. */
  #replicationRuleOf(key: ResourceKey, { annotations }: Observed): ReplicationRule | undefined {
    const rule = this.ruleOf(key);
    const refusal = rule === undefined ? undefined : this.ruleSet.refusalOf(rule);
    if (refusal !== undefined) return { kind: 'broken', refusal };
    return readRule(this.#settings, parseResourceKey(key), annotations);
  }

  async status(snapshot: Snapshot, isIncluded: (namespace: string) => boolean): Promise<ControllerStatus> {
    const annotated: (Annotated & { readonly rule: RuleKey | undefined })[] = [];
    for (const [key, observed] of snapshot.inventory.objects) {
      const place = parseResourceKey(key);
      const rule = this.ruleOf(key);
      if (!isIncluded(place.namespace) || (rule !== undefined && !snapshot.rules.has(rule))) continue;
      const replication = this.#replicationRuleOf(key, observed);
      if (replication !== undefined) annotated.push({ key, observed, replication, rule });
    }
    await snapshot.settle(annotated.flatMap(({ rule }) => rule ?? []));
    const rules = annotated.map(({ rule, ...one }) =>
      rule === undefined ? this.#ignoredStatus(one) : this.#ruleStatus(snapshot, { ...one, rule }),
    );
    return { system: REPLICATOR_CONTROLLER, installed: true, rules, orphans: await this.#orphansOf(snapshot) };
  }

  /** The part of a status that the annotations alone determine. */
  #replicationOf({
    key,
    observed,
    replication,
  }: Annotated): Pick<RuleStatus, 'system' | 'kind' | 'namespace' | 'name' | 'source' | 'destinations'> {
    const { kind, namespace, name } = parseResourceKey(key);
    const from = replication.kind === 'broken' ? undefined : replication.from;
    return {
      system: REPLICATOR_CONTROLLER,
      kind,
      namespace,
      name,
      source: `${kind.toLowerCase()} ${from ?? `${namespace}/${name}`}`,
      destinations: replication.kind === 'pull' ? [`${namespace}/${name}`] : this.#destinationsOf(observed),
    };
  }

  /** As they are written in the annotations. */
  #destinationsOf({ annotations }: Observed): string[] {
    return [this.#names.to, this.#names.toNamespaces].flatMap((name) => listItems(annotations[name] ?? ''));
  }

  /** An object of a kind that the replicator does not run for. */
  #ignoredStatus(annotated: Annotated): RuleStatus {
    const replication = this.#replicationOf(annotated);
    const message = `the replicator does not run for ${replication.kind}s (--run-replicators)`;
    const lastSyncTime = annotated.observed.annotations[this.#names.at] ?? null;
    return { ...replication, ...notReady('Ignored', 'NotRun', message), lastSyncTime, copies: [], failing: [] };
  }

  #ruleStatus(snapshot: Snapshot, annotated: Annotated & { readonly rule: RuleKey }): RuleStatus {
    const { rule, replication } = annotated;
    const entries = [...snapshot.claims.book.of(rule)];
    const copies: CopyStatus[] = [];
    let lastSyncTime: string | null = null;
    for (const { claim } of entries) {
      const target = snapshot.inventory.objects.get(claim.target);
      if (target === undefined) continue;
      const ours =
        claim.mode === 'fill' ? isFilled(this.#names, target) : snapshot.claims.ownerOf(target, claim.target) === rule;
      if (!ours) continue;
      copies.push(copyStatus(claim.target, target, this.#names.version));
      const at = target.annotations[this.#names.at];
      if (at !== undefined && (lastSyncTime === null || at > lastSyncTime)) lastSyncTime = at;
    }
    const state = stateOf(snapshot, replication, entries);
    const note = replication.kind === 'push' ? this.noteOn(rule) : undefined;
    return {
      ...this.#replicationOf(annotated),
      ...state,
      message: note === undefined ? state.message : `${state.message}; ${note}`,
      lastSyncTime,
      copies: copies.toSorted(byName),
      failing: failingOf(snapshot, rule),
    };
  }

  async #orphansOf(snapshot: Snapshot): Promise<OrphanStatus[]> {
    const unclaimed = [...snapshot.inventory.objects].flatMap(([key, target]) => {
      const rule = this.ruleSet.ownerOf(target, key);
      if (rule === undefined || snapshot.claims.book.claims(rule, key)) return [];
      const { kind, namespace, name } = parseRuleKey(rule);
      const source = resourceKey(parseResourceKey(key).cluster, kind, namespace, name);
      return snapshot.inventory.isListed(kind, namespace) ? [{ key, target, rule, source }] : [];
    });
    await snapshot.decide(unclaimed.map(({ key }) => key));
    const orphans: OrphanStatus[] = [];
    for (const { key, target, rule, source } of unclaimed) {
      const copy = copyStatus(key, target, this.#names.version);
      const orphan = { system: REPLICATOR_CONTROLLER, ...copy, owner: target.annotations[this.#names.by] ?? '' };
      if (isUndecided(snapshot, key)) {
        const isThere = this.#inventory.objects.has(source);
        const why = isThere ? 'its source does not request it' : 'its source does not exist';
        const because = this.ruleSet.refusalOf(rule)?.message ?? this.#whyNoCopy(target) ?? heldBy(snapshot, key);
        orphans.push({ ...orphan, ...leftoverOf('k8s-replicator', why, because) });
        continue;
      }
      const why = snapshot.rules.has(rule)
        ? 'no longer selected by its source'
        : 'its source does not exist or has no copies';
      orphans.push({ ...orphan, reason: `${why}; ${orphanNote(snapshot, key)}` });
    }
    return orphans;
  }

  /** Why an object with a mark of the original may be no copy of it. */
  #whyNoCopy({ annotations }: Observed): string | undefined {
    const names = this.#names;
    const unknown = unknownOn(this.#settings, 'it', annotations);
    if (unknown !== undefined) return unknown.message;
    const requests = [names.to, names.toNamespaces].find((name) => name in annotations);
    if (requests !== undefined) return `it has the annotation ${requests}`;
    // The original writes both on every copy, the version only with data.
    return names.at in annotations || names.version in annotations ? undefined : `it has no annotation ${names.at}`;
  }

  heldBy(object: ResourceKey): string | undefined {
    this.#foreign ??= FOREIGN.map((program) => new ForeignRequests(program, this.#inventory.objects));
    return this.#foreign.flatMap((program) => program.heldBy(object) ?? [])[0];
  }
}

function stateOf(snapshot: Snapshot, replication: ReplicationRule, entries: readonly Entry[]): RuleState {
  const [pending, settled] = [entries.filter(isPending), entries.filter((entry) => !isPending(entry))];
  const [first, ...more] = eventsOf(replication.kind === 'broken' ? replication.refusal : undefined, settled) ?? [];
  if (first !== undefined) {
    const message = [first, ...more].map((remark) => remark.message).join('; ');
    return notReady(replication.kind === 'broken' ? 'Suspended' : 'Error', first.reason, message);
  }
  if (dependsOnUnlisted(snapshot, replication, entries)) {
    return notReady('Unknown', LIMITED, 'no permission to read other namespaces');
  }
  if (pending.length > 0) {
    const message = `${pending.length} of ${entries.length} not up to date; check that Keyferry is running and see the events of this object`;
    return notReady('Outdated', 'Outdated', message);
  }
  const waiting = entries.find(({ outcome }) => outcome.state === 'waiting')?.outcome;
  if (waiting !== undefined) return notReady('Waiting', waiting.reason, waiting.message);
  const message = `${entries.length} ${entries.length === 1 ? 'object is' : 'objects are'} up to date`;
  return { state: 'Active', ready: true, reason: 'Synced', message };
}

/** Whether the rule depends on namespaces that could not be listed. */
function dependsOnUnlisted(snapshot: Snapshot, replication: ReplicationRule, entries: readonly Entry[]): boolean {
  if (['Namespace', 'Secret', 'ConfigMap'].every((kind) => snapshot.inventory.isWhole(kind))) return false;
  if (replication.kind === 'push') return true;
  return entries.some(({ claim }) => {
    if (claim.source === undefined) return false;
    const { kind, namespace } = parseResourceKey(claim.source);
    return !snapshot.inventory.isListed(kind, namespace);
  });
}

function isPending({ outcome }: Entry): boolean {
  return outcome.state === 'pending';
}
