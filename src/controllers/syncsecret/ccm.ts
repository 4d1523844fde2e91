/** The CCM: copies the SyncSecrets of a tenant cluster into the tenant's namespace of the management cluster. */
import type { Controller } from '../../copy/engine/controller.ts';
import { type ObjectKey, resourceKey } from '../../copy/model/keys.ts';
import { contentVersion } from '../../copy/model/observed.ts';
import type { WatchGroup } from '../../kube/watch/watch-group.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { CcmReconciler } from './duties/ccm-reconciler.ts';
import { CCM_CONTROLLER, CcmRules } from './rules/ccm-rule-set.ts';
import { readClusterUid } from './duties/cluster-uid.ts';
import { type CopyStatus, CopyStatuses } from './duties/copies.ts';
import { SYNC_SECRET } from './rules/kind.ts';
import { MANAGER_CONTROLLER } from './rules/manager-rule-set.ts';
import { isReadMark } from './rules/marks.ts';
import { SyncSecretMetrics } from './metrics.ts';
import { servedNamespaces, zoneOf } from './rules/one-cluster.ts';
import { runningSyncSecrets } from './duties/running-sync-secrets.ts';
import type { SyncSecrets } from './duties/sync-secrets.ts';
import { Travel } from './rules/travel.ts';
import { watchSyncSecrets } from './duties/watch.ts';

export const syncSecretCcm: ControllerEntry = {
  name: CCM_CONTROLLER,
  kinds: [SYNC_SECRET],
  hasTenants: true,
  annotationReader: () => isReadMark,
  create: (context) => new SyncSecretCcm(context),
};

/** The source component of events. */
const COMPONENT = 'kubelb-ccm';

class SyncSecretCcm implements Controller {
  readonly reconciler: CcmReconciler;
  readonly #context: ControllerContext;
  readonly #syncSecrets: SyncSecrets;
  readonly #copies: CopyStatuses;
  readonly #stop = new AbortController();
  readonly #namespace: string;
  #clusterUid: string | undefined;
  #managementUid: string | undefined;
  /** It has been logged. */
  #knowsOtherCcm = false;
  #synced: Promise<unknown> | undefined;
  #watch: WatchGroup | undefined;

