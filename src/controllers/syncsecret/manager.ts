/** The manager: makes a Secret of each SyncSecret in the management cluster, with KubeLB's status. */
import type { Controller } from '../../copy/engine/controller.ts';
import { SECRET } from '../../copy/model/kind.ts';
import type { WatchGroup } from '../../kube/watch/watch-group.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { CCM_CONTROLLER } from './rules/ccm-rule-set.ts';
import { SYNC_SECRET } from './rules/kind.ts';
import { ManagerReconciler } from './duties/manager-reconciler.ts';
import { MANAGER_CONTROLLER, ManagerRules } from './rules/manager-rule-set.ts';
import { COPY_LABEL, COPY_OF_SYNC_SECRET, isReadMark } from './rules/marks.ts';
import { SyncSecretMetrics } from './metrics.ts';
import { LeftDeletions, managerDuty, servedNamespaces } from './rules/one-cluster.ts';
import { runningSyncSecrets } from './duties/running-sync-secrets.ts';
import type { SyncSecrets } from './duties/sync-secrets.ts';
import { Travel } from './rules/travel.ts';
import { watchSyncSecrets } from './duties/watch.ts';

export const syncSecretManager: ControllerEntry = {
  name: MANAGER_CONTROLLER,
  kinds: [SYNC_SECRET],
  hasTenants: true,
  annotationReader: () => isReadMark,
  create: (context) => new SyncSecretManager(context),
  reader: async () => (await import('./reader.ts')).syncSecretReader,
  programs: async () => [(await import('./migration.ts')).kubelbMigration],
};

/** The source component of events. */
const COMPONENT = 'kubelb-manager';
/** A deletion is left to the CCM for so many times the limit of deletions: the CCM itself keeps it. */
const LEFT_LIMITS = 2;

class SyncSecretManager implements Controller {
  readonly reconciler: ManagerReconciler;
  readonly #context: ControllerContext;
  readonly #syncSecrets: SyncSecrets;
  readonly #watches: WatchGroup[] = [];

  constructor(context: ControllerContext) {
    this.#context = context;
    const { cluster, clock, config, metrics } = context;
    const own = new SyncSecretMetrics(metrics.registry, 'manager', () => clock.monotonic());
    const { servedNamespaces: patterns } = config.syncsecret;
    const isServed = servedNamespaces(patterns, config.controllers.includes(CCM_CONTROLLER));
    this.#syncSecrets = runningSyncSecrets(context, COMPONENT, own, {
      controller: MANAGER_CONTROLLER,
      isRule: (rule) => managerDuty(rule, isServed) !== 'none',
    });
    const leftDeletions = new LeftDeletions(LEFT_LIMITS * config.deletionTimeoutMs, isServed, () => clock.monotonic());
    this.reconciler = new ManagerReconciler({
      rules: new ManagerRules({
        cluster: cluster.api.cluster,
        store: this.#syncSecrets.store,
        travel: new Travel(config.syncsecret),
        isServed,
        leftDeletions,
      }),
      syncSecrets: this.#syncSecrets,
      leftDeletions,
      metrics: own,
      exists: (secret) => cluster.store(SECRET).index.find(secret) !== undefined,
      synced: async () => await Promise.all(this.#watches.map(async (watch) => await watch.synced)),
      deletionTimeoutMs: config.deletionTimeoutMs,
      monotonic: () => clock.monotonic(),
    });
  }

  open(): void {
    const { cluster } = this.#context;
    this.#watches.push(
      watchSyncSecrets(this.#context, this.#syncSecrets.store.sink),
      cluster.watch(
        {
          name: 'secrets/syncsecret',
          path: '/api/v1/secrets',
          labelSelector: `${COPY_LABEL}=${COPY_OF_SYNC_SECRET}`,
          metadataOnly: true,
          inPages: true,
        },
        cluster.store(SECRET).index.feed().sink,
      ),
    );
  }

  stop(): void {
    // Its watches are those of the cluster.
  }
}
