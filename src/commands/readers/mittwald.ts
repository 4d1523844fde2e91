/** Reads objects with annotations of mittwald/kubernetes-replicator for `status`, `plan` and `explain`. */
import type { RuleScope } from '../../controllers/common/context.ts';
import { MittwaldRules } from '../../controllers/mittwald/rules.ts';
import { COPY_OF, NAMES, referenceIn } from '../../controllers/mittwald/words.ts';
import { withReason } from '../../copy/model/cause.ts';
import { parseResourceKey, parseRuleKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { CONFIG_MAP } from '../../copy/model/kind.ts';
import { MERGED_FROM, type Observed, PLACE_ANNOTATION } from '../../copy/model/observed.ts';
import type { Inventory } from '../snapshot/inventory.ts';
import type { Description, RuleReader, SnapshotView, Unwanted } from '../snapshot/reader.ts';
import { annotatedState, listedObjects, problemIn } from './annotated.ts';

export class MittwaldReader implements RuleReader {
  readonly ruleSet: MittwaldRules;
  readonly versionMark = NAMES.version;
  readonly #inventory: Inventory;

  constructor(inventory: Inventory, scope: RuleScope) {
    this.#inventory = inventory;
    this.ruleSet = new MittwaldRules(scope, listedObjects(inventory, scope.cluster));
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
    const reference = referenceIn({ namespace, name }, annotations);
    const isPull = reference !== undefined;
    const from = reference === undefined || 'reason' in reference ? { namespace, name } : reference;
    const notes = this.ruleSet.warningsOf(key, evaluation.outOfReach).map(withReason);
    const stripped = annotations[NAMES.stripLabels];
    if (stripped !== undefined && stripped !== 'true')
      notes.push(`${NAMES.stripLabels}: "${stripped}" keeps the labels; the original removes them`);
    const { refusal, outOfReach, owner } = evaluation;
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
        const entries = [...snapshot.claims.book.of(owner.key)];
        const state = annotatedState(this.#inventory, { refusal, isPush: !isPull }, entries, problemIn(outOfReach));
        const message =
          advice !== undefined && state.reason === 'Denied' ? `${state.message}; ${advice}` : state.message;
        return { ...state, message, lastSyncTime: annotations[NAMES.at] ?? null };
      },
      problems: refusal === undefined ? [] : [refusal.message],
      notes: notes.length === 0 || this.#inventory.only !== undefined ? [] : [notes.join('; ')],
      warnings: this.ruleSet.misreadOf(key),
    };
  }

  unwanted(object: ResourceKey, observed: Observed, { claims, rules }: SnapshotView): Unwanted | undefined {
    const { annotations } = observed;
    const rule = this.ruleSet.ownerOf(observed, object);
    if (rule === undefined) return this.#leftOver(object, annotations, claims);
    if (claims.book.claims(rule, object)) return undefined;
    const { kind, namespace } = parseRuleKey(rule);
    if (!this.#inventory.isListed(kind, namespace)) return undefined;
    return {
      owner: annotations[COPY_OF] ?? annotations[MERGED_FROM] ?? '',
      why: rules.has(rule)
        ? 'its source does not select its namespace'
        : 'its source does not exist, or pushes nothing',
    };
  }

  /** A copy that the original made, and that no source wants. Its marks do not name its source. */
  #leftOver(
    object: ResourceKey,
    annotations: Observed['annotations'],
    { book }: SnapshotView['claims'],
  ): Unwanted | undefined {
    if (!(NAMES.version in annotations) || !(NAMES.keys in annotations)) return undefined;
    if (NAMES.from in annotations || PLACE_ANNOTATION in annotations || book.isClaimed(object)) return undefined;
    return {
      owner: '',
      why: 'no source of this name pushes it; which source the original had, its marks do not say',
      isIgnored: true,
    };
  }
}
