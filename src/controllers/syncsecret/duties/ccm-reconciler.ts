/** What the CCM does for the SyncSecrets of a tenant cluster: finalizers, marks, and the status of the whole chain. What they mean is in `ccm-rule-set.ts`. */
import type { Cause } from '../../../copy/model/cause.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import type { Preparation } from '../../../copy/engine/rule-reconciler.ts';
import type { RunResult } from '../../../runtime/queue/keyed-queue-options.ts';
import { finalizerStep } from '../../common/rules/finalizer.ts';
import { SYNC_SECRET_FINALIZER } from '../api.ts';
import type { CcmRules } from '../rules/ccm-rule-set.ts';
import type { CopyStatus } from './copies.ts';
import { PROPAGATED_ANNOTATION } from '../rules/marks.ts';
import type { SyncSecretRule } from '../rules/rule.ts';
import { tenantState } from '../rules/status.ts';
import { type Progress, SyncSecretReconciler, type SyncSecretReconcilerOptions } from './sync-secret-reconciler.ts';

export interface CcmReconcilerOptions extends SyncSecretReconcilerOptions {
  readonly rules: CcmRules;
  /** The namespace of the copies. */
  readonly namespace: string;
  readonly copyOf: (name: string) => CopyStatus | undefined;
  /** Why the management cluster cannot be used. */
  readonly unreachable: () => Cause | undefined;
  /** A SyncSecret has the mark of another management namespace again, after it had ours: another CCM copies it, too. */
  readonly onOtherCcm: (object: SyncSecretRule) => void;
}

export class CcmReconciler extends SyncSecretReconciler {
  readonly #options: CcmReconcilerOptions;
  /** Whose mark named another namespace, and was replaced: the uids. */
  readonly #remarked = new Map<RuleKey, string>();

  constructor(options: CcmReconcilerOptions) {
    super(options.rules, options, {
      target: 'its copy in the management cluster',
      // A manager in this cluster serves it from now on, but not while it is being deleted.
      marksOf: ({ metadata, propagated }) =>
        metadata.deletionTimestamp === undefined && propagated !== undefined ? [PROPAGATED_ANNOTATION] : [],
      unreachable: options.unreachable,
    });
    this.#options = options;
  }

  /** The mark is written with the finalizer, and replaced where it names another namespace: a tenant may have been renamed. */
  preparationOf(rule: RuleKey): Preparation | undefined {
    const { syncSecrets, namespace } = this.#options;
    const object = syncSecrets.store.get(rule);
    if (object === undefined || this.#options.rules.dutyOf(object) !== 'copy') return undefined;
    if (finalizerStep(object.metadata, SYNC_SECRET_FINALIZER) === 'add') return 'first';
    if (object.propagated === namespace) return undefined;
    return object.propagated === undefined || this.#remarked.get(rule) !== object.metadata.uid ? 'first' : undefined;
  }

  async prepare(rule: RuleKey, signal: AbortSignal): Promise<void> {
    const { syncSecrets, namespace } = this.#options;
    const object = syncSecrets.store.get(rule);
    if (object === undefined || this.#options.rules.dutyOf(object) !== 'copy') return;
    await syncSecrets.addFinalizer(rule, { [PROPAGATED_ANNOTATION]: namespace }, signal);
    if (object.propagated !== undefined && object.propagated !== namespace)
      this.#remarked.set(rule, object.metadata.uid);
  }

  override async updateStatus(
    ...args: Parameters<SyncSecretReconciler['updateStatus']>
  ): Promise<RunResult | undefined> {
    const [rule] = args;
    const { syncSecrets, namespace, onOtherCcm } = this.#options;
    const object = syncSecrets.store.get(rule);
    if (object === undefined) this.#remarked.delete(rule);
    // The other name came back, so it is that of a CCM that runs: without an end, each would replace the mark.
    else if (this.#remarked.get(rule) === object.metadata.uid && object.propagated !== namespace) onOtherCcm(object);
    return await super.updateStatus(...args);
  }

  protected async report(
    rule: RuleKey,
    object: SyncSecretRule,
    { outcome, failure }: Progress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { syncSecrets, metrics, copyOf, unreachable, monotonic } = this.#options;
    // If it is the manager's, the status is too.
    if (this.#options.rules.dutyOf(object) === 'keep') return undefined;
    const state = tenantState({ outcome, failure, unreachable: unreachable(), copy: copyOf(object.metadata.uid) });
    if (failure !== undefined || outcome?.state === 'error' || outcome?.state === 'conflict') {
      metrics?.finished(rule, 'error');
    } else if (outcome?.state === 'synced') {
      metrics?.finished(rule, 'success');
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