  constructor(context: ControllerContext) {
    this.#context = context;
    const { engine, cluster, management, clock, config, metrics } = context;
    const { managementNamespace } = config.syncsecret;
    if (management === undefined || managementNamespace === undefined) {
      throw new TypeError('the CCM needs a management cluster and its namespace there');
    }
    this.#namespace = managementNamespace;
    const own = new SyncSecretMetrics(metrics.registry, 'ccm', () => clock.monotonic());
    const isManagers = config.controllers.includes(MANAGER_CONTROLLER)
      ? servedNamespaces(config.syncsecret.servedNamespaces, true)
      : () => false;
    this.#syncSecrets = runningSyncSecrets(context, COMPONENT, own, {
      controller: CCM_CONTROLLER,
      // Those in the namespaces of tenants may turn out to be rules when both clusters are known.
      isRule: ({ metadata: { namespace = '' }, origin, propagated }) =>
        propagated !== undefined || (origin !== 'another' && !isManagers(namespace)),
    });
    const connected = metrics.registry.sampled(
      'kubelb_ccm_kubelb_cluster_connected',
      'Whether the management cluster answers (1) or not (0).',
      [],
    );
    connected.add(() => {
      const isConnected = management.unreachable === undefined && management.watches.every((watch) => watch.synced);
      return [{ labels: {}, value: isConnected ? 1 : 0 }];
    });
    management.onReachableChange(() => {
      // Those that wait say for what. A settled one keeps its status.
      for (const [rule] of this.#syncSecrets.store.all()) if (engine.book.isUnderWay(rule)) engine.enqueueStatus(rule);
    });
    const copyKey = (name: string): ObjectKey =>
      resourceKey(management.api.cluster, SYNC_SECRET.kind, managementNamespace, name);
    this.#copies = new CopyStatuses((name) => {
      for (const { claim } of engine.book.on(copyKey(name))) engine.enqueueStatus(claim.owner.key);
    });
    const copyOf = (name: string): CopyStatus | undefined => {
      // The index has the answers to own writes as well. After such a write the watch may still report the status of the content before.
      const known = management.store(SYNC_SECRET).index.find(copyKey(name));
      const copy = this.#copies.get(name);
      return known !== undefined && copy?.version === contentVersion(known) ? copy : undefined;
    };
    const rules = new CcmRules({
      cluster: cluster.api.cluster,
      store: this.#syncSecrets.store,
      travel: new Travel(config.syncsecret),
      management: management.api.cluster,
      namespace: managementNamespace,
      zoneOf: (namespace) => zoneOf(namespace, this.#clusterUid, this.#managementUid, isManagers),
      clusterUid: () => this.#clusterUid,
      copyOf,
    });
    this.reconciler = new CcmReconciler({
      rules,
      namespace: managementNamespace,
      syncSecrets: this.#syncSecrets,
      copyOf,
      unreachable: () => management.unreachable,
      onOtherCcm: ({ metadata: { namespace, name }, propagated }) => {
        if (this.#knowsOtherCcm) return;
        this.#knowsOtherCcm = true;
        const advice = 'if that is not intended, stop one of them, or give both the same --cluster-name';
        context.log.warn('another CCM copies the SyncSecrets of this cluster to another namespace, too', {
          namespace,
          name,
          target: propagated,
          advice,
        });
      },
      metrics: own,
      synced: async () => await this.#synced,
      deletionTimeoutMs: config.deletionTimeoutMs,
      monotonic: () => clock.monotonic(),
    });
  }

  open(): void {
    const { management } = this.#context;
    this.#watch = watchSyncSecrets(this.#context, this.#syncSecrets.store.sink);
    const identified = new Promise<void>((resolve, reject) => {
      this.#identify(resolve).catch(reject);
    });
    this.#synced = Promise.all([this.#watch.synced, identified]);
    // A stop before the end is no error.
    this.#synced.catch(() => undefined);
    management?.watchContents(SYNC_SECRET, { namespace: this.#namespace, isSource: false }, this.#copies.sink);
  }

  stop(): void {
    this.#stop.abort();
  }

  /** Reads the uids of both clusters. @param onAnswer called when that of its own is known or is found to be forbidden */
  async #identify(onAnswer: () => void): Promise<void> {
    const { cluster, management, log } = this.#context;
    const { signal } = this.#stop;
    const own = readClusterUid(cluster.api, signal, (uid, error) => {
      const advice = 'grant `get` on the namespace kube-system; until then copies without a SyncSecret are not deleted';
      if (error !== undefined) log.warn('the identity of the cluster cannot be read', { error, advice });
      this.#clusterUid = uid;
      this.#onIdentity();
      onAnswer();
    });
    // The management cluster may not answer for any time.
    const other =
      management &&
      readClusterUid(management.api, signal, (uid, error) => {
        const advice =
          'grant `get` on the namespace kube-system there; until then SyncSecrets in namespaces tenant-* are not copied';
        if (error !== undefined) log.warn('the identity of the management cluster cannot be read', { error, advice });
        this.#managementUid = uid;
        this.#onIdentity();
      });
    await Promise.all([own, other]);
  }

  /** The marks of copies depend on the uids, and so does which copies are orphans, and which SyncSecrets are copied. */
  #onIdentity(): void {
    const { engine, management } = this.#context;
    for (const [rule] of this.#syncSecrets.store.all()) engine.enqueueRule(rule, 'low');
    for (const copy of management?.store(SYNC_SECRET).index.keys() ?? []) engine.enqueueTarget(copy, 'low');
  }
}
