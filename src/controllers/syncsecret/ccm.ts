/**
 * The CCM copies the SyncSecrets of a tenant cluster into the tenant's namespace of the management cluster. This file
 * has its watches, marks and statuses. `rules/sync-secret-rule-set.ts` turns the SyncSecrets into claims.
 */
import type { Cluster } from '../../copy/cluster/cluster.ts';
import type { Cause } from '../../copy/model/cause.ts';
import { KeyLists } from '../../copy/model/key-lists.ts';
import { type ObjectKey, resourceKey } from '../../copy/model/keys.ts';
import type { KubeObject } from '../../kube/api.ts';
import { awaitClusterUid } from '../../kube/cluster-identity.ts';
import { ApiError } from '../../kube/errors.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { SYNC_SECRET } from './api.ts';
import { UNKNOWN_CLUSTER } from './rules/marks.ts';
import { isOfCcm, type IsServed, servedNamespaces } from './rules/one-cluster.ts';
import { statusOf, type SyncSecretRule } from './rules/rule.ts';
import { type CopyStatus, type RuleResult, tenantState } from './words.ts';
import { CCM_CONTROLLER, CcmRules, MANAGER_CONTROLLER } from './rules/sync-secret-rule-set.ts';
import {
  SYNC_SECRET_ENTRY,
  SyncSecretController,
  type SyncSecretFacts,
  type SyncSecretReport,
  watchSyncSecrets,
} from './sync-secret-rules.ts';

export const syncSecretCcm: ControllerEntry = {
  name: CCM_CONTROLLER,
  component: 'kubelb-ccm',
  ...SYNC_SECRET_ENTRY,
  create: (context) => {
    const { managementNamespace } = context.config.syncsecret;
    if (context.management === undefined || managementNamespace === undefined)
      throw new TypeError('the CCM needs a management cluster and its namespace there');
    return new Ccm(context, context.management, managementNamespace);
  },
};

export class Ccm extends SyncSecretController {
  readonly rules: CcmRules;
  protected readonly target = 'its copy in the management cluster';
  readonly #context: ControllerContext;
  readonly #management: Cluster;
  /** The namespace of the copies. */
  readonly #namespace: string;
  /** The uid of the tenant's cluster; `undefined`: not read yet. */
  #uid: string | undefined;
  /** Whether a namespace belongs to a manager in the same process. */
  readonly #isManagers: IsServed;

  constructor(context: ControllerContext, management: Cluster, namespace: string) {
    super('ccm', context);
    this.#context = context;
    this.#management = management;
    this.#namespace = namespace;
    const { scope, config, metrics } = context;
    const hasManager = config.controllers.includes(MANAGER_CONTROLLER);
    this.#isManagers = hasManager ? servedNamespaces(config.syncsecret.servedNamespaces) : () => false;
    this.rules = new CcmRules(scope, {
      store: this.store,
      management: management.api.cluster,
      namespace,
      clusterUid: () => this.#uid,
      copyOf: (name) => this.#copyOf(name),
    });
    const connected = 'Whether the management cluster answers (1) or not (0).';
    metrics.registry.value('kubelb_ccm_kubelb_cluster_connected', connected, () =>
      this.unreachable() === undefined && management.watches.every((watch) => watch.synced) ? 1 : 0,
    );
  }

  async open(signal: AbortSignal): Promise<void> {
    const { engine, log } = this.#context;
    const management = this.#management;
    const { store } = this;
    // Each change of a SyncSecret enqueues its rule.
    const { synced } = watchSyncSecrets(this.#context, store.sink);
    const identified = this.#identified(signal);
    management.onReplaced = () => {
      log.warn('the management cluster is another one than before: its copies are listed and made again');
      for (const [rule, { metadata }] of store.all()) {
        engine.retryTarget(this.#copyKey(metadata.uid));
        engine.enqueueStatus(rule);
      }
    };
    const lists = new KeyLists();
    const scope = {
      namespace: this.#namespace,
      isSource: () => false,
      statusOf: (object: KubeObject) => statusOf(object, lists),
    };
    management.watchContents(SYNC_SECRET, scope, {
      // After a change of a copy, the status of its SyncSecret is enqueued. After its deletion, the engine does so.
      upsert: ({ metadata }) => {
        for (const { claim } of engine.book.on(this.#copyKey(metadata.name))) engine.enqueueStatus(claim.owner.key);
        return true;
      },
      remove: () => undefined,
      prune: () => undefined,
    });
    // When the management cluster becomes unreachable or reachable, SyncSecrets without a final outcome report it.
    management.reachability.onChange(() => {
      for (const [rule] of store.all()) if (engine.book.isUnderWay(rule)) engine.enqueueStatus(rule);
    });
    await Promise.all([synced, identified]);
  }

  /** Settles when the uid of this cluster is known: marks and the deletion of orphans need it. */
  async #identified(signal: AbortSignal): Promise<void> {
    const { engine, cluster, log } = this.#context;
    const { index } = this.#management.store(SYNC_SECRET);
    await new Promise<void>((resolve, reject) => {
      const onRead = (uid: string, error?: ApiError): void => {
        const advice = 'grant `get` on the namespace kube-system';
        const until = 'until then copies without a SyncSecret are not deleted';
        if (error !== undefined)
          log.warn('the identity of the cluster cannot be read', { error, advice: `${advice}; ${until}` });
        this.#uid = uid;
        resolve();
        for (const [rule] of this.store.all()) engine.enqueueRule(rule);
        engine.enqueueTargets(index.keys());
      };
      let isKnownRefused = false;
      const onFailed = (error: unknown): void => {
        if (isKnownRefused || !(error instanceof ApiError) || (error.status !== 403 && error.status !== 404)) return;
        isKnownRefused = true;
        onRead(UNKNOWN_CLUSTER, error);
      };
      awaitClusterUid(cluster.api, signal, onFailed).then(onRead, reject);
    });
  }

  #copyKey(name: string): ObjectKey {
    return resourceKey(this.#management.api.cluster, SYNC_SECRET.kind, this.#namespace, name);
  }

  #copyOf(name: string): CopyStatus | undefined {
    const { generation, content } = this.#management.store(SYNC_SECRET).index.find(this.#copyKey(name)) ?? {};
    // After a write of Keyferry, the index has the server's answer, whose status still describes the earlier content.
    if (content === undefined || content.revision !== generation) return undefined;
    return { generation, status: content.status ?? {} };
  }

  protected isRule(object: SyncSecretRule): boolean {
    return isOfCcm(object, this.#isManagers);
  }

  protected override unreachable(): Cause | undefined {
    return this.#management.reachability.cause;
  }

  protected reportOn(facts: SyncSecretFacts, result: RuleResult): SyncSecretReport | undefined {
    const { key, rule: object } = facts;
    const { outcome, failure } = result;
    const state = tenantState(result, this.unreachable(), this.#copyOf(object.metadata.uid));
    if (failure !== undefined || outcome?.state === 'error' || outcome?.state === 'conflict') {
      this.metrics.finished(key, 'error');
    } else if (outcome?.state === 'synced') {
      this.metrics.finished(key, 'success');
    }
    const now = this.#context.clock.monotonic();
    if (state.phase === 'Pending') {
      const waitMs = this.pending.waitMs(key, state.isUnderWay === true, now);
      if (waitMs > 0) return { againMs: waitMs };
    } else {
      this.pending.done(key, now);
    }
    return this.statusOf(facts, state);
  }
}
