/**
 * The CCM copies the SyncSecrets of a tenant cluster into the tenant's namespace of the management cluster. This file
 * has its watches, finalizers, marks and statuses. `rules/sync-secret-rule-set.ts` turns the SyncSecrets into claims.
 */
import type { Controller } from '../../copy/engine/controller.ts';
import type { Cause } from '../../copy/model/cause.ts';
import { KeyLists } from '../../copy/model/key-lists.ts';
import { type ObjectKey, resourceKey, type RuleKey } from '../../copy/model/keys.ts';
import type { KubeApi, KubeObject } from '../../kube/api.ts';
import { clusterUid } from '../../kube/cluster-identity.ts';
import { ApiError } from '../../kube/errors.ts';
import { sleep } from '../../runtime/abort.ts';
import { Backoff, RECONNECT } from '../../runtime/queue/backoff.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { finalizerStep } from '../common/rules/finalizer.ts';
import { SYNC_SECRET, SYNC_SECRET_FINALIZER } from './api.ts';
import { PROPAGATED_ANNOTATION, UNKNOWN_CLUSTER } from './rules/marks.ts';
import { servedNamespaces } from './rules/one-cluster.ts';
import { statusOf, type SyncSecretRule } from './rules/rule.ts';
import { type CopyStatus, type RuleResult, tenantState } from './rules/status.ts';
import { CCM_CONTROLLER, CcmRules, type CcmRulesOptions, MANAGER_CONTROLLER } from './rules/sync-secret-rule-set.ts';
import { SyncSecretReconciler, SYNC_SECRET_ENTRY, watchSyncSecrets } from './sync-secret-reconciler.ts';

export const syncSecretCcm: ControllerEntry = {
  name: CCM_CONTROLLER,
  ...SYNC_SECRET_ENTRY,
  create,
};

function create(context: ControllerContext): Controller {
  const { engine, cluster, management, config, log, metrics } = context;
  const { managementNamespace: namespace } = config.syncsecret;
  if (management === undefined || namespace === undefined) {
    throw new TypeError('the CCM needs a management cluster and its namespace there');
  }
  const { reachability } = management;
  const { index } = management.store(SYNC_SECRET);
  const copyKey = (name: string): ObjectKey => resourceKey(management.api.cluster, SYNC_SECRET.kind, namespace, name);
  const copyOf = (name: string): CopyStatus | undefined => {
    const { generation, content } = index.find(copyKey(name)) ?? {};
    // After a write of Keyferry, the index has the server's answer, whose status still describes the earlier content.
    if (content === undefined || content.revision !== generation) return undefined;
    return { generation, status: content.status ?? {} };
  };
  const own: { uid?: string } = {};
  const unreachable = (): Cause | undefined => reachability.cause;
  const reconciler = new CcmReconciler(context, { name: management.api.cluster, namespace, own, copyOf, unreachable });
  const connected = 'Whether the management cluster answers (1) or not (0).';
  metrics.registry.value('kubelb_ccm_kubelb_cluster_connected', connected, () =>
    unreachable() === undefined && management.watches.every((watch) => watch.synced) ? 1 : 0,
  );
  const stopped = new AbortController();
  const open = (): void => {
    // Each change of a SyncSecret enqueues its rule.
    reconciler.watches.add(watchSyncSecrets(context, reconciler.store.sink));
    const synced = new Promise<void>((resolve, reject) => {
      // Marks and the deletion of orphans need the uid.
      readClusterUid(cluster.api, stopped.signal, (uid, error) => {
        const advice = 'grant `get` on the namespace kube-system';
        const until = 'until then copies without a SyncSecret are not deleted';
        if (error !== undefined)
          log.warn('the identity of the cluster cannot be read', { error, advice: `${advice}; ${until}` });
        own.uid = uid;
        resolve();
        for (const [rule] of reconciler.store.all()) engine.enqueueRule(rule, 'low');
        for (const copy of index.keys()) engine.enqueueTarget(copy, 'low');
      }).catch(reject);
    });
    // An evaluation that waits for the uid gets the error. If none waits, Node must not report an unhandled rejection.
    synced.catch(() => undefined);
    reconciler.watches.add({ synced });
    management.onReplaced = () => {
      log.warn('the management cluster is another one than before: its copies are listed and made again');
      for (const [rule, { metadata }] of reconciler.store.all()) {
        engine.retryTarget(copyKey(metadata.uid));
        engine.enqueueStatus(rule);
      }
    };
    const lists = new KeyLists();
    const scope = { namespace, isSource: () => false, statusOf: (object: KubeObject) => statusOf(object, lists) };
    management.watchContents(SYNC_SECRET, scope, {
      // After a change of a copy, the status of its SyncSecret is enqueued. After its deletion, the engine does so.
      upsert: ({ metadata }) => {
        for (const { claim } of engine.book.on(copyKey(metadata.name))) engine.enqueueStatus(claim.owner.key);
        return true;
      },
      remove: () => undefined,
      prune: () => undefined,
    });
    // When the management cluster becomes unreachable or reachable, SyncSecrets without a final outcome report it.
    reachability.onChange(() => {
      for (const [rule] of reconciler.store.all()) if (engine.book.isUnderWay(rule)) engine.enqueueStatus(rule);
    });
  };
  return { reconciler, open, stop: () => stopped.abort() };
}

