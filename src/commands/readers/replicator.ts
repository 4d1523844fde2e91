/** Reads annotated objects for `status` and `plan`. They have no status, so the commands decide on each target anew. */
import { parseResourceKey, parseRuleKey, resourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import type { Place } from '../../controllers/common/annotated/objects.ts';
import type { RuleScope } from '../../controllers/common/context.ts';
import { type AnnotationNames, listItems } from '../../controllers/replicator/rules/annotations.ts';
import { ReplicatorRules } from '../../controllers/replicator/rules/rule-set.ts';
import { readRule, type ReplicationRule } from '../../controllers/replicator/rules/rule.ts';
import { because, type Cause, withReason } from '../../copy/model/cause.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Evaluation, OutOfReach } from '../../copy/model/rule-set.ts';
import type { Inventory } from '../snapshot/inventory.ts';
import type { Description, RuleReader, SnapshotView, Unwanted } from '../snapshot/reader.ts';
import { notReady } from '../snapshot/rule-state.ts';
import { annotatedState, listedObjects, problemIn } from './annotated.ts';

export class ReplicatorReader implements RuleReader {
  readonly ruleSet: ReplicatorRules;
  readonly versionMark: string;
  readonly #names: AnnotationNames;
  readonly #inventory: Inventory;

  constructor(inventory: Inventory, scope: RuleScope) {
    this.#inventory = inventory;
    this.ruleSet = new ReplicatorRules(scope, { observed: listedObjects(inventory, scope.cluster) });
    this.#names = this.ruleSet.settings.names;
    this.versionMark = this.#names.version;
  }

  ruleOf(object: ResourceKey): RuleKey | undefined {
    return this.ruleSet.objects.ruleOf(object);
  }

  describe(object: ResourceKey, snapshot: SnapshotView): Description | undefined {
    const key = this.ruleOf(object);
    const evaluation = key && snapshot.rules.get(key);
    const observed = this.#inventory.objects.get(object);
    if (observed === undefined || (key !== undefined && evaluation === undefined)) return undefined;
    const { kind, namespace, name } = parseResourceKey(object);
    const replication = this.#replicationIn({ namespace, name }, observed, evaluation?.refusal);
    if (replication === undefined) return undefined;
    const note = key && this.#noteOn(key, evaluation?.outOfReach);
    const from = replication.kind === 'broken' ? undefined : replication.from;
    return {
      source: `${kind.toLowerCase()} ${from ?? `${namespace}/${name}`}`,
      destinations: replication.kind === 'pull' ? [`${namespace}/${name}`] : this.#destinationsOf(observed),
      state: () => {
        if (evaluation !== undefined) return this.#stateOf(snapshot, evaluation, replication);
        const message = `the replicator does not run for ${kind}s (--run-replicators)`;
        return {
          ...notReady('Ignored', because('NotRun', message)),
          lastSyncTime: observed.annotations[this.#names.at] ?? null,
        };
      },
      problems: key !== undefined && replication.kind === 'broken' ? [replication.refusal.message] : [],
      notes: note === undefined ? [] : [note],
      warnings: key === undefined ? [] : this.ruleSet.misreadOf(key),
    };
  }

  #noteOn(rule: RuleKey, outOfReach: OutOfReach | undefined): string | undefined {
    // If not all namespaces could be listed, the namespaces that a pattern matches are unknown.
    if (this.#inventory.only !== undefined) return undefined;
    return this.ruleSet.warningsOf(rule, outOfReach).map(withReason).join('; ') || undefined;
  }

  /** The rule in an object's annotations, or why the rule is refused; `undefined`: the object is no rule. */
  #replicationIn(place: Place, { annotations }: Observed, refusal: Cause | undefined): ReplicationRule | undefined {
    return refusal === undefined ? readRule(this.ruleSet.settings, place, annotations) : { kind: 'broken', refusal };
  }

  /** The destinations as the user wrote them in the annotations: names and patterns. */
  #destinationsOf({ annotations }: Observed): string[] {
    return [this.#names.to, this.#names.toNamespaces].flatMap((name) => listItems(annotations[name] ?? ''));
  }

  #stateOf(
    snapshot: SnapshotView,
    { owner, outOfReach }: Evaluation,
    replication: ReplicationRule,
  ): ReturnType<Description['state']> {
    const entries = [...snapshot.claims.book.of(owner.key)];
    const problem = problemIn(outOfReach);
    const refusal = replication.kind === 'broken' ? replication.refusal : undefined;
    const state = annotatedState(this.#inventory, { refusal, isPush: replication.kind === 'push' }, entries, problem);
    const note = this.#noteOn(owner.key, state.reason === problem?.reason ? undefined : outOfReach);
    const times = entries.flatMap((entry) => snapshot.copyOf(entry)?.annotations[this.#names.at] ?? []);
    return {
      ...state,
      message: note === undefined ? state.message : `${state.message}; ${note}`,
      lastSyncTime: times.toSorted().at(-1) ?? null,
    };
  }

  unwanted(object: ResourceKey, observed: Observed, { claims, rules }: SnapshotView): Unwanted | undefined {
    const inventory = this.#inventory;
    const { rule } = this.ruleSet.markOn(observed, object) ?? {};
    if (rule === undefined || claims.book.claims(rule, object)) return undefined;
    const { kind, namespace, name } = parseRuleKey(rule);
    if (!inventory.isListed(kind, namespace)) return undefined;
    const source = resourceKey(parseResourceKey(object).cluster, kind, namespace, name);
    const problem = problemIn(rules.get(rule)?.outOfReach);
    const why = problem === undefined ? '' : `: ${withReason(problem)}`;
    return {
      owner: observed.annotations[this.#names.by] ?? '',
      why: inventory.objects.has(source) ? `its source does not request it${why}` : 'its source does not exist',
      because: rules.get(rule)?.refusal?.message,
    };
  }
}
