/**
 * What SyncSecrets mean, for CCM and manager: each has one claim, from itself to its one target, and is released when it is deleted. The roles
 * differ in the target, its shape and its marks. See `RuleSet`.
 */
import type { Shape } from '../../../copy/model/claim.ts';
import { resourceKey, type ResourceKey, type RuleKey } from '../../../copy/model/keys.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import type { Evaluation, RuleSet } from '../../../copy/model/rule-set.ts';
import type { Steps } from '../../../runtime/queue/slices.ts';
import type { RuleStore } from '../../common/rules/rule-store.ts';
import { SYNC_SECRET_KIND } from '../api.ts';
import { SYNC_SECRET } from './kind.ts';
import { ruleVersion, type SyncSecretRule } from './rule.ts';
import type { Travel } from './travel.ts';

export interface SyncSecretRulesOptions {
  /** Name of the cluster of the SyncSecrets. */
  readonly cluster: string;
  readonly store: Pick<RuleStore<SyncSecretRule>, 'get' | 'key'>;
  readonly travel: Travel;
}

export abstract class SyncSecretRules implements RuleSet {
  abstract readonly name: string;
  readonly #options: SyncSecretRulesOptions;

  constructor(options: SyncSecretRulesOptions) {
    this.#options = options;
  }

  abstract ownerOf(observed: Observed, target: ResourceKey): RuleKey | undefined;
  abstract orphanPolicy(rule: RuleKey, observed: Observed): 'delete' | 'keep';
  /** Whether a SyncSecret is to be copied. Otherwise it is released. */
  abstract isActive(object: SyncSecretRule): boolean;

  /** Whether the controller has to do with a SyncSecret now. */
  protected abstract isServed(rule: RuleKey, object: SyncSecretRule): boolean;
  protected abstract targetOf(object: SyncSecretRule): ResourceKey;
  protected abstract shapeOf(rule: RuleKey, object: SyncSecretRule): Shape;

  // eslint-disable-next-line require-yield -- nothing here takes long
  *evaluate(rule: RuleKey): Steps<Evaluation | undefined> {
    const { store, cluster } = this.#options;
    const object = store.get(rule);
    if (object === undefined || !this.isServed(rule, object)) return undefined;
    const { namespace = '', name, uid, generation: sourceGeneration, creationTimestamp } = object.metadata;
    const title = `${SYNC_SECRET_KIND} ${namespace}/${name}`;
    const owner = { key: rule, title, rank: `${creationTimestamp} ${uid}` };
    const target = this.targetOf(object);
    const shape = this.shapeOf(rule, object);
    const common = { owner, version: ruleVersion(object), sources: [] };
    if (!this.isActive(object)) {
      return { ...common, claims: [{ owner, mode: 'release', target, source: undefined, shape }] };
    }
    const source = resourceKey(cluster, SYNC_SECRET.kind, namespace, name);
    return { ...common, claims: [{ owner, target, mode: 'own', source, isRuleSource: true, sourceGeneration, shape }] };
  }
}
