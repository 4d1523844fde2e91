/**
 * The manager: makes a Secret of each SyncSecret in the management cluster, with KubeLB's status. What the SyncSecrets mean is in
 * `rules/sync-secret-rule-set.ts`.
 */
import { COPY_LABEL } from '../common/excluded-metadata.ts';
import type { Controller, Preparation } from '../../copy/engine/controller.ts';
import type { ResourceKey, RuleKey } from '../../copy/model/keys.ts';
import { SECRET } from '../../copy/model/kind.ts';
import type { WatchGroup } from '../../kube/watch/watch-group.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { finalizerStep } from '../common/rules/finalizer.ts';
import { SYNC_SECRET, SYNC_SECRET_FINALIZER } from './api.ts';
import { SyncSecretMetrics } from './metrics.ts';
import { COPY_OF_SYNC_SECRET, isReadMark } from './rules/marks.ts';
import { LeftDeletions, managerDuty, servedNamespaces } from './rules/one-cluster.ts';
import type { SyncSecretRule } from './rules/rule.ts';
import { managementState } from './rules/status.ts';
import { CCM_CONTROLLER, MANAGER_CONTROLLER, ManagerRules, originalTypeOf } from './rules/sync-secret-rule-set.ts';
import { Travel } from './rules/travel.ts';
import {
  type ActiveProgress,
  SyncSecretReconciler,
  type SyncSecretReconcilerOptions,
} from './sync-secret-reconciler.ts';
import { SyncSecrets, watchSyncSecrets } from './sync-secrets.ts';

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
    const { cluster, clock, config } = context;
    const metrics = new SyncSecretMetrics(context.metrics.registry, 'manager', () => clock.monotonic());
    const { servedNamespaces: patterns } = config.syncsecret;
    const isServed = servedNamespaces(patterns, config.controllers.includes(CCM_CONTROLLER));
    this.#syncSecrets = new SyncSecrets({
      controller: MANAGER_CONTROLLER,
      component: COMPONENT,
      isRule: (rule) => managerDuty(rule, isServed) !== 'none',
      metrics,
      context,
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
          collection: 'secrets',
          scope: 'syncsecret',
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

export interface ManagerReconcilerOptions extends SyncSecretReconcilerOptions {
  readonly rules: ManagerRules;
  /** Whether a Secret exists, as far as is known. */
  readonly exists: (secret: ResourceKey) => boolean;
}

export class ManagerReconciler extends SyncSecretReconciler<ManagerReconcilerOptions> {
  protected readonly target = 'its Secret';

  override async listed(rule: RuleKey, signal: AbortSignal): Promise<RunResult | undefined> {
    await super.listed(rule, signal);
    const leftMs = this.rules.leftMs(rule);
    return leftMs === 0 ? undefined : { requeueAfterMs: leftMs };
  }

  preparationOf(rule: RuleKey): Preparation | undefined {
    const object = this.options.syncSecrets.store.get(rule);
    if (object === undefined || this.rules.leftMs(rule) > 0) return undefined;
    return finalizerStep(object.metadata, SYNC_SECRET_FINALIZER) === 'add' ? 'first' : undefined;
  }

  async prepare(rule: RuleKey, signal: AbortSignal): Promise<void> {
    await this.options.syncSecrets.addFinalizer(rule, undefined, signal);
  }

  protected async report(
    rule: RuleKey,
    object: SyncSecretRule,
    { entry, outcome, failure }: ActiveProgress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { syncSecrets, exists } = this.options;
    const state = managementState({
      outcome,
      failure,
      exists: entry !== undefined && exists(entry.claim.target),
      originalType: originalTypeOf(object),
    });
    if (state === undefined) return undefined;
    syncSecrets.metrics.finished(rule, state.status === 'True' ? 'success' : 'error');
    return await syncSecrets.writeStatus(rule, state, signal);
  }
}
