/**
 * The manager makes a Secret of each SyncSecret in the management cluster, and writes the status as KubeLB does.
 * `rules/sync-secret-rule-set.ts` turns the SyncSecrets into claims.
 */
import type { Controller } from '../../copy/engine/controller.ts';
import type { ResourceKey, RuleKey } from '../../copy/model/keys.ts';
import { SECRET } from '../../copy/model/kind.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import { watchCopies } from '../common/awaited-watches.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { finalizerStep } from '../common/rules/finalizer.ts';
import { SYNC_SECRET_FINALIZER } from './api.ts';
import { COPY_OF_SYNC_SECRET } from './rules/marks.ts';
import { servedNamespaces } from './rules/one-cluster.ts';
import type { SyncSecretRule } from './rules/rule.ts';
import { managementState, type RuleResult } from './rules/status.ts';
import { MANAGER_CONTROLLER, ManagerRules, originalTypeOf } from './rules/sync-secret-rule-set.ts';
import { SyncSecretReconciler, SYNC_SECRET_ENTRY, watchSyncSecrets } from './sync-secret-reconciler.ts';

export const syncSecretManager: ControllerEntry = {
  name: MANAGER_CONTROLLER,
  ...SYNC_SECRET_ENTRY,
  create,
};

function create(context: ControllerContext): Controller {
  const { cluster } = context;
  const { index } = cluster.store(SECRET);
  const reconciler = new ManagerReconciler(context, (secret) => index.find(secret) !== undefined);
  const open = (): void => {
    // Each change of a SyncSecret enqueues its rule.
    reconciler.watches.add(watchSyncSecrets(context, reconciler.store.sink));
    reconciler.watches.add(watchCopies(cluster, SECRET, 'syncsecret', COPY_OF_SYNC_SECRET));
  };
  return { reconciler, open };
}

export class ManagerReconciler extends SyncSecretReconciler<ManagerRules> {
  readonly rules: ManagerRules;
  protected readonly target = 'its Secret';
  readonly #exists: (secret: ResourceKey) => boolean;

  /** @param exists whether a Secret exists in the cache */
  constructor(context: ControllerContext, exists: (secret: ResourceKey) => boolean) {
    super('manager', context);
    this.#exists = exists;
    const { scope, config } = context;
    const isServed = servedNamespaces(config.syncsecret.servedNamespaces);
    this.rules = new ManagerRules(scope, { store: this.store, isServed });
  }

  protected isRule({ metadata: { namespace = '' } }: SyncSecretRule): boolean {
    return this.rules.options.isServed(namespace);
  }

  needsPreparation(rule: RuleKey): boolean {
    const object = this.store.get(rule);
    return object !== undefined && finalizerStep(object.metadata, SYNC_SECRET_FINALIZER) === 'add';
  }

  protected async report(
    rule: RuleKey,
    object: SyncSecretRule,
    result: RuleResult,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const exists = result.entry !== undefined && this.#exists(result.entry.target);
    const state = managementState(result, exists, originalTypeOf(object));
    if (state === undefined) return undefined;
    this.metrics.finished(rule, state.status === 'True' ? 'success' : 'error');
    return await this.writeStatus(rule, object, state, signal);
  }
}
