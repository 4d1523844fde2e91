/**
 * The part that the reconcilers of CCM and manager share: store, finalizers, statuses and deletions of SyncSecrets.
 * Their targets and statuses differ. `rules/sync-secret-rule-set.ts` turns the SyncSecrets into claims.
 */
import { type Cause, causeOf } from '../../copy/model/cause.ts';
import { isUnderWay, type Undeleted } from '../../copy/model/claim.ts';
import { type RuleKey, ruleName } from '../../copy/model/keys.ts';
import { KeyLists } from '../../copy/model/key-lists.ts';
import type { Entry } from '../../copy/book/claim-book.ts';
import type { RuleProgress, RuleReconciler } from '../../copy/engine/controller.ts';
import type { KubeObject } from '../../kube/api.ts';
import { ApiError } from '../../kube/errors.ts';
import type { WatchGroup } from '../../kube/watch/watch-group.ts';
import type { WatchSink } from '../../kube/watch/watcher.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import { AwaitedWatches } from '../common/awaited-watches.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
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

/** Field manager of writes to rules. It differs from that of copies: a SyncSecret can be both. See `RuleClient`. */
const RULES_MANAGER = 'keyferry-rules';
/** Pause before a failed write of a status is tried again, ms. */
const STATUS_RETRY_MS = 5000;

export abstract class SyncSecretReconciler<Rules extends SyncSecretRules = SyncSecretRules> implements RuleReconciler {
  abstract readonly rules: Rules;
  readonly store: RuleStore<SyncSecretRule>;
  /** The watches that must be listed before a rule is evaluated: of SyncSecrets, and of targets in this cluster. */
  readonly watches = new AwaitedWatches();
  readonly getLive: RuleReconciler['getLive'];
  protected readonly context: ControllerContext;
  protected readonly metrics: SyncSecretMetrics;
  /** Decides when a state that is not final is written. */
  protected readonly pending = new Pending();
  readonly #deletions: Deletions;
  readonly #client: RuleClient;
  readonly #lists = new KeyLists();
  readonly #statuses: RuleStatuses<SyncSecretRule, SyncSecretStatus>;

