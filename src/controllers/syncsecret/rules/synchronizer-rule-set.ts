/** Turns labelled Secrets into claims (see `RuleSet`): each Secret claims the SyncSecret with its name. */
import { parseResourceKey, resourceKey, type ResourceKey, type RuleKey } from '../../../copy/model/keys.ts';
import { SECRET } from '../../../copy/model/kind.ts';
import { COPY_LABEL, type Observed } from '../../../copy/model/observed.ts';
import type { Evaluation, Mark, RuleSet } from '../../../copy/model/rule-set.ts';
import type { KubeObject, ObjectMeta } from '../../../kube/api.ts';
import type { RuleScope } from '../../common/context.ts';
import type { RuleStore } from '../../../copy/engine/life/rule-store.ts';
import { MANAGED_BY_KUBELB, MANAGED_BY_LABEL, ORIGIN_LABELS, ORIGINAL_FINALIZER, SYNC_SECRET } from '../api.ts';
import { COPY_OF_SYNC_SECRET, originOf, SECRET_ANNOTATION } from './marks.ts';
import { ManifestShape } from '../shape.ts';
import { oneClaim } from './sync-secret-rule-set.ts';
import { Travel } from './travel.ts';

export const SYNCHRONIZER_CONTROLLER = 'syncsecret-synchronizer';

/** The part of a Secret that Keyferry keeps as a rule. It has no values. */
export interface SecretRule {
  readonly metadata: Pick<
    ObjectMeta,
    'name' | 'namespace' | 'uid' | 'resourceVersion' | 'creationTimestamp' | 'finalizers'
  >;
  readonly immutable: boolean;
  /** The Secret is being deleted, and KubeLB's finalizer keeps it. Its SyncSecret goes first. */
  readonly isReleased: boolean;
}

/** The rule of a Secret; `undefined`: it is not offered, or its deletion waits for nothing of KubeLB. */
export function secretRule(object: KubeObject & { readonly immutable?: boolean }): SecretRule | undefined {
  const { metadata, immutable } = object;
  const { name, namespace, uid, resourceVersion, creationTimestamp, deletionTimestamp, finalizers, labels } = metadata;
  const isLabelled = labels?.[MANAGED_BY_LABEL] === MANAGED_BY_KUBELB;
  const hasFinalizer = finalizers?.includes(ORIGINAL_FINALIZER) === true;
  const isReleased = deletionTimestamp !== undefined;
  if (!isLabelled || isOfManager(metadata) || (isReleased && !hasFinalizer)) return undefined;
  return {
    metadata: {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      uid,
      resourceVersion,
      creationTimestamp,
      ...(hasFinalizer ? { finalizers } : {}),
    },
    immutable: immutable === true,
    isReleased,
  };
}

/** Whether a manager made this Secret of a SyncSecret. KubeLB copies all labels, even the one that offers a Secret. */
function isOfManager(metadata: ObjectMeta): boolean {
  const { name, namespace = '', labels = {}, ownerReferences = [] } = metadata;
  if (labels[COPY_LABEL] === COPY_OF_SYNC_SECRET || originOf({ name, namespace, labels }) === 'another') return true;
  return ownerReferences.some(({ kind, uid }) => kind === SYNC_SECRET.kind && uid === name);
}

/** A text that changes when the claims of a Secret may change. */
export function secretVersion({ metadata: { uid, finalizers }, immutable, isReleased }: SecretRule): string {
  return `${uid} ${immutable} ${isReleased} ${finalizers?.join(',') ?? ''}`;
}

export class SynchronizerRules implements RuleSet {
  readonly name = SYNCHRONIZER_CONTROLLER;
  readonly #scope: RuleScope;
  readonly #secrets: RuleStore<SecretRule>;
  readonly #travel: Travel;

  constructor(scope: RuleScope, secrets: RuleStore<SecretRule>) {
    this.#scope = scope;
    this.#secrets = secrets;
    this.#travel = new Travel(scope.config.syncsecret);
  }

  evaluate(rule: RuleKey): Evaluation | undefined {
    const object = this.#secrets.get(rule);
    if (object === undefined) return undefined;
    const { immutable, isReleased } = object;
    const { namespace = '', name } = object.metadata;
    const target = resourceKey(this.#scope.cluster, SYNC_SECRET.kind, namespace, name);
    const shape = new ManifestShape(this.#travel, { namespace, name, immutable });
    const ruleObject = { key: rule, kind: SECRET, object, version: secretVersion(object) };
    return oneClaim(this.#scope, ruleObject, { target, shape, isReleased });
  }

  markOn({ annotations, labels }: Observed, target: ResourceKey): Mark | undefined {
    const place = parseResourceKey(target);
    if (place.cluster !== this.#scope.cluster || place.kind !== SYNC_SECRET.kind) return undefined;
    const isOurs = annotations[SECRET_ANNOTATION] === place.name;
    // KubeLB made this SyncSecret: its origin labels name itself.
    const isOriginals = labels[ORIGIN_LABELS.name] !== undefined && originOf({ ...place, labels }) === 'itself';
    return isOurs || isOriginals ? { rule: this.#secrets.key(place.namespace, place.name) } : undefined;
  }

  orphanPolicy(_rule: RuleKey, { annotations }: Observed): 'delete' | 'keep' {
    return annotations[SECRET_ANNOTATION] === undefined ? 'keep' : 'delete';
  }
}
