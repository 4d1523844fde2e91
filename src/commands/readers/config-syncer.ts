/** Reads objects with annotations of config-syncer for `status`, `plan` and `explain`. */
import { ConfigSyncerRules } from '../../controllers/config-syncer/rules.ts';
import { MARK, NAMES, originIn } from '../../controllers/config-syncer/words.ts';
import type { RuleScope } from '../../controllers/common/context.ts';
import { controllerOf, parseRuleKey, type RuleKey } from '../../copy/model/keys.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Evaluation } from '../../copy/model/rule-set.ts';
import type { Inventory } from '../snapshot/inventory.ts';
import type { Description, SnapshotView, Unwanted } from '../snapshot/reader.ts';
import { AnnotatedReader, listedObjects, type ReadRule, whyUnwanted } from './annotated.ts';

export class ConfigSyncerReader extends AnnotatedReader<ConfigSyncerRules> {
  readonly versionIn = (text: string): string | undefined => originIn({ [NAMES.origin]: text })?.resourceVersion;

  constructor(inventory: Inventory, scope: RuleScope) {
    super(inventory, new ConfigSyncerRules(scope, listedObjects(inventory, scope.cluster)), NAMES.origin);
  }

  protected described(rule: ReadRule, { claims }: SnapshotView): Description {
    const { key, annotations, kind, namespace, name } = rule;
    return {
      source: `${kind.toLowerCase()} ${namespace}/${name}`,
      destinations: annotations[NAMES.sync] === undefined ? [] : [annotations[NAMES.sync] || 'every namespace'],
      state: () => this.stateOf(rule, claims.book.of(key), true, undefined),
    };
  }

  protected left(rule: RuleKey, { annotations }: Observed, evaluation: Evaluation | undefined): Unwanted {
    const { namespace, name } = parseRuleKey(rule);
    return {
      owner: annotations[MARK] ?? `${namespace}/${name}`,
      why: whyUnwanted(evaluation),
      because: evaluation?.refusal?.message ?? evaluation?.outOfReach?.message,
    };
  }

  unread({ rules }: SnapshotView): string | undefined {
    const isFar = [...rules.keys()].some((key) => controllerOf(key) === this.ruleSet.name && this.ruleSet.isFar(key));
    return isFar ? `Copies in other clusters (${NAMES.contexts}) are not read` : undefined;
  }
}
