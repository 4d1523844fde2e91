/** What the SyncSecrets of a tenant cluster mean: claims on copies in the management cluster. */
import { type Cause, nobodyCause, operatorCause, userCause } from '../../../copy/model/cause.ts';
import type { Shape } from '../../../copy/model/claim.ts';
import {
  namespaceOf,
  parseResourceKey,
  resourceKey,
  type ResourceKey,
  type RuleKey,
} from '../../../copy/model/keys.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import { isMarkedElsewhere } from '../../../copy/plan/marks.ts';
import { ORIGIN_LABELS } from '../api.ts';
import type { CopyStatus } from '../duties/copies.ts';
import { SYNC_SECRET } from './kind.ts';
import { ORIGIN_ANNOTATION, UNKNOWN_CLUSTER } from './marks.ts';
import { ccmDuty, type CcmDuty, type Zone } from './one-cluster.ts';
import type { SyncSecretRule } from './rule.ts';
import { CopyShape } from './shapes.ts';
import { copyState } from './status.ts';
import { SyncSecretRules, type SyncSecretRulesOptions } from './sync-secret-rule-set.ts';

export const CCM_CONTROLLER = 'syncsecret-ccm';

export interface CcmRulesOptions extends SyncSecretRulesOptions {
  /** Name of the management cluster. */
  readonly management: string;
  /** The namespace of the copies. */
  readonly namespace: string;
  /** Whose the SyncSecrets of a namespace are. */
  readonly zoneOf: (namespace: string) => Zone;
  /** The uid of the tenant cluster, for the marks. `undefined`: not read yet. */
  readonly clusterUid: () => string | undefined;
  readonly copyOf: (name: string) => CopyStatus | undefined;
}

/** Of a SyncSecret that may be a manager's: a copy stays as it is. */
const KEPT: Shape = {
  id: 'kept',
  desiredState: () => ({
    kind: 'wait',
    for: 'watch',
    ...operatorCause('Pending', 'whether the namespace is one of the management cluster is not known'),
  }),
  heldVersion: () => undefined,
};

export class CcmRules extends SyncSecretRules {
  readonly name = CCM_CONTROLLER;
  readonly #options: CcmRulesOptions;

  constructor(options: CcmRulesOptions) {
    super(options);
    this.#options = options;
  }

  /** What the management cluster has made of the copy. */
  problemOf(rule: RuleKey): Cause | undefined {
    const object = this.#options.store.get(rule);
    if (object === undefined || this.dutyOf(object) !== 'copy') return undefined;
    const copy = this.#options.copyOf(object.metadata.uid);
    // Before there is a copy, the outcome of the claim says more.
    if (copy === undefined) return undefined;
    const { phase, reason, message } = copyState(copy);
    if (phase === 'Synced') return undefined;
    // A status does not say whose fault a failure is. If it is the operator's, the manager's own metrics say so.
    return phase === 'Failed' ? userCause(reason, message) : nobodyCause(reason, message);
  }

  ownerOf({ annotations, labels }: Observed, target: ResourceKey): RuleKey | undefined {
    const { management, namespace, clusterUid, store } = this.#options;
    const place = parseResourceKey(target);
    if (place.cluster !== management || place.kind !== SYNC_SECRET.kind || place.namespace !== namespace) {
      return undefined;
    }
    if (isMarkedElsewhere(annotations, place)) return undefined;
    const mark = annotations[ORIGIN_ANNOTATION];
    if (mark !== undefined) {
      const [cluster, origin, name, ...rest] = mark.split('/');
      if (!origin || !name || rest.length > 0) return undefined;
      const rule = store.key(origin, name);
      const own = clusterUid();
      if (own === undefined || (cluster === own && own !== UNKNOWN_CLUSTER)) return rule;
      // Two tenant clusters of one name never touch each other's copies.
      if (cluster !== UNKNOWN_CLUSTER && own !== UNKNOWN_CLUSTER) return undefined;
      // Without the uid of the cluster, only the uid in the name of a copy shows whose it is.
      return store.get(rule)?.metadata.uid === place.name ? rule : undefined;
    }
    // A copy of KubeLB: its name is the uid of the SyncSecret that its labels name.
    const origin = labels[ORIGIN_LABELS.namespace] ?? labels[ORIGIN_LABELS.documentedNamespace];
    const name = labels[ORIGIN_LABELS.name];
    return origin === undefined || name === undefined ? undefined : store.key(origin, name);
  }

  orphanPolicy(rule: RuleKey, { annotations }: Observed): 'delete' | 'keep' {
    const { clusterUid, zoneOf } = this.#options;
    const own = clusterUid();
    if (zoneOf(namespaceOf(rule)) === 'unknown') return 'keep';
    const [cluster] = annotations[ORIGIN_ANNOTATION]?.split('/') ?? [];
    // Without the uid of the cluster, the copy may be that of another cluster of the same tenant name.
    return own !== undefined && own !== UNKNOWN_CLUSTER && cluster === own ? 'delete' : 'keep';
  }

  /** What the CCM has to do with a SyncSecret. */
  dutyOf(object: SyncSecretRule): CcmDuty {
    return ccmDuty(object, this.#options.zoneOf(object.metadata.namespace ?? ''));
  }

  protected isServed(_rule: RuleKey, object: SyncSecretRule): boolean {
    return this.dutyOf(object) !== 'none';
  }

  /** One that is no longer to be copied is released as if it were deleted. */
  isActive(object: SyncSecretRule): boolean {
    const duty = this.dutyOf(object);
    return duty === 'copy' || duty === 'keep';
  }

  protected targetOf({ metadata: { uid } }: SyncSecretRule): ResourceKey {
    const { management, namespace } = this.#options;
    return resourceKey(management, SYNC_SECRET.kind, namespace, uid);
  }

  protected shapeOf(rule: RuleKey, object: SyncSecretRule): Shape {
    if (this.dutyOf(object) === 'keep') return KEPT;
    const { metadata, immutable } = object;
    const { namespace = '', name } = metadata;
    const { travel, clusterUid } = this.#options;
    return new CopyShape(travel, rule, clusterUid() ?? UNKNOWN_CLUSTER, { namespace, name, immutable });
  }
}
