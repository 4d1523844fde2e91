/** Turns the SyncSecrets of a tenant cluster into claims on copies in the management cluster, and writes the status of the whole chain. */
import { type Cause, SYNCED } from '../../copy/model/claim.ts';
import { parseResourceKey, resourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import type { Observed } from '../../copy/model/observed.ts';
import { isMarkedElsewhere } from '../../copy/plan/marks.ts';
import { orAborted } from '../../runtime/abort.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import { ORIGIN_LABELS, SYNC_SECRET_FINALIZER } from './api.ts';
import type { CopyStatus } from './copies.ts';
import { SYNC_SECRET } from './kind.ts';
import { ORIGIN_ANNOTATION, PROPAGATED_ANNOTATION, UNKNOWN_CLUSTER } from './marks.ts';
import type { ManagementNamespaces } from './one-cluster.ts';
import type { SyncSecretRule } from './rule.ts';
import { CopyShape } from './shapes.ts';
import { tenantState } from './status.ts';
import { type Progress, SyncSecretReconciler, type SyncSecretReconcilerOptions } from './sync-secret-reconciler.ts';

export const CCM_CONTROLLER = 'syncsecret-ccm';

export interface CcmReconcilerOptions extends SyncSecretReconcilerOptions {
  /** Name of the management cluster. */
  readonly management: string;
  /** The namespace of the copies. */
  readonly namespace: string;
  readonly managementNamespaces: ManagementNamespaces;
  /** The uid of the tenant cluster, for the marks. `undefined`: not read yet. */
  readonly clusterUid: () => string | undefined;
  readonly copyOf: (name: string) => CopyStatus | undefined;
  /** Why the management cluster cannot be used. */
  readonly unreachable: () => Cause | undefined;
  /** A SyncSecret has the mark of another management namespace again, after it had ours: another CCM copies it, too. */
  readonly onOtherCcm: (object: SyncSecretRule) => void;
}

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
    if (object === undefined || !this.isActive(object)) return undefined;
    const copy = this.#options.copyOf(object.metadata.uid);
    // Before there is a copy, the outcome of the claim says more.
    if (copy === undefined) return undefined;
    const state = tenantState({ outcome: SYNCED, failure: undefined, unreachable: undefined, copy });
    return state.phase === 'Synced' ? undefined : state;
  }

  async prepare(rule: RuleKey, signal: AbortSignal): Promise<undefined> {
    const { syncSecrets, synced, namespace } = this.#options;
    await orAborted(synced(), signal, 'waiting for the list of SyncSecrets');
    const object = syncSecrets.store.get(rule);
    if (object === undefined || !this.isActive(object)) return;
    const { propagated, metadata } = object;
    const hasFinalizer = metadata.finalizers.includes(SYNC_SECRET_FINALIZER);
    if (hasFinalizer && propagated === namespace) return;
    // A tenant may have been renamed. If the other name comes back, it is that of a CCM that runs: without an end, each would replace the mark.
    const isForeign = propagated !== undefined && propagated !== namespace;
    if (hasFinalizer && isForeign && this.#remarked.get(rule) === metadata.uid) {
      this.#options.onOtherCcm(object);
      return;
    }
    await syncSecrets.addFinalizer(rule, { [PROPAGATED_ANNOTATION]: namespace }, signal);
    if (isForeign) this.#remarked.set(rule, metadata.uid);
  }

  override async updateStatus(
    ...args: Parameters<SyncSecretReconciler['updateStatus']>
  ): Promise<RunResult | undefined> {
    const [rule] = args;
    if (this.#options.syncSecrets.store.get(rule) === undefined) this.#remarked.delete(rule);
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

  orphanPolicy(_rule: RuleKey, { annotations }: Observed): 'delete' | 'keep' {
    const [cluster] = annotations[ORIGIN_ANNOTATION]?.split('/') ?? [];
    // Without the uid of the cluster, the copy may be that of another cluster of the same tenant name.
    return cluster === this.#options.clusterUid() && cluster !== UNKNOWN_CLUSTER ? 'delete' : 'keep';
  }

  protected isServed(_rule: RuleKey, object: SyncSecretRule): boolean {
    return this.#options.managementNamespaces.concerns(object);
  }

  /** One that is no longer to be copied is released as if it were deleted. */
  protected isActive(object: SyncSecretRule): boolean {
    return object.metadata.deletionTimestamp === undefined && this.#options.managementNamespaces.isToBeCopied(object);
  }

  protected targetOf({ metadata: { uid } }: SyncSecretRule): ResourceKey {
    const { management, namespace } = this.#options;
    return resourceKey(management, SYNC_SECRET.kind, namespace, uid);
  }

  protected shapeOf(rule: RuleKey, { metadata: { namespace = '', name }, immutable }: SyncSecretRule): CopyShape {
    return new CopyShape(rule, this.#options.clusterUid() ?? UNKNOWN_CLUSTER, namespace, name, immutable);
  }

  protected async report(
    rule: RuleKey,
    object: SyncSecretRule,
    { outcome, failure }: Progress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { syncSecrets, metrics, copyOf, unreachable, now } = this.#options;
    const state = tenantState({ outcome, failure, unreachable: unreachable(), copy: copyOf(object.metadata.uid) });
    if (failure !== undefined || outcome?.state === 'error' || outcome?.state === 'conflict') {
      metrics?.finished(rule, 'error');
    } else if (outcome?.state === 'synced') {
      metrics?.finished(rule, 'success');
    }
    if (state.phase === 'Pending') {
      const waitMs = this.pending.waitMs(rule, state.reason === 'Pending', now());
      if (waitMs > 0) return { requeueAfterMs: waitMs };
    } else {
      this.pending.done(rule, now());
    }
    await syncSecrets.writeStatus(rule, state, signal);
    return undefined;
  }
}
