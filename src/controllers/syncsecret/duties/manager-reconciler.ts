/** What the manager does for the SyncSecrets of the management cluster: finalizers and status. What they mean is in `manager-rule-set.ts`. */
import type { ResourceKey, RuleKey } from '../../../copy/model/keys.ts';
import type { Preparation } from '../../../copy/engine/rule-reconciler.ts';
import type { RunResult } from '../../../runtime/queue/keyed-queue-options.ts';
import { finalizerStep } from '../../common/rules/finalizer.ts';
import { SYNC_SECRET_FINALIZER } from '../api.ts';
import { type ManagerRules, originalTypeOf } from '../rules/manager-rule-set.ts';
import type { LeftDeletions } from '../rules/one-cluster.ts';
import type { SyncSecretRule } from '../rules/rule.ts';
import { managementState } from '../rules/status.ts';
import { type Progress, SyncSecretReconciler, type SyncSecretReconcilerOptions } from './sync-secret-reconciler.ts';

export interface ManagerReconcilerOptions extends SyncSecretReconcilerOptions {
  readonly rules: ManagerRules;
  /** `undefined`: it leaves no deletion to a CCM. */
  readonly leftDeletions?: LeftDeletions;
  /** Whether a Secret exists, as far as is known. */
  readonly exists: (secret: ResourceKey) => boolean;
}

export class ManagerReconciler extends SyncSecretReconciler {
  readonly #options: ManagerReconcilerOptions;

  constructor(options: ManagerReconcilerOptions) {
    super(options.rules, options, { target: 'its Secret', marksOf: () => [], unreachable: () => undefined });
    this.#options = options;
  }

  override async listed(rule: RuleKey, signal: AbortSignal): Promise<RunResult | undefined> {
    await super.listed(rule, signal);
    const { syncSecrets, leftDeletions } = this.#options;
    const remainingMs = leftDeletions?.remainingMs(rule, syncSecrets.store.get(rule)) ?? 0;
    return remainingMs === 0 ? undefined : { requeueAfterMs: remainingMs };
  }

  preparationOf(rule: RuleKey): Preparation | undefined {
    const object = this.#options.syncSecrets.store.get(rule);
    if (object === undefined || !this.#options.rules.isServed(rule, object)) return undefined;
    return finalizerStep(object.metadata, SYNC_SECRET_FINALIZER) === 'add' ? 'first' : undefined;
  }

  async prepare(rule: RuleKey, signal: AbortSignal): Promise<void> {
    await this.#options.syncSecrets.addFinalizer(rule, undefined, signal);
  }

  protected async report(
    rule: RuleKey,
    object: SyncSecretRule,
    { entry, outcome, failure }: Progress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { syncSecrets, metrics, exists } = this.#options;
    const state = managementState({
      outcome,
      failure,
      exists: entry !== undefined && exists(entry.claim.target),
      originalType: originalTypeOf(object),
    });
    if (state === undefined) return undefined;
    metrics?.finished(rule, state.status === 'True' ? 'success' : 'error');
    return await syncSecrets.writeStatus(rule, state, signal);
  }
}