/** The facts about the management cluster that the reconciler of the CCM needs. */
export interface Management extends Pick<CcmRulesOptions, 'namespace' | 'copyOf'> {
  readonly name: string;
  /** The uid of the tenant's cluster; absent: not read yet. */
  readonly own: { readonly uid?: string };
  /** Why the cluster cannot be used; `undefined`: it can be used. */
  readonly unreachable: () => Cause | undefined;
}

export class CcmReconciler extends SyncSecretReconciler<CcmRules> {
  readonly rules: CcmRules;
  protected readonly target = 'its copy in the management cluster';
  readonly #management: Management;
  /** Uids of SyncSecrets whose mark this CCM replaced, because the mark named another namespace. */
  readonly #remarked = new Map<RuleKey, string>();
  /** Whether the warning about another CCM was already logged. */
  #knowsOtherCcm = false;

  constructor(context: ControllerContext, management: Management) {
    super('ccm', context);
    this.#management = management;
    const { scope, config } = context;
    const { name, namespace, own, copyOf } = management;
    const hasManager = config.controllers.includes(MANAGER_CONTROLLER);
    const isManagers = hasManager ? servedNamespaces(config.syncsecret.servedNamespaces) : () => false;
    this.rules = new CcmRules(scope, {
      store: this.store,
      management: name,
      namespace,
      isManagers,
      clusterUid: () => own.uid,
      copyOf,
    });
  }

  protected isRule(object: SyncSecretRule): boolean {
    return this.rules.dutyOf(object) !== 'none';
  }

  /** A deleted object keeps the mark until it is gone. */
  protected override marksOf({ metadata, propagated }: SyncSecretRule): readonly string[] {
    return metadata.deletionTimestamp === undefined && propagated !== undefined ? [PROPAGATED_ANNOTATION] : [];
  }

  protected override unreachable(): Cause | undefined {
    return this.#management.unreachable();
  }

  /** The mark is written with the finalizer. If it names another namespace (a renamed tenant), it is replaced once. */
  needsPreparation(rule: RuleKey): boolean {
    const { namespace } = this.rules.options;
    const object = this.store.get(rule);
    if (object === undefined || this.rules.dutyOf(object) !== 'copy') return false;
    if (finalizerStep(object.metadata, SYNC_SECRET_FINALIZER) === 'add') return true;
    if (object.propagated === namespace) return false;
    return object.propagated === undefined || this.#remarked.get(rule) !== object.metadata.uid;
  }

  protected override get propagation(): Readonly<Record<string, string>> {
    return { [PROPAGATED_ANNOTATION]: this.rules.options.namespace };
  }

  override async prepare(rule: RuleKey, signal: AbortSignal): Promise<void> {
    const { propagated, metadata } = this.store.get(rule) ?? {};
    await super.prepare(rule, signal);
    if (metadata !== undefined && propagated !== undefined && propagated !== this.rules.options.namespace)
      this.#remarked.set(rule, metadata.uid);
  }

  override async updateStatus(
    ...args: Parameters<SyncSecretReconciler['updateStatus']>
  ): Promise<RunResult | undefined> {
    const [rule] = args;
    const { namespace } = this.rules.options;
    const object = this.store.get(rule);
    if (object === undefined) this.#remarked.delete(rule);
    // Another CCM has put its namespace back into the mark. If both replaced it again, they would do so without end.
    else if (this.#remarked.get(rule) === object.metadata.uid && object.propagated !== namespace)
      this.#warnOfOtherCcm(object);
    return await super.updateStatus(...args);
  }

  /** Warns once that another CCM has put its namespace back into a mark. */
  #warnOfOtherCcm({ metadata: { namespace, name }, propagated: target }: SyncSecretRule): void {
    if (this.#knowsOtherCcm) return;
    this.#knowsOtherCcm = true;
    const advice = 'if that is not intended, stop one of them, or give both the same --cluster-name';
    const message = 'another CCM copies the SyncSecrets of this cluster to another namespace, too';
    this.context.log.warn(message, { namespace, name, target, advice });
  }

  protected async report(
    rule: RuleKey,
    object: SyncSecretRule,
    result: RuleResult,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { outcome, failure } = result;
    const state = tenantState(result, this.unreachable(), this.rules.options.copyOf(object.metadata.uid));
    if (failure !== undefined || outcome?.state === 'error' || outcome?.state === 'conflict') {
      this.metrics.finished(rule, 'error');
    } else if (outcome?.state === 'synced') {
      this.metrics.finished(rule, 'success');
    }
    const now = this.context.clock.monotonic();
    if (state.phase === 'Pending') {
      const waitMs = this.pending.waitMs(rule, state.isUnderWay === true, now);
      if (waitMs > 0) return { requeueAfterMs: waitMs };
    } else {
      this.pending.done(rule, now);
    }
    return await this.writeStatus(rule, object, state, signal);
  }
}

/**
 * Reads the uid of a cluster, and retries until it succeeds: an administrator may permit the read at any time.
 * @param onRead gets the uid. After the first refusal it gets `UNKNOWN_CLUSTER` and the error
 */
async function readClusterUid(
  api: KubeApi,
  signal: AbortSignal,
  onRead: (uid: string, error?: ApiError) => void,
): Promise<void> {
  const backoff = new Backoff(RECONNECT);
  let isKnownRefused = false;
  for (;;) {
    try {
      onRead(await clusterUid(api, signal));
      return;
    } catch (error) {
      signal.throwIfAborted();
      if (!isKnownRefused && error instanceof ApiError && (error.status === 403 || error.status === 404)) {
        isKnownRefused = true;
        onRead(UNKNOWN_CLUSTER, error);
      }
      await sleep(backoff.next(), signal);
    }
  }
}
