/**
 * The CCM: copies the SyncSecrets of a tenant cluster into the tenant's namespace of the management cluster. Here are its watches, finalizers
 * and marks, and the status of the whole chain. What the SyncSecrets mean is in `rules/sync-secret-rule-set.ts`.
 */
import type { Controller, Preparation } from '../../copy/engine/controller.ts';
import type { Cluster } from '../../copy/cluster/cluster.ts';
import type { Cause } from '../../copy/model/cause.ts';
import { KeyLists, contentVersion, versionOf } from '../../copy/model/observed.ts';
import { type ObjectKey, resourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { METADATA_ONLY, type KubeApi, type KubeObject } from '../../kube/api.ts';
import { ApiError } from '../../kube/errors.ts';
import { parseJson } from '../../kube/json.ts';
import type { WatchSink } from '../../kube/watch/watcher.ts';
import type { Log } from '../../observe/log.ts';
import { sleep } from '../../runtime/abort.ts';
import { Backoff, RECONNECT } from '../../runtime/queue/backoff.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { finalizerStep } from '../common/rules/finalizer.ts';
import { SYNC_SECRET, SYNC_SECRET_FINALIZER } from './api.ts';
import { SyncSecretMetrics } from './metrics.ts';
import { isReadMark, PROPAGATED_ANNOTATION, UNKNOWN_CLUSTER } from './rules/marks.ts';
import { servedNamespaces, zoneOf } from './rules/one-cluster.ts';
import { statusOf, type SyncSecretRule } from './rules/rule.ts';
import { type CopyStatus, tenantState } from './rules/status.ts';
import { CCM_CONTROLLER, CcmRules, MANAGER_CONTROLLER } from './rules/sync-secret-rule-set.ts';
import { Travel } from './rules/travel.ts';
import {
  type ActiveProgress,
  SyncSecretReconciler,
  type SyncSecretReconcilerOptions,
} from './sync-secret-reconciler.ts';
import { SyncSecrets, watchSyncSecrets } from './sync-secrets.ts';

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
  readonly #management: Cluster;
  readonly #syncSecrets: SyncSecrets;
  readonly #copies: Copies;
  readonly #stop = new AbortController();
  readonly #namespace: string;
  /** The uids of both clusters; `undefined`: not read yet. */
  #clusterUid: string | undefined;
  #managementUid: string | undefined;
  #synced: Promise<unknown> | undefined;

  constructor(context: ControllerContext) {
    this.#context = context;
    const { engine, cluster, management, clock, config, log, metrics: registries } = context;
    const { managementNamespace: namespace, servedNamespaces: patterns } = config.syncsecret;
    if (management === undefined || namespace === undefined) {
      throw new TypeError('the CCM needs a management cluster and its namespace there');
    }
    this.#management = management;
    this.#namespace = namespace;
    const metrics = new SyncSecretMetrics(registries.registry, 'ccm', () => clock.monotonic());
    const isManagers = config.controllers.includes(MANAGER_CONTROLLER) ? servedNamespaces(patterns, true) : () => false;
    const syncSecrets = (this.#syncSecrets = new SyncSecrets({
      controller: CCM_CONTROLLER,
      component: COMPONENT,
      // Those in the namespaces of tenants may turn out to be rules when both clusters are known.
      isRule: ({ metadata: { namespace: own = '' }, origin, propagated }) =>
        propagated !== undefined || (origin !== 'another' && !isManagers(own)),
      metrics,
      context,
    }));
    const connected = 'Whether the management cluster answers (1) or not (0).';
    registries.registry.value('kubelb_ccm_kubelb_cluster_connected', connected, () =>
      management.reachability.cause === undefined && management.watches.every((watch) => watch.synced) ? 1 : 0,
    );
    management.reachability.onChange(() => {
      // Those that wait say for what. A settled one keeps its status.
      for (const [rule] of syncSecrets.store.all()) if (engine.book.isUnderWay(rule)) engine.enqueueStatus(rule);
    });
    const { index } = management.store(SYNC_SECRET);
    const copyKey = (name: string): ObjectKey => resourceKey(management.api.cluster, SYNC_SECRET.kind, namespace, name);
    const copies = (this.#copies = new Copies((name) => {
      for (const { claim } of engine.book.on(copyKey(name))) engine.enqueueStatus(claim.owner.key);
    }));
    const copyOf = (name: string): CopyStatus | undefined => {
      // The index has the answers to own writes as well. After such a write the watch may still report the status of the content before.
      const known = index.find(copyKey(name));
      const copy = copies.get(name);
      return known !== undefined && copy?.version === contentVersion(known) ? copy : undefined;
    };
    const rules = new CcmRules({
      cluster: cluster.api.cluster,
      store: syncSecrets.store,
      travel: new Travel(config.syncsecret),
      management: management.api.cluster,
      namespace,
      zoneOf: (own) => zoneOf(own, this.#clusterUid, this.#managementUid, isManagers),
      clusterUid: () => this.#clusterUid,
      copyOf,
    });
    this.reconciler = new CcmReconciler({
      rules,
      syncSecrets,
      unreachable: () => management.reachability.cause,
      log,
      synced: async () => await this.#synced,
      deletionTimeoutMs: config.deletionTimeoutMs,
      monotonic: () => clock.monotonic(),
    });
  }

  open(): void {
    const { cluster } = this.#context;
    const { synced } = watchSyncSecrets(this.#context, this.#syncSecrets.store.sink);
    const until = 'until then copies without a SyncSecret are not deleted';
    const identified = new Promise<void>((resolve, reject) => {
      this.#identify(cluster.api, 'the cluster', `grant \`get\` on the namespace kube-system; ${until}`, (uid) => {
        this.#clusterUid = uid;
        resolve();
      }).catch(reject);
    });
    this.#synced = Promise.all([synced, identified]);
    // A stop before the end is no error.
    this.#synced.catch(() => undefined);
    const untilThere = 'until then SyncSecrets in namespaces tenant-* are not copied';
    // The management cluster may not answer for any time.
    this.#identify(
      this.#management.api,
      'the management cluster',
      `grant \`get\` on the namespace kube-system there; ${untilThere}`,
      (uid) => {
        this.#managementUid = uid;
      },
    ).catch(() => undefined);
    this.#management.watchContents(SYNC_SECRET, { namespace: this.#namespace, isSource: false }, this.#copies.sink);
  }

  stop(): void {
    this.#stop.abort();
  }

  /** Reads the uid of a cluster. @param onRead called when the uid is known, or is found to be forbidden @throws the reason of a stop */
  async #identify(api: KubeApi, what: string, advice: string, onRead: (uid: string) => void): Promise<void> {
    const { engine, log } = this.#context;
    await readClusterUid(api, this.#stop.signal, (uid, error) => {
      if (error !== undefined) log.warn(`the identity of ${what} cannot be read`, { error, advice });
      onRead(uid);
      // The marks of copies depend on the uids, and so does which copies are orphans, and which SyncSecrets are copied.
      for (const [rule] of this.#syncSecrets.store.all()) engine.enqueueRule(rule, 'low');
      for (const copy of this.#management.store(SYNC_SECRET).index.keys()) engine.enqueueTarget(copy, 'low');
    });
  }
}

