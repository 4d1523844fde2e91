/**
 * What CCM and manager do for SyncSecrets: the way to a status, and deletions. The roles differ in the status. What SyncSecrets mean is in
 * `rules/sync-secret-rule-set.ts`.
 */
import type { Cause } from '../../copy/model/cause.ts';
import { isUnderWay } from '../../copy/model/claim.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import type { Entry } from '../../copy/book/claim-book.ts';
import type { Preparation, RuleProgress, RuleReconciler } from '../../copy/engine/controller.ts';
import { ApiError } from '../../kube/errors.ts';
import type { Log } from '../../observe/log.ts';
import { orAborted } from '../../runtime/abort.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import { type DeletionOptions, Deletions } from '../common/rules/finalizer.ts';
import { liveRules } from '../common/rules/rule-client.ts';
import { OWN_FINALIZERS } from './api.ts';
import { Pending } from './pending.ts';
import { ruleVersion, type SyncSecretRule } from './rules/rule.ts';
import { type RuleResult, terminatingState } from './rules/status.ts';
import type { SyncSecrets } from './sync-secrets.ts';
import type { SyncSecretRules } from './rules/sync-secret-rule-set.ts';

export interface SyncSecretReconcilerOptions extends DeletionOptions {
  readonly rules: SyncSecretRules;
  readonly syncSecrets: Pick<SyncSecrets, keyof SyncSecrets>;
  /** Settles when all is known that an evaluation needs: at least the lists of SyncSecrets and of their targets here. */
  readonly synced: () => Promise<unknown>;
  readonly log: Log;
}

/** The result of the work on an active SyncSecret, for its status. */
export interface ActiveProgress extends RuleResult {
  /** Its claim, also one of an earlier version. */
  readonly entry: Entry | undefined;
}

/** Until the next attempt to write a status, ms. */
const STATUS_RETRY_MS = 5000;

export abstract class SyncSecretReconciler<
  Options extends SyncSecretReconcilerOptions = SyncSecretReconcilerOptions,
> implements RuleReconciler {
  readonly rules: Options['rules'];
  readonly getLive: RuleReconciler['getLive'];
  protected readonly options: Options;
  /** When a state that is not final is written. */
  protected readonly pending = new Pending();
  readonly #deletions: Deletions;

  constructor(options: Options) {
    this.options = options;
    this.rules = options.rules;
    this.#deletions = new Deletions(options);
    this.getLive = liveRules(async (rule, signal) => await options.syncSecrets.readVersion(rule, signal));
  }

  /** What is deleted before the SyncSecret, for people. */
  protected abstract readonly target: string;
  /** Annotations that are removed with the finalizer. */
  protected marksOf(_object: SyncSecretRule): readonly string[] {
    return [];
  }
  /** Why the cluster of the targets cannot be used. */
  protected unreachable(): Cause | undefined {
    return undefined;
  }

  abstract preparationOf(rule: RuleKey): Preparation | undefined;
  abstract prepare(rule: RuleKey, signal: AbortSignal): Promise<void>;

  /** Writes the status of an active SyncSecret. */
  protected abstract report(
    rule: RuleKey,
    object: SyncSecretRule,
    progress: ActiveProgress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined>;

  async listed(_rule: RuleKey, signal: AbortSignal): Promise<RunResult | undefined> {
    await orAborted(this.options.synced(), signal, 'waiting for the list of SyncSecrets');
    return undefined;
  }

  async updateStatus(
    rule: RuleKey,
    entries: Iterable<Entry>,
    { evaluated, failure }: RuleProgress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { syncSecrets } = this.options;
    const object = syncSecrets.store.get(rule);
    if (object === undefined) {
      syncSecrets.forget(rule);
      this.pending.forget(rule);
      this.#deletions.forget(rule);
      return undefined;
    }
    // Nothing was done yet for a SyncSecret without the finalizer.
    const isOutdated = evaluated !== ruleVersion(object) || this.preparationOf(rule) === 'first';
    if (!this.rules.isActive(object)) {
      return isOutdated ? undefined : await this.#release(rule, object, entries, signal);
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

  /**
   * Reports the deletion, and removes the finalizer when the copy or the Secret is gone, or at a time limit. The status gives
   * the reason of the wait. An object that remains after the limit is an orphan, and is deleted as soon as that is possible.
   * @param object is being deleted, or is released without being deleted
   * @param entries its claims, which release their targets
   */
  async #release(
    rule: RuleKey,
    object: SyncSecretRule,
    entries: Iterable<Entry>,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { syncSecrets, monotonic } = this.options;
    const { finalizers, deletionTimestamp } = object.metadata;
    const marks = this.marksOf(object);
    const unreachable = this.unreachable();
    if (marks.length === 0 && !finalizers.some((one) => OWN_FINALIZERS.has(one))) {
      // The finalizer of another client holds it.
      if (deletionTimestamp === undefined) return undefined;
      return await syncSecrets.writeStatus(rule, terminatingState(undefined), signal);
    }
    const remaining = [...entries].filter(({ outcome }) => outcome.state !== 'released');
    const isRefused = unreachable !== undefined || remaining.some(({ outcome }) => outcome.state === 'error');
    const { isDone, isTimedOut, remainingMs } = this.#deletions.step(rule, object, remaining);
    const waiting = remaining.map(({ outcome }) => outcome).find((outcome) => !isUnderWay(outcome));
    const waitsFor = (waiting ?? unreachable)?.publicMessage;
    if (!isDone) {
      const waitMs = deletionTimestamp === undefined ? remainingMs : this.pending.waitMs(rule, !isRefused, monotonic());
      if (waitMs > 0) return { requeueAfterMs: Math.min(waitMs, remainingMs) };
      const isReported = await this.#report(rule, waitsFor, signal);
      return { requeueAfterMs: isReported ? remainingMs : Math.min(remainingMs, STATUS_RETRY_MS) };
    }
    this.pending.done(rule, monotonic());
    if (isTimedOut) {
      const last = waitsFor === undefined ? '' : ` Last state: ${waitsFor}`;
      const text = `the SyncSecret no longer waits for ${this.target}, which will be deleted when possible.${last}`;
      syncSecrets.warn(rule, 'DeletionTimeout', text);
    }
    await syncSecrets.removeFinalizer(rule, marks, signal);
    return undefined;
  }

  /**
   * Says in the status what the deletion waits for. A failure does not prolong the deletion: KubeLB's permissions do not include the status.
   * @returns whether the status is written
   */
  async #report(rule: RuleKey, waitsFor: string | undefined, signal: AbortSignal): Promise<boolean> {
    const { syncSecrets, log } = this.options;
    try {
      return (await syncSecrets.writeStatus(rule, terminatingState(waitsFor), signal)) === undefined;
    } catch (error) {
      signal.throwIfAborted();
      const isForbidden = error instanceof ApiError && error.status === 403;
      if (!isForbidden) log.warn('the status of a SyncSecret that is being deleted cannot be written', { rule, error });
      return false;
    }
  }
}
