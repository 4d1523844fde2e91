/** Turns the SyncSecrets of a tenant cluster into claims on copies in the management cluster, and writes the status of the whole chain. */
import type { Cause } from '../../copy/model/claim.ts';
import { parseResourceKey, resourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Entry } from '../../copy/plan/claim-book.ts';
import { isMarkedElsewhere } from '../../copy/plan/marks.ts';
import type { EngineView, Evaluation, RuleProgress, RuleReconciler } from '../../copy/rule-reconciler.ts';
import { orAborted } from '../../runtime/abort.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import type { Steps } from '../../runtime/slices.ts';
import { liveRules } from '../common/live-rules.ts';
import { ORIGIN_LABELS, SYNC_SECRET_FINALIZER, SYNC_SECRET_KIND } from './api.ts';
import type { CopyStatus } from './copies.ts';
import { Deletions } from './deletion.ts';
import { SYNC_SECRET } from './kind.ts';
import { ORIGIN_ANNOTATION, PROPAGATED_ANNOTATION, UNKNOWN_CLUSTER } from './marks.ts';
import type { SyncSecretMetrics } from './metrics.ts';
import type { ManagementNamespaces } from './one-cluster.ts';
import { Pending } from './pending.ts';
import { ruleVersion, type SyncSecretRule } from './rule.ts';
import { CopyShape } from './shapes.ts';
import { tenantState } from './status.ts';
import type { SyncSecrets } from './sync-secrets.ts';

export const CCM_CONTROLLER = 'syncsecret-ccm';

export interface CcmReconcilerOptions {
  /** Name of the tenant cluster. */
  readonly tenant: string;
  /** Name of the management cluster. */
  readonly management: string;
  /** The namespace of the copies. */
  readonly namespace: string;
  readonly syncSecrets: SyncSecrets;
  readonly managementNamespaces: ManagementNamespaces;
  /** The uid of the tenant cluster, for the marks. `undefined`: not read yet. */
  readonly clusterUid: () => string | undefined;
  readonly copyOf: (name: string) => CopyStatus | undefined;
  /** Why the management cluster cannot be used. */
  readonly unreachable: () => Cause | undefined;
  readonly metrics: SyncSecretMetrics | undefined;
  /** Settles when the SyncSecrets have been listed, and the uid of the cluster is known. */
  readonly synced: () => Promise<unknown>;
  /** How long a deleted SyncSecret waits for the deletion of its copy, ms. */
  readonly deletionTimeoutMs: number;
  /** Wall clock, ms. */
  readonly now: () => number;
}

export class CcmReconciler implements RuleReconciler {
  readonly name = CCM_CONTROLLER;
  readonly getLive: RuleReconciler['getLive'];
  readonly #options: CcmReconcilerOptions;
  readonly #pending = new Pending();
  readonly #deletions: Deletions;

  constructor(options: CcmReconcilerOptions) {
    this.#options = options;
    const { syncSecrets, unreachable, deletionTimeoutMs, now } = options;
    this.#deletions = new Deletions({
      syncSecrets,
      target: 'its copy in the management cluster',
      // A manager in this cluster serves it from now on, but not while it is being deleted.
      marksOf: ({ metadata, propagated }) =>
        metadata.deletionTimestamp === undefined && propagated !== undefined ? [PROPAGATED_ANNOTATION] : [],
      unreachable,
      pending: this.#pending,
      timeoutMs: deletionTimeoutMs,
      now,
    });
    this.getLive = liveRules(
      async (rule, signal) => await syncSecrets.readVersion(rule, signal),
      () => false,
    );
  }

  async prepare(rule: RuleKey, signal: AbortSignal): Promise<void> {
    const { syncSecrets, synced, namespace } = this.#options;
    await orAborted(synced(), signal, 'waiting for the list of SyncSecrets');
    const object = syncSecrets.store.get(rule);
    if (object === undefined || !this.#isActive(object)) return;
    const isPrepared = object.metadata.finalizers.includes(SYNC_SECRET_FINALIZER) && object.propagated === namespace;
    if (!isPrepared) await syncSecrets.addFinalizer(rule, { [PROPAGATED_ANNOTATION]: namespace }, signal);
  }

  // eslint-disable-next-line require-yield -- nothing here takes long
  *evaluate(rule: RuleKey, view: EngineView): Steps<Evaluation | undefined> {
    const { syncSecrets, tenant, clusterUid, managementNamespaces } = this.#options;
    const object = syncSecrets.store.get(rule);
    if (object === undefined || !managementNamespaces.concerns(object)) return undefined;
    const { namespace = '', name, uid, generation, creationTimestamp } = object.metadata;
    const owner = {
      key: rule,
      title: `${SYNC_SECRET_KIND} ${namespace}/${name}`,
      rank: `${creationTimestamp} ${uid}`,
    };
    const target = this.#copyKey(uid);
    const shape = new CopyShape(rule, clusterUid() ?? UNKNOWN_CLUSTER, namespace, name, object.immutable);
    const common = { owner, version: ruleVersion(object), sources: [] };
    if (!this.#isActive(object)) {
      const targets = new Set([target, ...view.ownedBy(rule)]);
      const release = { owner, mode: 'release', source: undefined, shape } as const;
      return { ...common, claims: Array.from(targets, (one) => ({ ...release, target: one })) };
    }
    const source = resourceKey(tenant, SYNC_SECRET.kind, namespace, name);
    const own = {
      owner,
      target,
      mode: 'own',
      source,
      isRuleSource: true,
      sourceGeneration: generation,
      shape,
    } as const;
    return { ...common, claims: [own] };
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

  async updateStatus(
    rule: RuleKey,
    entries: Iterable<Entry>,
    progress: RuleProgress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { syncSecrets, metrics, copyOf, unreachable, now } = this.#options;
    const object = syncSecrets.store.get(rule);
    if (object === undefined) {
      syncSecrets.forget(rule);
      metrics?.forget(rule);
      this.#pending.forget(rule);
      this.#deletions.forget(rule);
      return undefined;
    }
    const isOutdated = progress.evaluated !== ruleVersion(object);
    if (!this.#isActive(object)) {
      return isOutdated ? undefined : await this.#deletions.update(rule, object, entries, signal);
    }
    this.#deletions.forget(rule);
    if (isOutdated && progress.failure === undefined) return undefined;
    const [entry] = entries;
    const state = tenantState({
      outcome: isOutdated ? undefined : entry?.outcome,
      failure: progress.failure,
      unreachable: unreachable(),
      copy: copyOf(object.metadata.uid),
    });
    const { outcome } = entry ?? {};
    if (outcome?.state === 'synced') metrics?.finished(rule, 'success');
    else if (outcome?.state === 'error' || progress.failure !== undefined) metrics?.finished(rule, 'error');
    if (state.phase === 'Pending') {
      const waitMs = this.#pending.waitMs(rule, state.reason === 'Pending', now());
      if (waitMs > 0) return { requeueAfterMs: waitMs };
    } else {
      this.#pending.done(rule, now());
    }
    await syncSecrets.writeStatus(rule, state, signal);
    return undefined;
  }

  #copyKey(uid: string): ResourceKey {
    const { management, namespace } = this.#options;
    return resourceKey(management, SYNC_SECRET.kind, namespace, uid);
  }

  /** Whether the SyncSecret is to be copied. One that no longer is, is released as if it were deleted. */
  #isActive(object: SyncSecretRule): boolean {
    return object.metadata.deletionTimestamp === undefined && this.#options.managementNamespaces.isToBeCopied(object);
  }
}
