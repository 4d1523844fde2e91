/**
 * What CCM and manager share: the store of SyncSecrets, their finalizer, and what is told of them. Their targets and
 * statuses differ. `rules/sync-secret-rule-set.ts` turns the SyncSecrets into claims.
 */
import type {
  Controller,
  GoneRule,
  Report,
  RuleChange,
  RuleEvent,
  RuleFacts,
  RuleKind,
} from '../../copy/engine/controller.ts';
import { nextCondition } from '../../copy/engine/life/condition.ts';
import type { Deletion } from '../../copy/engine/life/deletions.ts';
import { RuleStore } from '../../copy/engine/life/rule-store.ts';
import { type Cause, causeOf } from '../../copy/model/cause.ts';
import { isUnderWay, type Undeleted } from '../../copy/model/claim.ts';
import { KeyLists } from '../../copy/model/key-lists.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import type { WatchGroup } from '../../kube/watch/watch-group.ts';
import type { WatchSink } from '../../kube/watch/watcher.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
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
import { Pending } from './pending.ts';
import { isReadMark } from './rules/marks.ts';
import { MAX_TEXT, ruleOf, ruleVersion, type SyncSecretRule } from './rules/rule.ts';
import { type RuleResult, type SyncState, terminatingState } from './words.ts';
import type { SyncSecretRules } from './rules/sync-secret-rule-set.ts';

export type SyncSecretFacts = RuleFacts<SyncSecretRule, SyncSecretStatus>;
export type SyncSecretReport = Report<SyncSecretStatus>;

export abstract class SyncSecretController implements Controller<SyncSecretRule, SyncSecretStatus> {
  abstract readonly rules: SyncSecretRules;
  readonly store: RuleStore<SyncSecretRule>;
  readonly kindOf = (): RuleKind => SYNC_SECRET;
  protected readonly metrics: SyncSecretMetrics;
  /** Decides when a state that is not final is written. */
  protected readonly pending = new Pending();
  readonly #clock: ControllerContext['clock'];

  /** @param role part of the names of the controller and of its metrics */
  constructor(role: 'ccm' | 'manager', { clock, engine, metrics }: ControllerContext) {
    this.#clock = clock;
    this.metrics = new SyncSecretMetrics(metrics.registry, role, clock);
    const lists = new KeyLists();
    this.store = new RuleStore({
      controller: `syncsecret-${role}`,
      toRule: (object) => {
        const rule = ruleOf(object, lists);
        return this.isRule(rule) ? rule : undefined;
      },
      versionOf: ruleVersion,
      onChange: (rule) => {
        this.metrics.started(rule);
        engine.enqueueRule(rule);
      },
    });
  }

  /** Names the target of a SyncSecret in messages: `its Secret`. */
  protected abstract readonly target: string;
  /** Whether a SyncSecret is a rule of this controller. */
  protected abstract isRule(rule: SyncSecretRule): boolean;
  /** The report on a SyncSecret that is not being deleted. */
  protected abstract reportOn(facts: SyncSecretFacts, result: RuleResult): SyncSecretReport | undefined;
  abstract open(signal: AbortSignal): Promise<unknown>;

  /** Why the cluster of the targets cannot be used; `undefined`: it can be used. */
  protected unreachable(): Cause | undefined {
    return undefined;
  }

  /** The finalizer of Keyferry, which replaces that of KubeLB. */
  due(_key: RuleKey, { metadata }: SyncSecretRule): RuleChange | undefined {
    const isHeld = metadata.finalizers.includes(SYNC_SECRET_FINALIZER);
    if (isHeld || metadata.deletionTimestamp !== undefined) return undefined;
    return { finalizer: SYNC_SECRET_FINALIZER, replaces: [ORIGINAL_FINALIZER] };
  }

  report(facts: SyncSecretFacts | GoneRule): SyncSecretReport | undefined {
    const { key, rule: object } = facts;
    if (object === undefined) {
      this.metrics.forget(key);
      this.pending.forget(key);
      return undefined;
    }
    if (facts.deletion !== undefined) return this.#release(facts, facts.deletion);
    const [left] = facts.undeleted;
    const failure = facts.failure ?? (left && cannotDelete(this.target, left));
    const [entry] = facts.claims;
    return this.reportOn(facts, { entry, outcome: entry?.outcome, failure });
  }

