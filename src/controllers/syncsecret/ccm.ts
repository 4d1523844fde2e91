/** The CCM: copies the SyncSecrets of a tenant cluster into the tenant's namespace of the management cluster. */
import type { Controller } from '../../copy/controller.ts';
import { namespaceOf, resourceKey, type ResourceKey } from '../../copy/model/keys.ts';
import { contentVersion } from '../../copy/model/observed.ts';
import { METADATA_ONLY, type KubeObject } from '../../kube/api.ts';
import { ApiError } from '../../kube/errors.ts';
import { parseJson } from '../../kube/json.ts';
import type { WatchGroup } from '../../kube/watch/watch-group.ts';
import { sleep } from '../../runtime/abort.ts';
import { Backoff, RECONNECT } from '../../runtime/backoff.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { CCM_CONTROLLER, CcmReconciler } from './ccm-reconciler.ts';
import { CopyStatuses } from './copies.ts';
import { SYNC_SECRET } from './kind.ts';
import { MANAGER_CONTROLLER } from './manager-reconciler.ts';
import { isReadMark, UNKNOWN_CLUSTER } from './marks.ts';
import { SyncSecretMetrics } from './metrics.ts';
import { ManagementNamespaces } from './one-cluster.ts';
import { runningSyncSecrets } from './running-sync-secrets.ts';
import type { SyncSecrets } from './sync-secrets.ts';
import { watchSyncSecrets } from './watch.ts';

export const syncSecretCcm: ControllerEntry = {
  name: CCM_CONTROLLER,
  kinds: [SYNC_SECRET],
  hasTenants: true,
  annotationReader: () => isReadMark,
  create: (context) => new SyncSecretCcm(context),
};

/** The source component of events. */
const COMPONENT = 'kubelb-ccm';
/** Its uid identifies a cluster, by convention. */
const CLUSTER_ID_PATH = '/api/v1/namespaces/kube-system';

class SyncSecretCcm implements Controller {
  readonly reconciler: CcmReconciler;
  readonly #context: ControllerContext;
  readonly #syncSecrets: SyncSecrets;
  readonly #copies: CopyStatuses;
  readonly #stop = new AbortController();
  readonly #namespace: string;
  #clusterUid: string | undefined;
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
    const managementNamespaces = new ManagementNamespaces({
      hasManager: config.controllers.includes(MANAGER_CONTROLLER),
      namespace: managementNamespace,
      onFound: (copy) => {
        const namespace = copy.slice(0, copy.indexOf('/'));
        context.log.warn('SyncSecrets of this namespace are left to a manager, because one of them is a copy', {
          namespace,
          name: copy.slice(namespace.length + 1),
        });
        for (const [rule] of this.#syncSecrets.store.all())
          if (managementNamespaces.has(namespaceOf(rule))) engine.enqueueRule(rule);
      },
    });
    this.#syncSecrets = runningSyncSecrets(context, COMPONENT, own, {
      controller: CCM_CONTROLLER,
      learn: (rule) => {
        managementNamespaces.learn(rule);
      },
      isRule: (rule) => managementNamespaces.concerns(rule),
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
    const copyKey = (name: string): ResourceKey =>
      resourceKey(management.api.cluster, SYNC_SECRET.kind, managementNamespace, name);
    this.#copies = new CopyStatuses((name) => {
      for (const { claim } of engine.book.on(copyKey(name))) engine.enqueueStatus(claim.owner.key);
    });
    this.reconciler = new CcmReconciler({
      cluster: cluster.api.cluster,
      management: management.api.cluster,
      namespace: managementNamespace,
      syncSecrets: this.#syncSecrets,
      managementNamespaces,
      clusterUid: () => this.#clusterUid,
      copyOf: (name) => {
        // The index has the answers to own writes as well. After such a write the watch may still report the status of the content before.
        const known = management.store(SYNC_SECRET).index.find(copyKey(name));
        const copy = this.#copies.get(name);
        return known !== undefined && copy?.version === contentVersion(known) ? copy : undefined;
      },
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
      now: () => clock.now(),
    });
  }

  open(): void {
    const { management } = this.#context;
    this.#watch = watchSyncSecrets(this.#context, this.#syncSecrets.store.sink);
    const { promise: identified, resolve, reject } = Promise.withResolvers<void>();
    this.#synced = Promise.all([this.#watch.synced, identified]);
    this.#readClusterUid(resolve).catch(reject);
    // A stop before the end is no error.
    this.#synced.catch(() => undefined);
    management?.watchContents(SYNC_SECRET, { namespace: this.#namespace, isSource: false }, this.#copies.sink);
  }

  stop(): void {
    this.#stop.abort();
  }

  /**
   * Reads the uid of the cluster. Where that is forbidden, it is tried again: an administrator may permit it at any time.
   * @param onAnswer called once, when the uid is known or is found to be forbidden
   */
  async #readClusterUid(onAnswer: () => void): Promise<void> {
    const { cluster, log } = this.#context;
    const { signal } = this.#stop;
    const backoff = new Backoff(RECONNECT);
    for (;;) {
      try {
        const { body } = await cluster.api.request({
          method: 'GET',
          path: CLUSTER_ID_PATH,
          accept: METADATA_ONLY,
          signal,
        });
        this.#identify((parseJson(body, `the answer to GET ${CLUSTER_ID_PATH}`) as KubeObject).metadata.uid);
        onAnswer();
        return;
      } catch (error) {
        signal.throwIfAborted();
        const isRefused = error instanceof ApiError && (error.status === 403 || error.status === 404);
        if (isRefused && this.#clusterUid === undefined) {
          const advice =
            'grant `get` on the namespace kube-system; until then copies without a SyncSecret are not deleted';
          log.warn('the identity of the cluster cannot be read', { path: CLUSTER_ID_PATH, error, advice });
          this.#identify(UNKNOWN_CLUSTER);
          onAnswer();
        }
        await sleep(backoff.next(), signal);
      }
    }
  }

  /** The marks of copies depend on the uid, and so does which copies are orphans. */
  #identify(uid: string): void {
    const { engine, management } = this.#context;
    this.#clusterUid = uid;
    for (const [rule] of this.#syncSecrets.store.all()) engine.enqueueRule(rule, 'low');
    for (const copy of management?.store(SYNC_SECRET).index.keys() ?? []) engine.enqueueTarget(copy, 'low');
  }
}
