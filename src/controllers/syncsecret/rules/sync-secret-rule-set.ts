/**
 * Turns SyncSecrets into claims, for CCM and manager (see `RuleSet`). Each SyncSecret claims one target: for the CCM a
 * copy in the management cluster, for the manager a Secret in its namespace. A deleted SyncSecret releases its target.
 */
import { because, type Cause, nobodyCause, userCause } from '../../../copy/model/cause.ts';
import { LeaveShape, type Owner, rankOf, type Shape } from '../../../copy/model/claim.ts';
import {
  namespaceOf,
  parseResourceKey,
  resourceKey,
  type ResourceKey,
  type RuleKey,
} from '../../../copy/model/keys.ts';
import { type Kind, SECRET } from '../../../copy/model/kind.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import type { Evaluation, Mark, RuleSet } from '../../../copy/model/rule-set.ts';
import type { KubeObject } from '../../../kube/api.ts';
import type { RuleScope } from '../../common/context.ts';
import type { RuleStore } from '../../../copy/engine/life/rule-store.ts';
import { ORIGIN_LABELS, SYNC_SECRET, SYNC_SECRET_FINALIZER } from '../api.ts';
import { ORIGIN_ANNOTATION, OWNER_ANNOTATION, UNKNOWN_CLUSTER } from './marks.ts';
import type { IsServed } from './one-cluster.ts';
import { ruleVersion, type SyncSecretRule } from './rule.ts';
import { CopyShape, SecretShape } from '../shape.ts';
import { type CopyStatus, copyState } from '../words.ts';
import { Travel } from './travel.ts';

export const CCM_CONTROLLER = 'syncsecret-ccm';
export const MANAGER_CONTROLLER = 'syncsecret-manager';

/** The control plane writes a token into each Secret of this type. So Keyferry makes one of type Opaque instead. */
const TOKEN_TYPE = 'kubernetes.io/service-account-token';

export interface SyncSecretRulesOptions {
  readonly store: Pick<RuleStore<SyncSecretRule>, 'get' | 'key'>;
}

export abstract class SyncSecretRules<
  Options extends SyncSecretRulesOptions = SyncSecretRulesOptions,
> implements RuleSet {
  abstract readonly name: string;
  readonly options: Options;
  protected readonly scope: RuleScope;
  protected readonly travel: Travel;

  constructor(scope: RuleScope, options: Options) {
    this.scope = scope;
    this.options = options;
    this.travel = new Travel(scope.config.syncsecret);
  }

  abstract markOn(observed: Observed, target: ResourceKey): Mark | undefined;
  abstract orphanPolicy(rule: RuleKey, observed: Observed): 'delete' | 'keep';

  protected abstract targetOf(object: SyncSecretRule): ResourceKey;
  protected abstract shapeOf(rule: RuleKey, object: SyncSecretRule): Shape;

  evaluate(rule: RuleKey): Evaluation | undefined {
    const object = this.options.store.get(rule);
    if (object === undefined) return undefined;
    const isReleased = object.metadata.deletionTimestamp !== undefined;
    const claimed = { target: this.targetOf(object), shape: this.shapeOf(rule, object), isReleased };
    return oneClaim(this.scope, { key: rule, kind: SYNC_SECRET, object, version: ruleVersion(object) }, claimed);
  }
}

