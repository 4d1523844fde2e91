/**
 * What CCM and manager do for SyncSecrets: their store, finalizers, statuses and deletions. The roles differ in the status and in the target. What
 * SyncSecrets mean is in `rules/sync-secret-rule-set.ts`.
 */
import type { Cause } from '../../copy/model/cause.ts';
import { isUnderWay } from '../../copy/model/claim.ts';
import { type RuleKey, ruleName } from '../../copy/model/keys.ts';
import { KeyLists } from '../../copy/model/observed.ts';
import type { Entry } from '../../copy/book/claim-book.ts';
import type { ContentUse } from '../../copy/cluster/objects/store.ts';
import type { Preparation, RuleProgress, RuleReconciler } from '../../copy/engine/controller.ts';
import type { KubeObject } from '../../kube/api.ts';
import { ApiError } from '../../kube/errors.ts';
import type { WatchGroup } from '../../kube/watch/watch-group.ts';
import type { WatchSink } from '../../kube/watch/watcher.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import { AwaitedWatches } from '../common/awaited-watches.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { CrdDiagnosis } from '../common/crd-diagnosis.ts';
import { Deletions } from '../common/rules/finalizer.ts';
import { liveRules, RuleClient } from '../common/rules/rule-client.ts';
import { nextCondition, type RuleEvent, RuleStatuses, sameConditions } from '../common/rules/rule-statuses.ts';
import { RuleStore } from '../common/rules/rule-store.ts';
import {
  ORIGINAL_FINALIZER,
  OWN_FINALIZERS,
  SYNC_SECRET,
  SYNC_SECRET_CRD_ADVICE,
  SYNC_SECRET_FINALIZER,
  SYNCED_CONDITION,
  type SyncSecretStatus,
} from './api.ts';
import { SyncSecretMetrics } from './metrics.ts';
import { isReadMark } from './rules/marks.ts';
import { Pending } from './pending.ts';
import { MAX_TEXT, MORE_FINALIZERS, ruleOf, ruleVersion, type SyncSecretRule } from './rules/rule.ts';
import { type RuleResult, type SyncState, terminatingState } from './rules/status.ts';
import type { SyncSecretRules } from './rules/sync-secret-rule-set.ts';

/** Not `FIELD_MANAGER`, because a SyncSecret may be a copy as well: see `RuleClient`. */
const RULES_MANAGER = 'keyferry-rules';
/** Until the next attempt to write a status, ms. */
const STATUS_RETRY_MS = 5000;

export abstract class SyncSecretReconciler<Rules extends SyncSecretRules = SyncSecretRules> implements RuleReconciler {
  abstract readonly rules: Rules;
  readonly store: RuleStore<SyncSecretRule>;
  /** At least those of SyncSecrets and of their targets here. */
  readonly watches = new AwaitedWatches();
  readonly getLive: RuleReconciler['getLive'];
  protected readonly context: ControllerContext;
  protected readonly metrics: SyncSecretMetrics;
  /** When a state that is not final is written. */
  protected readonly pending = new Pending();
  readonly #deletions: Deletions;
  readonly #client: RuleClient;
  readonly #lists = new KeyLists();
  readonly #statuses: RuleStatuses<SyncSecretRule, SyncSecretStatus>;

