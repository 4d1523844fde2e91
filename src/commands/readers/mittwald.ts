/** Reads objects with annotations of mittwald/kubernetes-replicator for `status`, `plan` and `explain`. */
import type { RuleScope } from '../../controllers/common/context.ts';
import { MittwaldRules } from '../../controllers/mittwald/rules.ts';
import { COPY_OF, NAMES, referenceIn } from '../../controllers/mittwald/words.ts';
import type { ResourceKey, RuleKey } from '../../copy/model/keys.ts';
import { CONFIG_MAP } from '../../copy/model/kind.ts';
import { MERGED_FROM, type Observed, PLACE_ANNOTATION } from '../../copy/model/observed.ts';
import type { Evaluation } from '../../copy/model/rule-set.ts';
import type { Inventory } from '../snapshot/inventory.ts';
import type { Description, SnapshotView, Unwanted } from '../snapshot/reader.ts';
import { AnnotatedReader, listedObjects, type ReadRule } from './annotated.ts';

export class MittwaldReader extends AnnotatedReader<MittwaldRules> {
  constructor(inventory: Inventory, scope: RuleScope) {
    super(inventory, new MittwaldRules(scope, listedObjects(inventory, scope.cluster)), NAMES.version);
  }

  protected described(rule: ReadRule, { claims }: SnapshotView): Description {
    const { key, annotations, kind, namespace, name } = rule;
    const reference = referenceIn({ namespace, name }, annotations);
    const isPull = reference !== undefined;
    const from = reference === undefined || 'reason' in reference ? { namespace, name } : reference;
    const stripped = annotations[NAMES.stripLabels];
    const note = `${NAMES.stripLabels}: "${stripped}" keeps the labels; the original removes them`;
    const advice =
      isPull && kind === CONFIG_MAP.kind
        ? `to pull a ConfigMap, its source must have ${NAMES.allowed}: "true" and ${NAMES.allowedNamespaces}: ${namespace}, or set --mittwald-configmaps-ungated`
        : undefined;
    return {
      source: `${kind.toLowerCase()} ${from.namespace}/${from.name}`,
      destinations: isPull
        ? [`${namespace}/${name}`]
        : [annotations[NAMES.to], annotations[NAMES.toMatching]].flatMap((text) => text?.trim() || []),
      state: () => {
        const state = this.stateOf(rule, claims.book.of(key), !isPull, annotations[NAMES.at]);
        const isAdvised = advice !== undefined && state.reason === 'Denied';
        return isAdvised ? { ...state, message: `${state.message}; ${advice}` } : state;
      },
      notes: stripped === undefined || stripped === 'true' ? [] : [note],
      warnings: this.ruleSet.misreadOf(key),
    };
  }

  override unwanted(object: ResourceKey, observed: Observed, snapshot: SnapshotView): Unwanted | undefined {
    const isMarked = this.ruleSet.markOn(observed, object) !== undefined;
    if (isMarked) return super.unwanted(object, observed, snapshot);
    // A copy that the original made, and that no source wants. Its marks do not name its source.
    const { annotations } = observed;
    if (!(NAMES.version in annotations) || !(NAMES.keys in annotations)) return undefined;
    const isOthers = NAMES.from in annotations || PLACE_ANNOTATION in annotations;
    if (isOthers || snapshot.claims.book.isClaimed(object)) return undefined;
    return {
      owner: '',
      why: 'no source of this name pushes it; which source the original had, its marks do not say',
      isIgnored: true,
    };
  }

  protected left(_rule: RuleKey, { annotations }: Observed, evaluation: Evaluation | undefined): Unwanted {
    const isThere = evaluation !== undefined;
    return {
      owner: annotations[COPY_OF] ?? annotations[MERGED_FROM] ?? '',
      why: isThere ? 'its source does not select its namespace' : 'its source does not exist, or pushes nothing',
    };
  }
}