/** The evaluation of a rule with one claim. The rule's object is its source, except if the target is released. */
export function oneClaim(
  { cluster, reach }: RuleScope,
  rule: { readonly key: RuleKey; readonly kind: Kind; readonly object: KubeObject; readonly version: string },
  { target, shape, isReleased }: { readonly target: ResourceKey; readonly shape: Shape; readonly isReleased: boolean },
): Evaluation {
  const { key, kind, version } = rule;
  const { namespace = '', name, uid, creationTimestamp, generation: sourceGeneration } = rule.object.metadata;
  const owner: Owner = { key, title: `${kind.kind} ${namespace}/${name}`, rank: rankOf(creationTimestamp, uid) };
  if (isReleased) {
    const claim = { owner, mode: 'release', source: undefined, shape } as const;
    return { owner, version, sources: [], claims: [{ target, claim }] };
  }
  const source = resourceKey(cluster, kind.kind, namespace, name);
  const to = parseResourceKey(target).namespace;
  // If a limit refuses the copy, an existing copy stays: the tenant cannot know the administrator's limits, and has no
  // other copy. The namespace needs no annotation of consent, because it exists for the tenant.
  const refusal = reach.fromRefusal(namespace, undefined) ?? reach.toRefusal(to, to, undefined);
  const allowed = refusal === undefined ? shape : new LeaveShape(refusal);
  const claim = { owner, mode: 'own', source, isRuleSource: true, sourceGeneration, shape: allowed } as const;
  return { owner, version, sources: [], claims: [{ target, claim }] };
}

export interface CcmRulesOptions extends SyncSecretRulesOptions {
  /** Name of the management cluster. */
  readonly management: string;
  /** The namespace of the copies. */
  readonly namespace: string;
  /** The uid of the tenant cluster, for marks; `undefined`: not read yet. */
  readonly clusterUid: () => string | undefined;
  readonly copyOf: (name: string) => CopyStatus | undefined;
}

/**
 * The shape for a SyncSecret without the finalizer. Without rights on kube-system, the CCM does not know in the other
 * cluster which orphans are its own, and keeps them. So it makes no copy before the finalizer is there.
 */
const NOT_HELD: Shape = {
  id: 'not held',
  desiredState: () => ({
    kind: 'wait',
    for: 'watch',
    ...because('Pending', 'the finalizer of the SyncSecret is being written'),
  }),
  heldVersion: () => undefined,
};

/** The rules of the CCM: SyncSecrets of a tenant cluster, with copies in the management cluster as targets. */
export class CcmRules extends SyncSecretRules<CcmRulesOptions> {
  readonly name = CCM_CONTROLLER;

  /** The problem in the status of the copy; `undefined`: none, or there is no copy. */
  problemOf(rule: RuleKey): Cause | undefined {
    const object = this.options.store.get(rule);
    if (object === undefined || object.metadata.deletionTimestamp !== undefined) return undefined;
    const copy = this.options.copyOf(object.metadata.uid);
    // Without a copy, the outcome of the claim explains more.
    if (copy === undefined) return undefined;
    const { phase, reason, message } = copyState(copy);
    if (phase === 'Synced') return undefined;
    // The status does not say whose fault a failure is. If an administrator must act, the manager's metrics show that.
    return phase === 'Failed' ? userCause(reason, message) : nobodyCause(reason, message);
  }

  markOn(observed: Observed, target: ResourceKey): Mark | undefined {
    const rule = this.#ruleIn(observed, target);
    return rule && { rule };
  }