  /** @param role part of the names of the controller, of its metrics and of the source component of its events */
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
    });
    const client = (this.#client = new RuleClient({
      api: cluster.api,
      kind: SYNC_SECRET,
      store: { storeResponse: (object) => this.#storeMetadata(object) },
      metadataOnly: true,
      fieldManager: RULES_MANAGER,
    }));
    this.getLive = liveRules(async (rule, signal) => this.store.versionOf(await client.get(ruleName(rule), signal)));
    this.#statuses = new RuleStatuses({
      client,
      store: this.store,
      isSame: sameStatus,
      onForeign: (rule) => engine.enqueueStatus(rule),
      now: () => clock.now(),
      recordEvent: ({ metadata: { name, namespace = '', uid } }, event) => {
        const subject = { apiVersion: SYNC_SECRET.apiVersion, kind: SYNC_SECRET.kind, namespace, name, uid };
        context.recordEvent(`kubelb-${role}`, { subject, ...event });
      },
    });
  }

  /** Names the target of a SyncSecret in messages: `its Secret`. */
  protected abstract readonly target: string;
  /** Whether a SyncSecret is a rule of this controller. */
  protected abstract isRule(rule: SyncSecretRule): boolean;
  /** Annotations that are removed together with the finalizer. */
  protected marksOf(_object: SyncSecretRule): readonly string[] {
    return [];
  }
  /** Why the cluster of the targets cannot be used; `undefined`: it can be used. */
  protected unreachable(): Cause | undefined {
    return undefined;
  }

  /** Annotations that are written together with the finalizer. */
  protected get propagation(): Readonly<Record<string, string>> | undefined {
    return undefined;
  }

  abstract needsPreparation(rule: RuleKey): boolean;

  /** Adds the finalizer of Keyferry, and removes that of KubeLB. @throws ApiError */
  async prepare(rule: RuleKey, signal: AbortSignal): Promise<void> {
    const object = this.store.get(rule);
    if (object === undefined || object.metadata.deletionTimestamp !== undefined) return;
    const whole = await this.#withFinalizers(rule, object, signal);
    const changes = { annotations: this.propagation, replaces: [ORIGINAL_FINALIZER] };
    await this.#client.addFinalizer(whole, SYNC_SECRET_FINALIZER, changes, signal);
  }

  /** Writes the status of a SyncSecret that is copied: it is neither deleted nor released. */
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
    { evaluated, undeleted: [left], ...progress }: RuleProgress,
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
    // No outcome is reported before the finalizer is there.
    const isOutdated = evaluated !== ruleVersion(object) || this.needsPreparation(rule);
    if (!this.rules.isActive(object)) {
      return isOutdated ? undefined : await this.#release(rule, object, entries, signal);
    }
    this.#deletions.forget(rule);
    const failure = progress.failure ?? (left && cannotDelete(this.target, left));
    if (isOutdated && failure === undefined) return undefined;
    const [entry] = entries;
    const outcome = isOutdated ? undefined : entry?.outcome;
    return await this.report(rule, object, { entry, outcome, failure }, signal);
  }

  /**
   * Removes the finalizer when the target is gone, or at the time limit. Until then the status explains the wait. A
   * target that remains after the limit is an orphan, and is deleted as soon as possible.
   * @param object is being deleted, or must no longer be copied. @param entries its claims, with the mode `release`
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
      // Only finalizers of other clients remain, so Keyferry does not wait for anything.
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
      // Equal events are recorded once, so retries of this write add none.
      this.#statuses.record(rule, object, [{ type: 'Warning', reason: 'DeletionTimeout', message }]);
    }
    const annotations = marks.length === 0 ? undefined : Object.fromEntries(marks.map((key) => [key, null]));
    const whole = await this.#withFinalizers(rule, object, signal);
    // KubeLB's finalizer is removed too.
    await this.#client.removeFinalizers(whole, [...OWN_FINALIZERS], { annotations }, signal);
    return undefined;
  }

  /**
   * Writes into the status what the deletion waits for. If the write fails, the deletion goes on: RBAC roles made for
   * KubeLB do not permit writes of the status.
   * @returns whether the status was written
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

  /** Reads the object if the store lacks some of its finalizers: a write replaces the whole list. @throws ApiError */
  async #withFinalizers(rule: RuleKey, object: SyncSecretRule, signal: AbortSignal): Promise<KubeObject> {
    if (!object.metadata.finalizers.includes(MORE_FINALIZERS)) return object;
    const { metadata, ...rest } = await this.#client.get(ruleName(rule), signal);
    // If the object was recreated meanwhile, the write must fail: so the patch keeps the earlier uid.
    return { ...rest, metadata: { ...metadata, uid: object.metadata.uid } };
  }

  /**
   * Writes phase and condition if they differ. Records a Warning event when the condition turns False or gets another
   * cause.
   * @returns when to try again, if another client keeps changing them; otherwise `undefined`. @throws ApiError
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
    // A SyncSecret that just waits in the queue gets no warning.
    const isWarning = status === 'False' && isWaiting !== true && isNews;
    const events: RuleEvent[] = isWarning ? [{ type: 'Warning', reason, message }] : [];
    const observed = generation === undefined ? {} : { observedGeneration: generation };
    const written = { status: { phase, ...observed, conditions: [condition] }, events };
    return await this.#statuses.write(rule, object, written, signal);
  }

  /** Stores the answer to an own write. It has only metadata: with the same generation, other fields are the same. */
  #storeMetadata(object: KubeObject): void {
    const { namespace = '', name, generation } = object.metadata;
    const stored = this.store.get(this.store.key(namespace, name));
    if (stored?.metadata.generation === generation) this.store.storeResponse({ ...stored, ...object });
  }
}

/** The cause that an earlier SyncSecret of the same name, which had another uid, left its target behind. */
function cannotDelete(target: string, { outcome }: Undeleted): Cause {
  const publicMessage = `an earlier SyncSecret of this name left ${target}, which cannot be deleted: ${outcome.publicMessage}`;
  return { ...causeOf(outcome), publicMessage };
}

function sameStatus(a: SyncSecretStatus, b: SyncSecretStatus): boolean {
  return (
    a.phase === b.phase && a.observedGeneration === b.observedGeneration && sameConditions(a.conditions, b.conditions)
  );
}

/** The fields that are the same in the `ControllerEntry` of each SyncSecret controller. */
export const SYNC_SECRET_ENTRY = {
  kinds: [SYNC_SECRET],
  hasTenants: true,
  annotationReader: () => isReadMark,
} satisfies Partial<ControllerEntry>;

/** Watches all SyncSecrets of this process's cluster. @param isSource see `ContentUse` */
export function watchSyncSecrets({ cluster, config }: ControllerContext, sink: WatchSink, isSource = true): WatchGroup {
  return cluster.watchContents(SYNC_SECRET, { isSource: () => isSource }, sink, {
    advice: SYNC_SECRET_CRD_ADVICE.missing,
    isOptional: false,
    isAwaited: config.controllers.every((name) => name.startsWith('syncsecret-')),
  });
}