  /** @param role as in the names of the controller, of its metrics, and of the source of its events */
  constructor(role: 'ccm' | 'manager', context: ControllerContext) {
    this.context = context;
    const { engine, cluster, clock, config } = context;
    this.#deletions = new Deletions(clock, config.deletionTimeoutMs);
    this.metrics = new SyncSecretMetrics(context.metrics.registry, role, clock);
    this.store = new RuleStore({
      controller: `syncsecret-${role}`,
      toRule: (object) => {
        const rule = ruleOf(object, this.#lists);
        return this.isRule(rule) ? rule : undefined;
      },
      versionOf: ruleVersion,
      onChange: (rule, initial) => {
        this.metrics.started(rule);
        engine.enqueueRule(rule, initial ? 'low' : 'normal');
      },
      onSameVersion: (rule, before, after) => {
        if (this.#statuses.reported(rule, before, after)) engine.enqueueStatus(rule);
      },
    });
    const client = (this.#client = new RuleClient({
      api: cluster.api,
      kind: SYNC_SECRET,
      store: { storeResponse: (object) => this.#storeMetadata(object) },
      metadataOnly: true,
      onPrepared: (object) => cluster.store(SYNC_SECRET).hold(object),
      fieldManager: RULES_MANAGER,
    }));
    this.getLive = liveRules(async (rule, signal) => this.store.versionOf(await client.get(ruleName(rule), signal)));
    this.#statuses = new RuleStatuses({
      client,
      store: this.store,
      isSame: sameStatus,
      now: () => clock.now(),
      recordEvent: ({ metadata: { name, namespace = '', uid } }, event) => {
        const subject = { apiVersion: SYNC_SECRET.apiVersion, kind: SYNC_SECRET.kind, namespace, name, uid };
        context.recordEvent(`kubelb-${role}`, { subject, ...event });
      },
    });
  }

  /** What is deleted before the SyncSecret, for people. */
  protected abstract readonly target: string;
  /** Whether a SyncSecret is a rule of this controller. */
  protected abstract isRule(rule: SyncSecretRule): boolean;
  /** Annotations that are removed with the finalizer. */
  protected marksOf(_object: SyncSecretRule): readonly string[] {
    return [];
  }
  /** Why the cluster of the targets cannot be used. */
  protected unreachable(): Cause | undefined {
    return undefined;
  }

  /** Annotations that are written with the finalizer. */
  protected get propagation(): Readonly<Record<string, string>> | undefined {
    return undefined;
  }

  abstract preparationOf(rule: RuleKey): Preparation | undefined;

  /** Adds the finalizer in place of KubeLB's. @throws ApiError */
  async prepare(rule: RuleKey, signal: AbortSignal): Promise<void> {
    const object = this.store.get(rule);
    if (object === undefined || object.metadata.deletionTimestamp !== undefined) return;
    const whole = await this.#withFinalizers(rule, object, signal);
    const changes = { annotations: this.propagation, replaces: [ORIGINAL_FINALIZER] };
    await this.#client.addFinalizer(whole, SYNC_SECRET_FINALIZER, changes, signal);
  }

  /** Writes the status of an active SyncSecret. */
  protected abstract report(
    rule: RuleKey,
    object: SyncSecretRule,
    result: RuleResult,
    signal: AbortSignal,
  ): Promise<RunResult | undefined>;

  async listed(_rule: RuleKey, signal: AbortSignal): Promise<RunResult | undefined> {
    await this.watches.listed(signal);
    return undefined;
  }

  async updateStatus(
    rule: RuleKey,
    entries: Iterable<Entry>,
    { evaluated, failure }: RuleProgress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const object = this.store.get(rule);
    if (object === undefined) {
      this.metrics.forget(rule);
      this.#statuses.forget(rule);
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
    const outcome = isOutdated ? undefined : entry?.outcome;
    return await this.report(rule, object, { entry, outcome, failure }, signal);
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
    const monotonic = this.context.clock.monotonic();
    const { finalizers, deletionTimestamp } = object.metadata;
    const marks = this.marksOf(object);
    const unreachable = this.unreachable();
    if (marks.length === 0 && !finalizers.some((one) => OWN_FINALIZERS.has(one))) {
      // The finalizer of another client holds it.
      if (deletionTimestamp === undefined) return undefined;
      return await this.writeStatus(rule, object, terminatingState(undefined), signal);
    }
    const remaining = [...entries].filter(({ outcome }) => outcome.state !== 'released');
    const isRefused = unreachable !== undefined || remaining.some(({ outcome }) => outcome.state === 'error');
    const { isDone, isTimedOut, remainingMs } = this.#deletions.step(rule, object, remaining);
    const waiting = remaining.map(({ outcome }) => outcome).find((outcome) => !isUnderWay(outcome));
    const waitsFor = (waiting ?? unreachable)?.publicMessage;
    if (!isDone) {
      const waitMs = deletionTimestamp === undefined ? remainingMs : this.pending.waitMs(rule, !isRefused, monotonic);
      if (waitMs > 0) return { requeueAfterMs: Math.min(waitMs, remainingMs) };
      const isReported = await this.#report(rule, object, waitsFor, signal);
      return { requeueAfterMs: isReported ? remainingMs : Math.min(remainingMs, STATUS_RETRY_MS) };
    }
    this.pending.done(rule, monotonic);
    if (isTimedOut) {
      const last = waitsFor === undefined ? '' : ` Last state: ${waitsFor}`;
      const message = `the SyncSecret no longer waits for ${this.target}, which will be deleted when possible.${last}`;
      // Recorded once for all retries.
      this.#statuses.record(rule, object, [{ type: 'Warning', reason: 'DeletionTimeout', message }]);
    }
    const annotations = marks.length === 0 ? undefined : Object.fromEntries(marks.map((key) => [key, null]));
    const whole = await this.#withFinalizers(rule, object, signal);
    // Also the finalizer of KubeLB.
    await this.#client.removeFinalizers(whole, [...OWN_FINALIZERS], { annotations }, signal);
    return undefined;
  }

  /**
   * Says in the status what the deletion waits for. A failure does not prolong the deletion: KubeLB's permissions do not include the status.
   * @returns whether the status is written
   */
  async #report(
    rule: RuleKey,
    object: SyncSecretRule,
    waitsFor: string | undefined,
    signal: AbortSignal,
  ): Promise<boolean> {
    try {
      return (await this.writeStatus(rule, object, terminatingState(waitsFor), signal)) === undefined;
    } catch (error) {
      signal.throwIfAborted();
      const isForbidden = error instanceof ApiError && error.status === 403;
      const message = 'the status of a SyncSecret that is being deleted cannot be written';
      if (!isForbidden) this.context.log.warn(message, { rule, error });
      return false;
    }
  }

  /** The object with all its finalizers, which are replaced as one list. @throws ApiError */
  async #withFinalizers(rule: RuleKey, object: SyncSecretRule, signal: AbortSignal): Promise<KubeObject> {
    if (!object.metadata.finalizers.includes(MORE_FINALIZERS)) return object;
    const { metadata, ...rest } = await this.#client.get(ruleName(rule), signal);
    // Another object of the name may have been created meanwhile: then the write fails, because the patch requires this uid.
    return { ...rest, metadata: { ...metadata, uid: object.metadata.uid } };
  }

  /**
   * Writes phase and condition if they differ, and a Warning event when the condition turns False or has another cause.
   * @returns when to try again, if somebody else keeps changing them
   * @throws ApiError
   */
  protected async writeStatus(
    rule: RuleKey,
    object: SyncSecretRule,
    { phase, isUnderWay: isWaiting, ...state }: SyncState,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { generation } = object.metadata;
    const [before] = this.#statuses.latest(rule, object).conditions ?? [];
    const next = { type: SYNCED_CONDITION, ...state };
    const condition = nextCondition(before, next, generation, this.context.clock.now(), MAX_TEXT);
    const { status, reason, message } = condition;
    const isNews = before?.status !== status || before.reason !== reason || before.message !== message;
    // A SyncSecret that waits for its turn is no reason for a warning.
    const isWarning = status === 'False' && isWaiting !== true && isNews;
    const events: RuleEvent[] = isWarning ? [{ type: 'Warning', reason, message }] : [];
    const observed = generation === undefined ? {} : { observedGeneration: generation };
    const written = { status: { phase, ...observed, conditions: [condition] }, events };
    return await this.#statuses.write(rule, object, written, signal);
  }

  /** The response to most own writes has no values, and so neither type nor `immutable`. Without a new generation these are the same. */
  #storeMetadata(object: KubeObject): void {
    const { namespace = '', name, generation } = object.metadata;
    const stored = this.store.get(this.store.key(namespace, name));
    if (stored?.metadata.generation === generation) this.store.storeResponse({ ...stored, ...object });
  }
}

