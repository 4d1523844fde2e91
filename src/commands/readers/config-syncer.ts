/** Reads objects with annotations of config-syncer for `status`, `plan` and `explain`. */
import { ConfigSyncerRules } from '../../controllers/config-syncer/rules.ts';
import { MARK, NAMES, originIn } from '../../controllers/config-syncer/words.ts';
import type { RuleScope } from '../../controllers/common/context.ts';
import { withReason } from '../../copy/model/cause.ts';
import { controllerOf, parseResourceKey, parseRuleKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Inventory } from '../snapshot/inventory.ts';
import type { Description, RuleReader, SnapshotView, Unwanted } from '../snapshot/reader.ts';
import { annotatedState, listedObjects, problemIn, whyUnwanted } from './annotated.ts';

export class ConfigSyncerReader implements RuleReader {
  readonly ruleSet: ConfigSyncerRules;
  readonly versionMark = NAMES.origin;
  readonly versionIn = (text: string): string | undefined => originIn({ [NAMES.origin]: text })?.resourceVersion;
  readonly #inventory: Inventory;

  constructor(inventory: Inventory, scope: RuleScope) {
    this.#inventory = inventory;
    this.ruleSet = new ConfigSyncerRules(scope, listedObjects(inventory, scope.cluster));
  }

  ruleOf(object: ResourceKey): RuleKey | undefined {
    return this.ruleSet.objects.ruleOf(object);
  }

  describe(object: ResourceKey, { rules, claims }: SnapshotView): Description | undefined {
    const key = this.ruleOf(object);
    const evaluation = key && rules.get(key);
    const annotations = this.#inventory.objects.get(object)?.annotations;
    if (key === undefined || evaluation === undefined || annotations === undefined) return undefined;
    const { refusal, outOfReach } = evaluation;
    const { kind, namespace, name } = parseResourceKey(object);
    const note = this.ruleSet.warningsOf(key, outOfReach).map(withReason).join('; ');
    const entries = (): ReturnType<ConfigSyncerRules['named']> => this.ruleSet.named(claims.book.of(key));
    return {
      source: `${kind.toLowerCase()} ${namespace}/${name}`,
      destinations: annotations[NAMES.sync] === undefined ? [] : [annotations[NAMES.sync] || 'every namespace'],
      state: () => ({
        ...annotatedState(this.#inventory, { refusal, isPush: true }, entries(), problemIn(outOfReach)),
        lastSyncTime: null,
      }),
      problems: refusal === undefined ? [] : [refusal.message],
      notes: note === '' || this.#inventory.only !== undefined ? [] : [note],
      warnings: [],
    };
  }

  unwanted(object: ResourceKey, observed: Observed, { claims, rules }: SnapshotView): Unwanted | undefined {
    const rule = this.ruleSet.ownerOf(observed, object);
    if (rule === undefined || claims.book.claims(rule, object)) return undefined;
    const { kind, namespace, name } = parseRuleKey(rule);
    if (!this.#inventory.isListed(kind, namespace)) return undefined;
    const evaluation = rules.get(rule);
    return {
      owner: observed.annotations[MARK] ?? `${namespace}/${name}`,
      why: whyUnwanted(evaluation),
      because: evaluation?.refusal?.message ?? evaluation?.outOfReach?.message,
    };
  }

  unread({ rules }: SnapshotView): string | undefined {
    const isFar = [...rules.keys()].some((key) => controllerOf(key) === this.ruleSet.name && this.ruleSet.isFar(key));
    return isFar ? `Copies in other clusters (${NAMES.contexts}) are not read` : undefined;
  }
}
