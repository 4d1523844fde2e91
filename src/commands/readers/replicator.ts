/** Reads annotated objects for `status` and `plan`. They have no status, so the commands decide on each target anew. */
import { parseResourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import type { RuleScope } from '../../controllers/common/context.ts';
import { type AnnotationNames, type Annotations, listItems } from '../../controllers/replicator/words.ts';
import { ReplicatorRules } from '../../controllers/replicator/rules.ts';
import { readRule } from '../../controllers/replicator/targets.ts';
import { because, withReason } from '../../copy/model/cause.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Evaluation } from '../../copy/model/rule-set.ts';
import type { Inventory } from '../snapshot/inventory.ts';
import type { Description, SnapshotView, Unwanted } from '../snapshot/reader.ts';
import { notReady } from '../snapshot/rule-state.ts';
import { AnnotatedReader, listedObjects, problemIn, type ReadRule } from './annotated.ts';

export class ReplicatorReader extends AnnotatedReader<ReplicatorRules> {
  readonly #names: AnnotationNames;

  constructor(inventory: Inventory, scope: RuleScope) {
    const rules = new ReplicatorRules(scope, listedObjects(inventory, scope.cluster));
    super(inventory, rules, rules.settings.names.version);
    this.#names = rules.settings.names;
  }

  override describe(object: ResourceKey, snapshot: SnapshotView): Description | undefined {
    if (this.ruleOf(object) !== undefined) return super.describe(object, snapshot);
    // Of a kind that the replicator does not serve.
    const annotations = this.inventory.objects.get(object)?.annotations;
    const place = parseResourceKey(object);
    const said = annotations && this.#saidOf(place, annotations);
    if (said === undefined) return undefined;
    const message = `the replicator does not run for ${place.kind}s (--run-replicators)`;
    const lastSyncTime = annotations?.[this.#names.at] ?? null;
    return { ...said.words, state: () => ({ ...notReady('Ignored', because('NotRun', message)), lastSyncTime }) };
  }

  /** Source and destinations as the user wrote them; `undefined`: the annotations ask for nothing. */
  #saidOf({ kind, namespace, name }: Pick<ReadRule, 'kind' | 'namespace' | 'name'>, annotations: Annotations) {
    const rule = readRule(this.ruleSet.settings, { namespace, name }, annotations);
    if (rule === undefined) return undefined;
    const from = rule.kind === 'broken' ? undefined : rule.from;
    const lists = [this.#names.to, this.#names.toNamespaces].flatMap((list) => listItems(annotations[list] ?? ''));
    const source = `${kind.toLowerCase()} ${from ?? `${namespace}/${name}`}`;
    const words = { source, destinations: rule.kind === 'pull' ? [`${namespace}/${name}`] : lists };
    return { isPush: rule.kind === 'push', words };
  }

  protected described(rule: ReadRule, snapshot: SnapshotView): Description | undefined {
    const { key, evaluation, annotations } = rule;
    const said = this.#saidOf(rule, annotations);
    if (said === undefined) return undefined;
    return {
      ...said.words,
      state: () => {
        const entries = [...snapshot.claims.book.of(key)];
        const times = entries.flatMap((entry) => snapshot.copyOf(entry)?.annotations[this.#names.at] ?? []);
        const state = this.stateOf(rule, entries, said.isPush, times.toSorted().at(-1));
        const { outOfReach } = evaluation;
        const warnings = this.warningsOn(key, state.reason === problemIn(outOfReach)?.reason ? undefined : outOfReach);
        return warnings === '' ? state : { ...state, message: `${state.message}; ${warnings}` };
      },
    };
  }

  protected left(rule: RuleKey, { annotations }: Observed, evaluation: Evaluation | undefined): Unwanted {
    const problem = problemIn(evaluation?.outOfReach);
    const why = problem === undefined ? '' : `: ${withReason(problem)}`;
    const isThere = this.ruleSet.objectOf(rule).observed !== undefined;
    return {
      owner: annotations[this.#names.by] ?? '',
      why: isThere ? `its source does not request it${why}` : 'its source does not exist',
      because: evaluation?.refusal?.message,
    };
  }
}
