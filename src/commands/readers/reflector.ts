/** Reads objects with annotations of reflector for `status`, `plan` and `explain`. */
import type { RuleScope } from '../../controllers/common/context.ts';
import { ReflectorRules } from '../../controllers/reflector/rules.ts';
import { NAMES, referenceIn } from '../../controllers/reflector/words.ts';
import { withReason } from '../../copy/model/cause.ts';
import { parseResourceKey, parseRuleKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Evaluation } from '../../copy/model/rule-set.ts';
import type { Inventory } from '../snapshot/inventory.ts';
import type { Description, RuleReader, SnapshotView, Unwanted } from '../snapshot/reader.ts';
import { annotatedState, listedObjects, problemIn, whyUnwanted } from './annotated.ts';

export class ReflectorReader implements RuleReader {
  readonly ruleSet: ReflectorRules;
  readonly versionMark = NAMES.version;
  readonly #inventory: Inventory;

  constructor(inventory: Inventory, scope: RuleScope) {
    this.#inventory = inventory;
    this.ruleSet = new ReflectorRules(scope, listedObjects(inventory, scope.cluster));
  }

  ruleOf(object: ResourceKey): RuleKey | undefined {
    return this.ruleSet.objects.ruleOf(object);
  }

  describe(object: ResourceKey, snapshot: SnapshotView): Description | undefined {
    const key = this.ruleOf(object);
    const evaluation = key && snapshot.rules.get(key);
    const annotations = this.#inventory.objects.get(object)?.annotations;
    if (key === undefined || evaluation === undefined || annotations === undefined) return undefined;
    const { kind, namespace, name } = parseResourceKey(object);
    const [claim] = evaluation.claims;
    const isDirect = claim?.claim.mode === 'fill';
    const reference = isDirect ? referenceIn(annotations) : undefined;
    const from = reference === undefined || 'reason' in reference ? { namespace, name } : reference;
    const lists = [annotations[NAMES.autoNamespaces], annotations[NAMES.autoSelector]];
    const note = this.ruleSet.warningsOf(key, evaluation.outOfReach).map(withReason).join('; ');
    return {
      source: `${kind.toLowerCase()} ${from.namespace}/${from.name}`,
      destinations: isDirect ? [`${namespace}/${name}`] : lists.flatMap((list) => list?.trim() || []),
      state: () => this.#stateOf(snapshot, evaluation, !isDirect, annotations[NAMES.at]),
      problems: evaluation.refusal === undefined ? [] : [evaluation.refusal.message],
      notes: note === '' || this.#inventory.only !== undefined ? [] : [note],
      warnings: this.ruleSet.misreadOf(key),
    };
  }

  #stateOf(
    snapshot: SnapshotView,
    { owner, refusal, outOfReach }: Evaluation,
    isPush: boolean,
    at: string | undefined,
  ): ReturnType<Description['state']> {
    const entries = [...snapshot.claims.book.of(owner.key)];
    const state = annotatedState(this.#inventory, { refusal, isPush }, entries, problemIn(outOfReach));
    return { ...state, lastSyncTime: at ?? null };
  }

  unwanted(object: ResourceKey, observed: Observed, { claims, rules }: SnapshotView): Unwanted | undefined {
    const rule = this.ruleSet.ownerOf(observed, object);
    if (rule === undefined || claims.book.claims(rule, object)) return undefined;
    const { kind, namespace } = parseRuleKey(rule);
    if (!this.#inventory.isListed(kind, namespace)) return undefined;
    const evaluation = rules.get(rule);
    // A list that cannot be read, or a limit, may be why the source does not ask for the mirror.
    const [warning] = this.ruleSet.warningsOf(rule, evaluation?.outOfReach);
    return {
      owner: observed.annotations[NAMES.reflects] ?? '',
      why: whyUnwanted(evaluation),
      because: evaluation?.refusal?.message ?? warning?.message,
    };
  }
}
