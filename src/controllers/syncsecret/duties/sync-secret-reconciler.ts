/** What CCM and manager do for SyncSecrets: deletions and the way to a status. The roles differ in the status. What SyncSecrets mean is in `sync-secret-rule-set.ts`. */
import type { Cause } from '../../../copy/model/cause.ts';
import type { Outcome } from '../../../copy/model/claim.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import type { Entry } from '../../../copy/book/claim-book.ts';
import type { Preparation, RuleProgress, RuleReconciler } from '../../../copy/engine/rule-reconciler.ts';
import { orAborted } from '../../../runtime/abort.ts';
import type { RunResult } from '../../../runtime/queue/keyed-queue-options.ts';
import type { DeletionOptions } from '../../common/rules/deletion.ts';
import { liveRules } from '../../common/rules/live-rules.ts';
import { SyncSecretDeletions, type SyncSecretDeletionsOptions } from './deletion.ts';
import type { SyncSecretMetrics } from '../metrics.ts';
import { Pending } from './pending.ts';
import { ruleVersion, type SyncSecretRule } from '../rules/rule.ts';
import type { SyncSecrets } from './sync-secrets.ts';
import type { SyncSecretRules } from '../rules/sync-secret-rule-set.ts';

export interface SyncSecretReconcilerOptions extends DeletionOptions {
  readonly syncSecrets: SyncSecrets;
  readonly metrics: SyncSecretMetrics | undefined;
  /** Settles when all is known that an evaluation needs: at least the lists of SyncSecrets and of their targets here. */
  readonly synced: () => Promise<unknown>;
}

/** The result of the work on an active SyncSecret, for its status. */
export interface Progress {
  /** Of its claim. */
  readonly entry: Entry | undefined;
  /** As in `entry`; `undefined`: it is of an earlier version of the SyncSecret, or there is none. */
  readonly outcome: Outcome | undefined;
  /** `prepare` or `evaluate` fails. */
  readonly failure: Cause | undefined;
}

export abstract class SyncSecretReconciler implements RuleReconciler {
  readonly rules: SyncSecretRules;
  readonly getLive: RuleReconciler['getLive'];
  protected readonly pending = new Pending();
  readonly #options: SyncSecretReconcilerOptions;
  readonly #deletions: SyncSecretDeletions;

  constructor(
    rules: SyncSecretRules,
    options: SyncSecretReconcilerOptions,
    deletion: Pick<SyncSecretDeletionsOptions, 'target' | 'marksOf' | 'unreachable'>,
  ) {
    this.rules = rules;
    this.#options = options;
    const { syncSecrets } = options;
    this.#deletions = new SyncSecretDeletions({ ...options, ...deletion, pending: this.pending });
    this.getLive = liveRules(async (rule, signal) => await syncSecrets.readVersion(rule, signal));
  }

  abstract preparationOf(rule: RuleKey): Preparation | undefined;
  abstract prepare(rule: RuleKey, signal: AbortSignal): Promise<void>;

  /** Writes the status of an active SyncSecret. */
  protected abstract report(
    rule: RuleKey,
    object: SyncSecretRule,
    progress: Progress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined>;

  async listed(_rule: RuleKey, signal: AbortSignal): Promise<RunResult | undefined> {
    await orAborted(this.#options.synced(), signal, 'waiting for the list of SyncSecrets');
    return undefined;
  }

  async updateStatus(
    rule: RuleKey,
    entries: Iterable<Entry>,
    { evaluated, failure }: RuleProgress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { syncSecrets, metrics } = this.#options;
    const object = syncSecrets.store.get(rule);
    if (object === undefined) {
      syncSecrets.forget(rule);
      metrics?.forget(rule);
      this.pending.forget(rule);
      this.#deletions.forget(rule);
      return undefined;
    }
    // Without the finalizer nothing was done for it.
    const isOutdated = evaluated !== ruleVersion(object) || this.preparationOf(rule) === 'first';
    if (!this.rules.isActive(object)) {
      return isOutdated ? undefined : await this.#deletions.update(rule, object, entries, signal);
    }
    this.#deletions.forget(rule);
    if (isOutdated && failure === undefined) return undefined;
    const [entry] = entries;
    return await this.report(
      rule,
      object,
      { entry, outcome: isOutdated ? undefined : entry?.outcome, failure },
      signal,
    );
  }
}
