/** Reads annotated objects for `status` and `plan`. They have no status, so the commands decide on each target anew. */
import { parseResourceKey, parseRuleKey, resourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { withReason } from '../../copy/model/cause.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Evaluation, Findings, OutOfReach } from '../../copy/model/rule-set.ts';
import type { Entry } from '../../copy/book/claim-book.ts';
import { command } from '../../runtime/text/command.ts';
import type { Inventory } from '../snapshot/inventory.ts';
import type { ListedRule, ReaderContext, RuleReader, Unwanted } from '../snapshot/reader.ts';
import type { Snapshot } from '../snapshot/snapshot.ts';
import { LIMITED, notReady, type RuleState } from '../snapshot/status-report.ts';
import { type AnnotationNames, isAnnotated, listItems } from '../../controllers/replicator/rules/annotations.ts';
import { isFilled } from '../../controllers/replicator/rules/bookkeeping.ts';
import { FOREIGN } from '../migrate/programs.ts';
import { ForeignRequests } from '../migrate/programs/requests.ts';
import { REPLICATOR_CONTROLLER, ReplicatorRules } from '../../controllers/replicator/rules/rule-set.ts';
import { eventsOf } from '../../controllers/replicator/rules/rule-events.ts';
import {
  readRule,
  type ReplicationRule,
  type RuleSettings,
  unknownOn,
} from '../../controllers/replicator/rules/rule.ts';

export class ReplicatorReader implements RuleReader {
  static readonly collection = undefined;
  readonly collection = undefined;
  readonly system = REPLICATOR_CONTROLLER;
  readonly ruleNames = 'Secrets or ConfigMaps with replicator annotations';
  readonly ruleSet: ReplicatorRules;
  readonly versionMark: string;
  readonly #settings: RuleSettings;
  readonly #names: AnnotationNames;
  readonly #inventory: Inventory;
  /** The copies that annotations of other programs (reflector, for example) request; `undefined`: not read yet. */
  #foreign: readonly ForeignRequests[] | undefined;

  constructor({ inventory, scope }: ReaderContext) {
    this.#inventory = inventory;
    this.ruleSet = new ReplicatorRules(scope, {
      observed: ({ kind }, namespace, name) => inventory.objects.get(resourceKey(scope.cluster, kind, namespace, name)),
    });
    this.#settings = this.ruleSet.settings;
    this.#names = this.#settings.names;
    this.versionMark = this.#names.version;
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

  problemsOf(object: ResourceKey, evaluation: Evaluation | undefined): readonly string[] {
    const observed = this.#inventory.objects.get(object);
    if (observed === undefined || this.ruleOf(object) === undefined) return [];
    const replication = this.#replicationRuleOf(object, observed, evaluation);
    return replication?.kind === 'broken' ? [replication.refusal.message] : [];
  }

  misreadOf(rule: RuleKey): readonly string[] {
    return this.ruleSet.misreadOf(rule);
  }

  noteOn(rule: RuleKey, evaluation: Evaluation | undefined): string | undefined {
    // If not all namespaces could be listed, the namespaces that a pattern matches are unknown.
    if (this.#inventory.only !== undefined) return undefined;
    return this.ruleSet.warningsOf(rule, evaluation?.outOfReach).map(withReason).join('; ') || undefined;
  }

  /** The rule in an object's annotations, or why the rule is refused; `undefined`: the object is no rule. */
  #replicationRuleOf(
    key: ResourceKey,
    { annotations }: Observed,
    evaluation: Evaluation | undefined,
  ): ReplicationRule | undefined {
    const { refusal } = evaluation ?? {};
    if (refusal !== undefined) return { kind: 'broken', refusal };
    return readRule(this.#settings, parseResourceKey(key), annotations);
  }

  *list(snapshot: Snapshot): Iterable<ListedRule> {
    for (const [object, observed] of this.#inventory.objects) {
      const key = this.ruleOf(object);
      const evaluation = key && snapshot.rules.get(key);
      const replication =
        key === undefined || evaluation !== undefined
          ? this.#replicationRuleOf(object, observed, evaluation)
          : undefined;
      if (replication === undefined) continue;
      const { kind, namespace, name } = parseResourceKey(object);
      const from = replication.kind === 'broken' ? undefined : replication.from;
      yield {
        key,
        kind,
        namespace,
        name,
        source: `${kind.toLowerCase()} ${from ?? `${namespace}/${name}`}`,
        destinations: replication.kind === 'pull' ? [`${namespace}/${name}`] : this.#destinationsOf(observed),
        isDecided: true,
        stateOf: (copies) => {
          if (key !== undefined) return this.#stateOf(snapshot, key, replication, copies);
          const message = `the replicator does not run for ${kind}s (--run-replicators)`;
          return {
            ...notReady('Ignored', 'NotRun', message),
            lastSyncTime: observed.annotations[this.#names.at] ?? null,
          };
        },
      };
    }
  }

  /** The destinations as the user wrote them in the annotations: names and patterns. */
  #destinationsOf({ annotations }: Observed): string[] {
    return [this.#names.to, this.#names.toNamespaces].flatMap((name) => listItems(annotations[name] ?? ''));
  }

  #stateOf(
    snapshot: Snapshot,
    rule: RuleKey,
    replication: ReplicationRule,
    copies: readonly Observed[],
  ): ReturnType<ListedRule['stateOf']> {
    const entries = [...snapshot.claims.book.of(rule)];
    const evaluation = snapshot.rules.get(rule);
    const problem = problemIn(evaluation);
    const state = stateOf(snapshot, replication, entries, problem);
    const note = this.noteOn(rule, state.reason === problem?.reason ? undefined : evaluation);
    const times = copies.flatMap(({ annotations }) => annotations[this.#names.at] ?? []);
    return {
      ...state,
      message: note === undefined ? state.message : `${state.message}; ${note}`,
      lastSyncTime: times.toSorted().at(-1) ?? null,
    };
  }

  isFilled(observed: Observed): boolean {
    return isFilled(this.#names, observed);
  }

  unwanted({ claims, inventory, rules }: Snapshot, object: ResourceKey, observed: Observed): Unwanted | undefined {
    const rule = this.ruleSet.ownerOf(observed, object);
    if (rule === undefined || claims.book.claims(rule, object)) return undefined;
    const { kind, namespace, name } = parseRuleKey(rule);
    if (!inventory.isListed(kind, namespace)) return undefined;
    const source = resourceKey(parseResourceKey(object).cluster, kind, namespace, name);
    const problem = problemIn(rules.get(rule));
    const why = problem === undefined ? '' : `: ${withReason(problem)}`;
    return {
      owner: observed.annotations[this.#names.by] ?? '',
      why: rules.has(rule) ? `no longer selected by its source${why}` : 'its source does not exist or has no copies',
      leftover: {
        program: 'k8s-replicator',
        why: inventory.objects.has(source) ? 'its source does not request it' : 'its source does not exist',
        because: rules.get(rule)?.refusal?.message ?? this.#whyNoCopy(observed),
      },
    };
  }

  /** Why an object that carries the mark of a copy may not be a copy; `undefined`: it is a copy. */
  #whyNoCopy({ annotations }: Observed): string | undefined {
    const names = this.#names;
    const unknown = unknownOn(this.#settings, 'it', annotations);
    if (unknown !== undefined) return unknown.message;
    const requests = [names.to, names.toNamespaces].find((name) => name in annotations);
    if (requests !== undefined) return `it has the annotation ${requests}`;
    // The original writes `replicated-at` on every copy, and the version on every copy with data.
    return names.at in annotations || names.version in annotations ? undefined : `it has no annotation ${names.at}`;
  }

  heldBy(object: ResourceKey): string | undefined {
    return this.#requests().flatMap((program) => program.heldBy(object) ?? [])[0];
  }

  notesOf(object: ResourceKey): readonly string[] {
    if (isAnnotated(this.#names, this.#inventory.objects.get(object)?.annotations)) return [];
    const programs = this.#requests().flatMap((requests) => requests.programOn(object) ?? []);
    return programs.map(
      (name) => `has annotations of ${name}, which Keyferry does not read: ${command(`migrate --from ${name}`)}`,
    );
  }

  #requests(): readonly ForeignRequests[] {
    return (this.#foreign ??= FOREIGN.map((program) => new ForeignRequests(program, this.#inventory.objects)));
  }
}

/** Why the rule copies nothing, or cannot copy into a namespace that it names; `undefined`: no such problem. */
function problemIn({ outOfReach }: Findings = {}): OutOfReach | undefined {
  return outOfReach?.part === 'others' ? undefined : outOfReach;
}

function stateOf(
  snapshot: Snapshot,
  replication: ReplicationRule,
  entries: readonly Entry[],
  outOfReach: OutOfReach | undefined,
): RuleState {
  const [pending, settled] = [entries.filter(isPending), entries.filter((entry) => !isPending(entry))];
  const [first, ...more] = eventsOf(replication.kind === 'broken' ? replication.refusal : undefined, settled) ?? [];
  if (first !== undefined) {
    const message = [first, ...more].map((remark) => remark.message).join('; ');
    // As for a SecretMirror, a conflict is no error: what the rule may write is up to date.
    const state = settled.some(({ outcome }) => outcome.state === 'error') ? 'Error' : 'Active';
    return notReady(replication.kind === 'broken' ? 'Suspended' : state, first.reason, message);
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
  if (outOfReach !== undefined) {
    const state = outOfReach.part === 'all' ? 'Error' : 'Active';
    return notReady(state, outOfReach.reason, `${outOfReach.message}; ${message}`);
  }
  return { state: 'Active', ready: true, reason: 'Synced', message };
}

/** Whether the state of the rule depends on namespaces that the user has no permission to list. */
function dependsOnUnlisted(snapshot: Snapshot, replication: ReplicationRule, entries: readonly Entry[]): boolean {
  if (replication.kind === 'push') return snapshot.inventory.only !== undefined;
  return entries.some(({ claim }) => {
    if (claim.source === undefined) return false;
    const { kind, namespace } = parseResourceKey(claim.source);
    return !snapshot.inventory.isListed(kind, namespace);
  });
}

function isPending({ outcome }: Entry): boolean {
  return outcome.state === 'pending';
}
