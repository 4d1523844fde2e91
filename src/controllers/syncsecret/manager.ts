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
import { Deletions, finalizerStep } from '../common/rules/finalizer.ts';
import { SYNC_SECRET, SYNC_SECRET_FINALIZER } from './api.ts';
import { COPY_OF_SYNC_SECRET, isReadMark } from './rules/marks.ts';
import { managerDuty, servedNamespaces } from './rules/one-cluster.ts';
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
  create,
  reader: async () => (await import('./reader.ts')).syncSecretReader,
  programs: async () => [(await import('./migration.ts')).kubelbMigration],
};

/** A deletion is left to the CCM for so many times the limit of deletions: the CCM itself keeps it. */
const LEFT_LIMITS = 2;

function create(context: ControllerContext): Controller {
  const { cluster, clock, config, log } = context;
  const { deletionTimeoutMs, controllers, syncsecret } = config;
  const monotonic = (): number => clock.monotonic();
  const isServed = servedNamespaces(syncsecret.servedNamespaces, controllers.includes(CCM_CONTROLLER));
  const isRule = (rule: SyncSecretRule): boolean => managerDuty(rule, isServed) !== 'none';
  const syncSecrets = new SyncSecrets({ role: 'manager', isRule, context });
  const { index } = cluster.store(SECRET);
  const watches: WatchGroup[] = [];
  const reconciler = new ManagerReconciler({
    rules: new ManagerRules({
      cluster: cluster.api.cluster,
      store: syncSecrets.store,
      travel: new Travel(syncsecret),
      reach: context.reach,
      isServed,
      leftDeletions: new Deletions({ deletionTimeoutMs: LEFT_LIMITS * deletionTimeoutMs, monotonic }),
    }),
    syncSecrets,
    exists: (secret) => index.find(secret) !== undefined,
    synced: async () => await Promise.all(watches.map(async (watch) => await watch.synced)),
    log,
    deletionTimeoutMs,
    monotonic,
  });
  const secrets = {
    collection: 'secrets',
    scope: 'syncsecret',
    path: '/api/v1/secrets',
    labelSelector: `${COPY_LABEL}=${COPY_OF_SYNC_SECRET}`,
    metadataOnly: true,
    inPages: true,
  };
  const open = (): void => {
    watches.push(watchSyncSecrets(context, syncSecrets.store.sink), cluster.watch(secrets, index.feed().sink));
  };
  return { reconciler, open };
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