export interface CcmReconcilerOptions extends SyncSecretReconcilerOptions {
  readonly rules: CcmRules;
  /** Why the management cluster cannot be used. */
  readonly unreachable: () => Cause | undefined;
  readonly log: Log;
}

export class CcmReconciler extends SyncSecretReconciler<CcmReconcilerOptions> {
  /** Whose mark named another namespace, and was replaced: the uids. */
  readonly #remarked = new Map<RuleKey, string>();
  /** Another CCM has been logged. */
  #knowsOtherCcm = false;

  protected readonly target = 'its copy in the management cluster';

  /** A manager in this cluster serves the object from now on, but not while the object is being deleted. */
  protected override marksOf({ metadata, propagated }: SyncSecretRule): readonly string[] {
    return metadata.deletionTimestamp === undefined && propagated !== undefined ? [PROPAGATED_ANNOTATION] : [];
  }

  protected override unreachable(): Cause | undefined {
    return this.options.unreachable();
  }

  /** The mark is written with the finalizer. A mark with another namespace is replaced: the tenant may have been renamed. */
  preparationOf(rule: RuleKey): Preparation | undefined {
    const { namespace, store } = this.rules.options;
    const object = store.get(rule);
    if (object === undefined || this.rules.dutyOf(object) !== 'copy') return undefined;
    if (finalizerStep(object.metadata, SYNC_SECRET_FINALIZER) === 'add') return 'first';
    if (object.propagated === namespace) return undefined;
    return object.propagated === undefined || this.#remarked.get(rule) !== object.metadata.uid ? 'first' : undefined;
  }