  /**
   * The report on a SyncSecret that is being deleted. Its finalizer goes when the target is gone, or at the time limit.
   * Until then the status explains the wait.
   */
  #release(facts: SyncSecretFacts, { remaining, ...deletion }: Deletion): SyncSecretReport | undefined {
    const { key, rule: object } = facts;
    const monotonic = this.#clock.monotonic();
    // If only finalizers of other clients remain, Keyferry does not wait for anything.
    const isHeld = object.metadata.finalizers.some((one) => OWN_FINALIZERS.has(one));
    if (!isHeld) return this.statusOf(facts, terminatingState(undefined));
    const unreachable = this.unreachable();
    const isRefused = unreachable !== undefined || remaining.some(({ outcome }) => outcome.state === 'error');
    const waiting = remaining.map(({ outcome }) => outcome).find((outcome) => !isUnderWay(outcome));
    const waitsFor = (waiting ?? unreachable)?.publicMessage;
    const { remainingMs } = deletion;
    if (!deletion.isDone) {
      const waitMs = this.pending.waitMs(key, !isRefused, monotonic);
      if (waitMs > 0) return { againMs: Math.min(waitMs, remainingMs) };
      return { ...this.statusOf(facts, terminatingState(waitsFor)), againMs: remainingMs };
    }
    this.pending.done(key, monotonic);
    const last = waitsFor === undefined ? '' : ` Last state: ${waitsFor}`;
    const message = `the SyncSecret no longer waits for ${this.target}, which will be deleted when possible.${last}`;
    const events: RuleEvent[] = deletion.isTimedOut ? [{ type: 'Warning', reason: 'DeletionTimeout', message }] : [];
    // KubeLB's finalizer is removed too.
    return { events, removeFinalizers: [...OWN_FINALIZERS] };
  }

  /** Phase and condition, with a Warning event when the condition turns False or gets another cause. */
  protected statusOf(
    { rule, previous, now }: SyncSecretFacts,
    { phase, isUnderWay: isWaiting, ...state }: SyncState,
  ): SyncSecretReport {
    const { generation } = rule.metadata;
    const [before] = previous.conditions ?? [];
    const condition = nextCondition(before, { type: SYNCED_CONDITION, ...state }, generation, now, MAX_TEXT);
    const { status, reason, message } = condition;
    const isNews = before?.status !== status || before.reason !== reason || before.message !== message;
    // A SyncSecret that just waits in the queue gets no warning.
    const isWarning = status === 'False' && isWaiting !== true && isNews;
    const events: RuleEvent[] = isWarning ? [{ type: 'Warning', reason, message }] : [];
    const observed = generation === undefined ? {} : { observedGeneration: generation };
    return { status: { phase, ...observed, conditions: [condition] }, events };
  }
}

/** The cause that an earlier SyncSecret of the same name, which had another uid, left its target behind. */
function cannotDelete(target: string, { outcome }: Undeleted): Cause {
  const publicMessage = `an earlier SyncSecret of this name left ${target}, which cannot be deleted: ${outcome.publicMessage}`;
  return { ...causeOf(outcome), publicMessage };
}

/** The fields that are the same in the `ControllerEntry` of each SyncSecret controller. */
export const SYNC_SECRET_ENTRY = {
  kinds: [SYNC_SECRET],
  hasTenants: true,
  annotationReader: () => isReadMark,
} satisfies Partial<ControllerEntry>;

/** Watches all SyncSecrets of this process's cluster. @param sink `undefined`: they are only targets, not rules */
export function watchSyncSecrets({ cluster }: ControllerContext, sink?: WatchSink): WatchGroup {
  return cluster.watchContents(SYNC_SECRET, { isSource: () => sink !== undefined }, sink, {
    advice: SYNC_SECRET_CRD_ADVICE.missing,
    isOptional: false,
  });
}