  #ruleIn({ annotations, labels }: Observed, target: ResourceKey): RuleKey | undefined {
    const { management, namespace, clusterUid, store } = this.options;
    const place = parseResourceKey(target);
    if (place.cluster !== management || place.kind !== SYNC_SECRET.kind || place.namespace !== namespace) {
      return undefined;
    }
    const mark = annotations[ORIGIN_ANNOTATION];
    if (mark !== undefined) {
      const [cluster, origin, name, ...rest] = mark.split('/');
      if (!origin || !name || rest.length > 0) return undefined;
      const rule = store.key(origin, name);
      const own = clusterUid();
      if (own === undefined || (cluster === own && own !== UNKNOWN_CLUSTER)) return rule;
      // The mark has the uid of another tenant cluster with the same --cluster-name, which owns this copy.
      if (cluster !== UNKNOWN_CLUSTER && own !== UNKNOWN_CLUSTER) return undefined;
      // If a uid is unknown, the copy's name decides: it is the uid of its SyncSecret.
      return store.get(rule)?.metadata.uid === place.name ? rule : undefined;
    }
    // A copy of KubeLB: its labels name the SyncSecret, and its name is the uid of that SyncSecret.
    const origin = labels[ORIGIN_LABELS.namespace] ?? labels[ORIGIN_LABELS.documentedNamespace];
    const name = labels[ORIGIN_LABELS.name];
    return origin === undefined || name === undefined ? undefined : store.key(origin, name);
  }

  orphanPolicy(_rule: RuleKey, { annotations }: Observed): 'delete' | 'keep' {
    const own = this.options.clusterUid();
    const [cluster] = annotations[ORIGIN_ANNOTATION]?.split('/') ?? [];
    // If the uid in the mark is missing or another one, the copy may belong to another cluster of the same name.
    return own !== undefined && own !== UNKNOWN_CLUSTER && cluster === own ? 'delete' : 'keep';
  }

  protected targetOf({ metadata: { uid } }: SyncSecretRule): ResourceKey {
    const { management, namespace } = this.options;
    return resourceKey(management, SYNC_SECRET.kind, namespace, uid);
  }

  protected shapeOf(rule: RuleKey, object: SyncSecretRule): Shape {
    const { metadata, immutable } = object;
    const isHeld = metadata.finalizers.includes(SYNC_SECRET_FINALIZER);
    if (!isHeld && metadata.deletionTimestamp === undefined) return NOT_HELD;
    const { namespace = '', name } = metadata;
    const cluster = this.options.clusterUid() ?? UNKNOWN_CLUSTER;
    return new CopyShape(rule, this.travel, { cluster, namespace, name, immutable });
  }
}

export interface ManagerRulesOptions extends SyncSecretRulesOptions {
  readonly isServed: IsServed;
}

/** The rules of the manager: SyncSecrets of the management cluster, with Secrets as targets. */
export class ManagerRules extends SyncSecretRules<ManagerRulesOptions> {
  readonly name = MANAGER_CONTROLLER;

  markOn({ annotations, owners }: Observed, target: ResourceKey): Mark | undefined {
    const place = parseResourceKey(target);
    if (place.cluster !== this.scope.cluster || place.kind !== SECRET.kind) return undefined;
    const name = annotations[OWNER_ANNOTATION] ?? ownerByUid(owners, place.name);
    return name === undefined ? undefined : { rule: this.options.store.key(place.namespace, name) };
  }

  /** If `--served-namespaces` no longer includes a namespace, the Secrets there are kept. */
  orphanPolicy(rule: RuleKey): 'delete' | 'keep' {
    return this.options.isServed(namespaceOf(rule)) ? 'delete' : 'keep';
  }

  protected targetOf({ metadata: { namespace = '', uid } }: SyncSecretRule): ResourceKey {
    return resourceKey(this.scope.cluster, SECRET.kind, namespace, uid);
  }

  protected shapeOf(_rule: RuleKey, object: SyncSecretRule): SecretShape {
    const { metadata, immutable } = object;
    const { name, uid } = metadata;
    return new SecretShape(this.travel, { name, uid, immutable, originalType: originalTypeOf(object) });
  }
}

/** The type of a SyncSecret whose Secret gets another type; `undefined`: the Secret gets the same type. */
export function originalTypeOf({ type }: SyncSecretRule): string | undefined {
  return type === TOKEN_TYPE ? type : undefined;
}

/** The SyncSecret in the owner reference with this uid. KubeLB gives a Secret this reference, and the uid as name. */
function ownerByUid(owners: string | undefined, uid: string): string | undefined {
  for (const line of owners?.split('\n') ?? []) {
    const [apiVersion, kind, name, ownerUid] = line.split(' ');
    if (apiVersion === SYNC_SECRET.apiVersion && kind === SYNC_SECRET.kind && ownerUid === uid) return name;
  }
  return undefined;
}