function sameStatus(a: SyncSecretStatus, b: SyncSecretStatus): boolean {
  return (
    a.phase === b.phase && a.observedGeneration === b.observedGeneration && sameConditions(a.conditions, b.conditions)
  );
}

/** What the entries of all controllers of SyncSecrets say. */
export const SYNC_SECRET_ENTRY = {
  kinds: [SYNC_SECRET],
  hasTenants: true,
  annotationReader: () => isReadMark,
} satisfies Partial<ControllerEntry>;

/** The answer to the write of the finalizer has the values of a SyncSecret. Those of thousands without one would take the room of others. */
const HAS_FINALIZER: ContentUse['isSource'] = ({ metadata }) =>
  metadata.finalizers?.includes(SYNC_SECRET_FINALIZER) === true;

/** Watches all SyncSecrets of the cluster that the process runs in. @param isSource @see ContentUse */
export function watchSyncSecrets(
  { cluster, config }: ControllerContext,
  sink: WatchSink,
  isSource = HAS_FINALIZER,
): WatchGroup {
  const diagnosis = new CrdDiagnosis({
    api: cluster.api,
    kind: SYNC_SECRET,
    advice: SYNC_SECRET_CRD_ADVICE,
    isOptional: false,
    isAlone: config.controllers.every((name) => name.startsWith('syncsecret-')),
  });
  return cluster.watchContents(SYNC_SECRET, { isSource }, sink, diagnosis);
}
