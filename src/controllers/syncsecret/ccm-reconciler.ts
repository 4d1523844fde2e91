/** Turns the SyncSecrets of a tenant cluster into claims on copies in the management cluster, and writes the status of the whole chain. */
import { type Cause, nobodyCause, operatorCause, userCause } from '../../copy/model/cause.ts';
import type { Shape } from '../../copy/model/claim.ts';
import { namespaceOf, parseResourceKey, resourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import type { Observed } from '../../copy/model/observed.ts';
import { isMarkedElsewhere } from '../../copy/plan/marks.ts';
import type { Preparation } from '../../copy/rule-reconciler.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import { finalizerStep } from '../common/finalizer.ts';
import { ORIGIN_LABELS, SYNC_SECRET_FINALIZER } from './api.ts';
import type { CopyStatus } from './copies.ts';
import { SYNC_SECRET } from './kind.ts';
import { ORIGIN_ANNOTATION, PROPAGATED_ANNOTATION, UNKNOWN_CLUSTER } from './marks.ts';
import { ccmDuty, type CcmDuty, type Zone } from './one-cluster.ts';
import type { SyncSecretRule } from './rule.ts';
import { CopyShape } from './shapes.ts';
import { copyState, tenantState } from './status.ts';
import { type Progress, SyncSecretReconciler, type SyncSecretReconcilerOptions } from './sync-secret-reconciler.ts';

export const CCM_CONTROLLER = 'syncsecret-ccm';

export interface CcmReconcilerOptions extends SyncSecretReconcilerOptions {
  /** Name of the management cluster. */
  readonly management: string;
  /** The namespace of the copies. */
  readonly namespace: string;
  /** Whose the SyncSecrets of a namespace are. */
  readonly zoneOf: (namespace: string) => Zone;
  /** The uid of the tenant cluster, for the marks. `undefined`: not read yet. */
  readonly clusterUid: () => string | undefined;
  readonly copyOf: (name: string) => CopyStatus | undefined;
  /** Why the management cluster cannot be used. */
  readonly unreachable: () => Cause | undefined;
  /** A SyncSecret has the mark of another management namespace again, after it had ours: another CCM copies it, too. */
  readonly onOtherCcm: (object: SyncSecretRule) => void;
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

export class CcmReconciler extends SyncSecretReconciler {
  readonly name = CCM_CONTROLLER;
  readonly #options: CcmReconcilerOptions;
  /** Whose mark named another namespace, and was replaced: the uids. */
  readonly #remarked = new Map<RuleKey, string>();

  constructor(options: CcmReconcilerOptions) {
    super(options, {
      target: 'its copy in the management cluster',
      // A manager in this cluster serves it from now on, but not while it is being deleted.
      marksOf: ({ metadata, propagated }) =>
        metadata.deletionTimestamp === undefined && propagated !== undefined ? [PROPAGATED_ANNOTATION] : [],
      unreachable: options.unreachable,
    });
    this.#options = options;
  }

  /** What the management cluster has made of the copy. */
  problemOf(rule: RuleKey): Cause | undefined {
    const object = this.#options.syncSecrets.store.get(rule);
    if (object === undefined || this.#dutyOf(object) !== 'copy') return undefined;
    const copy = this.#options.copyOf(object.metadata.uid);
    // Before there is a copy, the outcome of the claim says more.
    if (copy === undefined) return undefined;
    const { phase, reason, message } = copyState(copy);
    if (phase === 'Synced') return undefined;
    // A status does not say whose fault a failure is. If it is the operator's, the manager's own metrics say so.
    return phase === 'Failed' ? userCause(reason, message) : nobodyCause(reason, message);
  }

  /** The mark is written with the finalizer, and replaced where it names another namespace: a tenant may have been renamed. */
  preparationOf(rule: RuleKey): Preparation | undefined {
    const { syncSecrets, namespace } = this.#options;
    const object = syncSecrets.store.get(rule);
    if (object === undefined || this.#dutyOf(object) !== 'copy') return undefined;
    if (finalizerStep(object.metadata, SYNC_SECRET_FINALIZER) === 'add') return 'first';
    if (object.propagated === namespace) return undefined;
    return object.propagated === undefined || this.#remarked.get(rule) !== object.metadata.uid ? 'first' : undefined;
  }

  async prepare(rule: RuleKey, signal: AbortSignal): Promise<void> {
    const { syncSecrets, namespace } = this.#options;
    const object = syncSecrets.store.get(rule);
    if (object === undefined || this.#dutyOf(object) !== 'copy') return;
    await syncSecrets.addFinalizer(rule, { [PROPAGATED_ANNOTATION]: namespace }, signal);
    if (object.propagated !== undefined && object.propagated !== namespace)
      this.#remarked.set(rule, object.metadata.uid);
  }

  override async updateStatus(
    ...args: Parameters<SyncSecretReconciler['updateStatus']>
  ): Promise<RunResult | undefined> {
    const [rule] = args;
    const { syncSecrets, namespace, onOtherCcm } = this.#options;
    const object = syncSecrets.store.get(rule);
    if (object === undefined) this.#remarked.delete(rule);
    // The other name came back, so it is that of a CCM that runs: without an end, each would replace the mark.
    else if (this.#remarked.get(rule) === object.metadata.uid && object.propagated !== namespace) onOtherCcm(object);
    return await super.updateStatus(...args);
  }

  ownerOf({ annotations, labels }: Observed, target: ResourceKey): RuleKey | undefined {
    const { management, namespace, clusterUid, syncSecrets } = this.#options;
    const place = parseResourceKey(target);
    if (place.cluster !== management || place.kind !== SYNC_SECRET.kind || place.namespace !== namespace) {
      return undefined;
    }
    if (isMarkedElsewhere(annotations, place)) return undefined;
    const mark = annotations[ORIGIN_ANNOTATION];
    if (mark !== undefined) {
      const [cluster, origin, name, ...rest] = mark.split('/');
      if (!origin || !name || rest.length > 0) return undefined;
      const rule = syncSecrets.store.key(origin, name);
      const own = clusterUid();
      if (own === undefined || (cluster === own && own !== UNKNOWN_CLUSTER)) return rule;
      // Two tenant clusters of one name never touch each other's copies.
      if (cluster !== UNKNOWN_CLUSTER && own !== UNKNOWN_CLUSTER) return undefined;
      // Without the uid of the cluster, only the uid in the name of a copy shows whose it is.
      return syncSecrets.store.get(rule)?.metadata.uid === place.name ? rule : undefined;
    }
    // A copy of KubeLB: its name is the uid of the SyncSecret that its labels name.
    const origin = labels[ORIGIN_LABELS.namespace] ?? labels[ORIGIN_LABELS.documentedNamespace];
    const name = labels[ORIGIN_LABELS.name];
    return origin === undefined || name === undefined ? undefined : syncSecrets.store.key(origin, name);
  }

  orphanPolicy(rule: RuleKey, { annotations }: Observed): 'delete' | 'keep' {
    const { clusterUid, zoneOf } = this.#options;
    const own = clusterUid();
    if (zoneOf(namespaceOf(rule)) === 'unknown') return 'keep';
    const [cluster] = annotations[ORIGIN_ANNOTATION]?.split('/') ?? [];
    // Without the uid of the cluster, the copy may be that of another cluster of the same tenant name.
    return own !== undefined && own !== UNKNOWN_CLUSTER && cluster === own ? 'delete' : 'keep';
  }

  #dutyOf(object: SyncSecretRule): CcmDuty {
    return ccmDuty(object, this.#options.zoneOf(object.metadata.namespace ?? ''));
  }

  protected isServed(_rule: RuleKey, object: SyncSecretRule): boolean {
    return this.#dutyOf(object) !== 'none';
  }

  /** One that is no longer to be copied is released as if it were deleted. */
  protected isActive(object: SyncSecretRule): boolean {
    const duty = this.#dutyOf(object);
    return duty === 'copy' || duty === 'keep';
  }

  protected targetOf({ metadata: { uid } }: SyncSecretRule): ResourceKey {
    const { management, namespace } = this.#options;
    return resourceKey(management, SYNC_SECRET.kind, namespace, uid);
  }

  protected shapeOf(rule: RuleKey, object: SyncSecretRule): Shape {
    if (this.#dutyOf(object) === 'keep') return KEPT;
    const { metadata, immutable } = object;
    const { namespace = '', name } = metadata;
    const { travel, clusterUid } = this.#options;
    return new CopyShape(travel, rule, clusterUid() ?? UNKNOWN_CLUSTER, { namespace, name, immutable });
  }

  protected async report(
    rule: RuleKey,
    object: SyncSecretRule,
    { outcome, failure }: Progress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { syncSecrets, metrics, copyOf, unreachable, monotonic } = this.#options;
    // If it is the manager's, the status is too.
    if (this.#dutyOf(object) === 'keep') return undefined;
    const state = tenantState({ outcome, failure, unreachable: unreachable(), copy: copyOf(object.metadata.uid) });
    if (failure !== undefined || outcome?.state === 'error' || outcome?.state === 'conflict') {
      metrics?.finished(rule, 'error');
    } else if (outcome?.state === 'synced') {
      metrics?.finished(rule, 'success');
    }
    if (state.phase === 'Pending') {
      const waitMs = this.pending.waitMs(rule, state.reason === 'Pending', monotonic());
      if (waitMs > 0) return { requeueAfterMs: waitMs };
    } else {
      this.pending.done(rule, monotonic());
    }
    return await syncSecrets.writeStatus(rule, state, signal);
  }
}
