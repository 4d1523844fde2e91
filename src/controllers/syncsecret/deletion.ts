/**
 * The deletion of SyncSecrets, in both clusters. The finalizer stays until the copy or the Secret is gone, or until a time limit. The status
 * gives the reason of the wait. An object that remains after the limit is an orphan, and is deleted as soon as that is possible.
 */
import { type Cause, isUnderWay } from '../../copy/model/claim.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import type { Entry } from '../../copy/plan/claim-book.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import { deletionStep } from '../common/deletion.ts';
import { OWN_FINALIZERS } from './api.ts';
import type { Pending } from './pending.ts';
import type { SyncSecretRule } from './rule.ts';
import { publicWait, terminatingState } from './status.ts';
import type { SyncSecrets } from './sync-secrets.ts';

export interface DeletionsOptions {
  readonly syncSecrets: Pick<SyncSecrets, 'writeStatus' | 'warn' | 'removeFinalizer'>;
  /** What is deleted before the SyncSecret, for people. */
  readonly target: string;
  /** Annotations that are removed with the finalizer. */
  readonly marksOf: (object: SyncSecretRule) => readonly string[];
  /** Why the cluster of the targets cannot be used. */
  readonly unreachable: () => Cause | undefined;
  /** When a state that is not final is written. */
  readonly pending: Pending;
  /** Longest wait since the deletion was requested, ms. */
  readonly timeoutMs: number;
  /** Wall clock, ms. */
  readonly now: () => number;
}

/** A process that starts after the time limit tries the deletion for this long, ms. It usually takes less than a second. */
const FIRST_TRY_MS = 10_000;
/** Until the next attempt to write a status, ms. */
const STATUS_RETRY_MS = 5000;

export class Deletions {
  readonly #options: DeletionsOptions;
  /** Since when this process knows of each deletion, ms. */
  readonly #since = new Map<RuleKey, number>();

  constructor(options: DeletionsOptions) {
    this.#options = options;
  }

  /** The rule is gone, or is active again. */
  forget(rule: RuleKey): void {
    this.#since.delete(rule);
  }

  /**
   * Reports the deletion, and removes the finalizer when it is done.
   * @param object is being deleted, or is released without being deleted
   * @param entries its claims, which release their targets
   */
  async update(
    rule: RuleKey,
    object: SyncSecretRule,
    entries: Iterable<Entry>,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { syncSecrets, target, marksOf, unreachable, pending, now } = this.#options;
    const { finalizers, deletionTimestamp } = object.metadata;
    const marks = marksOf(object);
    if (marks.length === 0 && !finalizers.some((one) => OWN_FINALIZERS.has(one))) {
      // The finalizer of another client holds it.
      if (deletionTimestamp !== undefined) await syncSecrets.writeStatus(rule, terminatingState(undefined), signal);
      return undefined;
    }
    const remaining = [...entries].filter(({ outcome }) => outcome.state !== 'released');
    const isRefused = unreachable() !== undefined || remaining.some(({ outcome }) => outcome.state === 'error');
    const limitMs = this.#limitOf(rule, object, isRefused);
    const { isDone, isTimedOut, remainingMs } = deletionStep(object, remaining, limitMs, now());
    const waiting = remaining.map(({ outcome }) => outcome).find((outcome) => !isUnderWay(outcome));
    const waitsFor = waiting === undefined ? unreachable()?.message : publicWait(waiting);
    if (!isDone) {
      const waitMs = deletionTimestamp === undefined ? remainingMs : pending.waitMs(rule, !isRefused, now());
      if (waitMs > 0) return { requeueAfterMs: Math.min(waitMs, remainingMs) };
      const isReported = await this.#report(rule, waitsFor, signal);
      return { requeueAfterMs: isReported ? remainingMs : Math.min(remainingMs, STATUS_RETRY_MS) };
    }
    pending.done(rule, now());
    if (isTimedOut) {
      const last = waitsFor === undefined ? '' : ` Last state: ${waitsFor}`;
      const text = `the SyncSecret no longer waits for ${target}, which will be deleted when possible.${last}`;
      syncSecrets.warn(rule, 'DeletionTimeout', text);
    }
    await syncSecrets.removeFinalizer(rule, marks, signal);
    return undefined;
  }

  /** The time limit; longer for a process that knows of the deletion only since then, unless it cannot delete the copy. */
  #limitOf(rule: RuleKey, { metadata: { deletionTimestamp } }: SyncSecretRule, isRefused: boolean): number {
    const { timeoutMs, now } = this.#options;
    const since = this.#since.get(rule) ?? now();
    this.#since.set(rule, since);
    if (deletionTimestamp === undefined || isRefused) return timeoutMs;
    const lateMs = since - Date.parse(deletionTimestamp);
    return lateMs < timeoutMs ? timeoutMs : lateMs + Math.min(FIRST_TRY_MS, timeoutMs);
  }

  /**
   * Says in the status what the deletion waits for. A failure does not prolong the deletion: KubeLB's permissions do not include the status.
   * @returns whether it is written
   */
  async #report(rule: RuleKey, waitsFor: string | undefined, signal: AbortSignal): Promise<boolean> {
    try {
      await this.#options.syncSecrets.writeStatus(rule, terminatingState(waitsFor), signal);
      return true;
    } catch {
      signal.throwIfAborted();
      return false;
    }
  }
}