  async prepare(rule: RuleKey, signal: AbortSignal): Promise<void> {
    const { namespace, store } = this.rules.options;
    const object = store.get(rule);
    if (object === undefined || this.rules.dutyOf(object) !== 'copy') return;
    await this.options.syncSecrets.addFinalizer(rule, { [PROPAGATED_ANNOTATION]: namespace }, signal);
    if (object.propagated !== undefined && object.propagated !== namespace)
      this.#remarked.set(rule, object.metadata.uid);
  }

  override async updateStatus(
    ...args: Parameters<SyncSecretReconciler['updateStatus']>
  ): Promise<RunResult | undefined> {
    const [rule] = args;
    const { namespace, store } = this.rules.options;
    const object = store.get(rule);
    if (object === undefined) this.#remarked.delete(rule);
    // The other name came back, so it is that of a CCM that runs: without an end, each would replace the mark.
    else if (this.#remarked.get(rule) === object.metadata.uid && object.propagated !== namespace)
      this.#warnOfOtherCcm(object);
    return await super.updateStatus(...args);
  }

  /** A SyncSecret has the mark of another management namespace again, after it had ours: another CCM copies it, too. */
  #warnOfOtherCcm({ metadata: { namespace, name }, propagated: target }: SyncSecretRule): void {
    if (this.#knowsOtherCcm) return;
    this.#knowsOtherCcm = true;
    const advice = 'if that is not intended, stop one of them, or give both the same --cluster-name';
    const message = 'another CCM copies the SyncSecrets of this cluster to another namespace, too';
    this.options.log.warn(message, { namespace, name, target, advice });
  }

  protected async report(
    rule: RuleKey,
    object: SyncSecretRule,
    { outcome, failure }: ActiveProgress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { syncSecrets, monotonic } = this.options;
    const { metrics } = syncSecrets;
    // If the SyncSecret is the manager's, its status is, too.
    if (this.rules.dutyOf(object) === 'keep') return undefined;
    const state = tenantState({
      outcome,
      failure,
      unreachable: this.unreachable(),
      copy: this.rules.options.copyOf(object.metadata.uid),
    });
    if (failure !== undefined || outcome?.state === 'error' || outcome?.state === 'conflict') {
      metrics.finished(rule, 'error');
    } else if (outcome?.state === 'synced') {
      metrics.finished(rule, 'success');
    }
    if (state.phase === 'Pending') {
      const waitMs = this.pending.waitMs(rule, state.isUnderWay === true, monotonic());
      if (waitMs > 0) return { requeueAfterMs: waitMs };
    } else {
      this.pending.done(rule, monotonic());
    }
    return await syncSecrets.writeStatus(rule, state, signal);
  }
}

interface KnownCopy extends CopyStatus {
  /** @see contentVersion */
  readonly version: string;
}

/** The status of the copies in the management cluster, by name. */
class Copies {
  readonly #copies = new Map<string, KnownCopy>();
  readonly #lists = new KeyLists();
  readonly #onChange: (name: string) => void;

  /** @param onChange the status of a copy may have changed */
  constructor(onChange: (name: string) => void) {
    this.#onChange = onChange;
  }

  get(name: string): KnownCopy | undefined {
    return this.#copies.get(name);
  }

  readonly sink: WatchSink = {
    upsert: (object: KubeObject) => {
      const { name, generation } = object.metadata;
      const version = versionOf(object.metadata, SYNC_SECRET);
      this.#copies.set(name, { version, generation, status: statusOf(object, this.#lists) });
      this.#onChange(name);
      return true;
    },
    remove: ({ metadata: { name } }) => {
      this.#drop(name);
    },
    prune: (keys) => {
      const names = new Set(Array.from(keys, (key) => key.slice(key.indexOf('/') + 1)));
      for (const name of this.#copies.keys()) if (!names.has(name)) this.#drop(name);
    },
  };

  #drop(name: string): void {
    if (this.#copies.delete(name)) this.#onChange(name);
  }
}

/** The uid of this namespace is, by convention, the identity of a cluster. */
const KUBE_SYSTEM = '/api/v1/namespaces/kube-system';

/**
 * Reads the uid of a cluster. A refused read is tried again: an administrator may permit it at any time.
 * @param onRead gets the uid; before that, once, `UNKNOWN_CLUSTER` and the error of a refused read
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
      const { body } = await api.request({ method: 'GET', path: KUBE_SYSTEM, accept: METADATA_ONLY, signal });
      onRead((parseJson(body, `the answer to GET ${KUBE_SYSTEM}`) as KubeObject).metadata.uid);
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
