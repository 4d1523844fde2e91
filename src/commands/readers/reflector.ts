/** Reads objects with annotations of reflector for `status`, `plan` and `explain`. */
import { warningsOf } from '../../controllers/common/annotated/report.ts';
import type { RuleScope } from '../../controllers/common/context.ts';
import { ReflectorRules } from '../../controllers/reflector/rules.ts';
import { NAMES, referenceIn } from '../../controllers/reflector/words.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Evaluation } from '../../copy/model/rule-set.ts';
import type { Inventory } from '../snapshot/inventory.ts';
import type { Description, SnapshotView, Unwanted } from '../snapshot/reader.ts';
import { AnnotatedReader, listedObjects, type ReadRule, whyUnwanted } from './annotated.ts';

export class ReflectorReader extends AnnotatedReader<ReflectorRules> {
  constructor(inventory: Inventory, scope: RuleScope) {
    super(inventory, new ReflectorRules(scope, listedObjects(inventory, scope.cluster)), NAMES.version);
  }

  protected described(rule: ReadRule, { claims }: SnapshotView): Description {
    const { key, evaluation, annotations, kind, namespace, name } = rule;
    const isDirect = evaluation.claims[0]?.claim.mode === 'fill';
    const reference = isDirect ? referenceIn(annotations) : undefined;
    const from = reference === undefined || 'reason' in reference ? { namespace, name } : reference;
    const lists = [annotations[NAMES.autoNamespaces], annotations[NAMES.autoSelector]];
    return {
      source: `${kind.toLowerCase()} ${from.namespace}/${from.name}`,
      destinations: isDirect ? [`${namespace}/${name}`] : lists.flatMap((list) => list?.trim() || []),
      state: () => this.stateOf(rule, claims.book.of(key), !isDirect, annotations[NAMES.at]),
    };
  }

  protected left(rule: RuleKey, { annotations }: Observed, evaluation: Evaluation | undefined): Unwanted {
    // A list that cannot be read, or a limit, may be why the source does not ask for the mirror.
    const [warning] = warningsOf(this.ruleSet, rule, evaluation?.outOfReach);
    return {
      owner: annotations[NAMES.reflects] ?? '',
      why: whyUnwanted(evaluation),
      because: evaluation?.refusal?.message ?? warning?.message,
    };
  }
}
