/** Reconciles the targets of one kind in a cluster: plans each target, carries out the plan, records the outcome. */
import type { RunResult } from '../../../runtime/queue/keyed-queue.ts';
import type { Failed, Waiting } from '../../model/claim.ts';
import { failureOf } from '../../model/cause.ts';
import { COPY_LABEL, type Observed, sameButVersion } from '../../model/observed.ts';
import type { ObjectKey } from '../../model/keys.ts';
import type { OnObjectChange } from '../../engine/backend.ts';
import { contestOf, decide, type Decision, factsOf } from '../../plan/decide.ts';
import type { Contest, Facts } from '../../plan/facts.ts';
import { isHandOver, shouldGiveUpTakeover, outcomesOf } from '../../plan/contest.ts';
import {
  type ActionResult,
  LATER_MS,
  RACE_RETRY_MS,
  type Settlement,
  TargetActions,
  type TargetReconcilerOptions,
} from './target-actions.ts';
import { TargetMemory, TargetRun } from './target-memory.ts';
import { waitAfter } from '../watch/reachability.ts';

const NO_READS = AbortSignal.abort(new Error('nothing is read outside of a run'));
/** Most attempts in one run. If they do not suffice, others change the target faster than Keyferry reads it. */
const MAX_ATTEMPTS = 8;

export class TargetReconciler {
  readonly #options: TargetReconcilerOptions;
  readonly #memory = new TargetMemory();
  readonly #actions: TargetActions;

  constructor(options: TargetReconcilerOptions) {
    this.#options = options;
    this.#actions = new TargetActions(options, this.#memory);
  }

  /** One run of the target loop for one target. @throws the error of the API, if a retry makes sense */
  async reconcile(target: ObjectKey, signal: AbortSignal): Promise<RunResult | undefined> {
    const { reachability } = this.#options;
    if (reachability?.admits(target) === false) return undefined;
    try {
      return await this.#run(target, signal);
    } catch (error) {
      reachability?.failed(target, error);
      throw error;
    }
  }

  async #run(target: ObjectKey, signal: AbortSignal): Promise<RunResult | undefined> {
    const run = new TargetRun(target, signal, this.#options.store, this.#memory);
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
      try {
        const decision = await decide(target, this.#options, run, signal);
        const result = await this.#act(decision, run);
        if (result === 'again') continue;
        const { settle, requeueAfterMs } = result;
        if (settle !== undefined) this.#settle(decision.facts, settle);
        if (decision.plan.do === 'nothing') this.#tidyMemory(target);
        if (decision.plan.do !== 'later') this.#tried(target, undefined);
        const soonestMs = Math.min(requeueAfterMs ?? Infinity, decision.againMs ?? Infinity);
        return soonestMs === Infinity ? undefined : { requeueAfterMs: soonestMs };
      } catch (error) {
        const facts = factsOf(target, this.#options, run);
        if (signal.aborted || run.takeoverFailed || !isHandOver(facts) || !shouldGiveUpTakeover(error, facts))
          throw error;
        // If another rule cannot take over a copy, the copy is deleted. The other rule creates it, or reports the error.
        run.takeoverFailed = true;
      }
    }
    return { requeueAfterMs: RACE_RETRY_MS };
  }

  async #act({ facts, plan }: Decision, run: TargetRun): Promise<ActionResult> {
    if (plan.do === 'later') return { requeueAfterMs: plan.graceMs ?? LATER_MS };
    const { target } = run;
    const isIdle = ['nothing', 'wait', 'fail', 'conflict'].includes(plan.do);
    // A creation finds out by itself whether the copy exists.
    const isLost = plan.do !== 'create' && this.#isLost(target, facts, isIdle);
    if (isLost && facts.observed === undefined) {
      await run.read();
      return 'again';
    }
    const conflict = plan.do === 'conflict' || ('remarks' in plan && plan.remarks?.own?.state === 'conflict');
    this.#follow(target, conflict || isLost || this.#needsWatchByName(target, facts, plan));
    const result = await this.#actions.carryOut({ facts, plan, run });
    // The next run finds the label restored, and ends the watch.
    return isLost && !isIdle && result !== 'again' ? { requeueAfterMs: RACE_RETRY_MS, ...result } : result;
  }

  /**
   * Whether the target may be a copy that lost Keyferry's label, so that no watch selects it. Such a copy is read once,
   * and then followed by name until its rule restores the label or lets it go.
   * @param isIdle whether nothing is to be written now
   */
  #isLost(target: ObjectKey, { observed, presence, markedBy }: Facts, isIdle: boolean): boolean {
    if (this.#memory.get(target)?.lost !== true) return false;
    const hasRule = markedBy !== undefined && this.#options.claims.versionOf(markedBy) !== undefined;
    const isOver =
      observed === undefined ? presence === 'absent' : COPY_LABEL in observed.labels || (isIdle && !hasRule);
    if (isOver) this.#memory.edit(target).lost = false;
    return !isOver;
  }

  /** @see TargetWriter.contestOf */
  contestOf(target: ObjectKey): Contest {
    return contestOf(target, this.#options, this.#cached(target));
  }

  /**
   * The store calls this for each change of an object. First the memory learns of it, and then the engine, which may
   * enqueue the target. No decision depends on the status and the finalizers of a custom resource: these alone are no
   * change.
   */
  readonly objectChanged: OnObjectChange = (target, before, after, ...how) => {
    const { onChange, store } = this.#options;
    this.#learn(target, before, after);
    const isSame = store.kind.isCustom === true && before !== undefined && before.uid === after?.uid;
    if (isSame && sameButVersion(before, after) && !this.#hasOtherContent(target)) return;
    onChange(target, before, after, ...how);
  };

  /** Drops the content of a deleted object, and notes a lost label. */
  #learn(target: ObjectKey, before: Observed | undefined, after: Observed | undefined): void {
    const { claims } = this.#options;
    const isLost =
      before?.labels[COPY_LABEL] !== undefined &&
      after?.labels[COPY_LABEL] === undefined &&
      before.uid !== this.#memory.get(target)?.deleted &&
      claims.ownersOf(after ?? before, target).length > 0;
    const isGone = before !== undefined && before.uid !== after?.uid;
    if (isGone) this.#memory.objectGone(target);
    if (isLost) this.#memory.edit(target).lost = true;
    if (isGone) this.#tidyMemory(target);
  }

  /** Whether a watch brought another content of the target than was written. The memory drops an equal content. */
  #hasOtherContent(target: ObjectKey): boolean {
    const { store } = this.#options;
    const held = this.#memory.get(target)?.held;
    const observed = store.index.find(target);
    const stored = observed && store.heldIn(target, observed);
    if (held === undefined || held.version !== stored?.version) return false;
    if (held.fingerprint.digest !== stored.fingerprint.digest) return true;
    store.shareFingerprint(target, held.fingerprint);
    this.#memory.forgetContent(target);
    return false;
  }

  /** Called when the runs of a target fail repeatedly: reports the error as the outcome. */
  failed(target: ObjectKey, error: unknown): void {
    const { reachability, store } = this.#options;
    const wait = reachability === undefined ? undefined : waitAfter(store.api.cluster, error);
    this.report(target, wait ?? { state: 'error', ...failureOf(error) });
  }

  #tried(target: ObjectKey, outcome: Waiting | Failed | undefined): void {
    this.#options.onTried(target, this.#options.store.index.find(target), outcome);
  }

  /** Records an outcome that was found without a run of the target, for example that its cluster does not answer. */
  report(target: ObjectKey, outcome: Waiting | Failed): void {
    this.#settle(factsOf(target, this.#options, this.#cached(target)), { outcome });
    this.#tried(target, outcome);
  }

  /** A state of a target that sends no request: it has only what the index and the memory know. */
  #cached(target: ObjectKey): TargetRun {
    return new TargetRun(target, NO_READS, this.#options.store, this.#memory);
  }

  #settle(facts: Facts, { outcome, remarks, wroteFor }: Settlement): void {
    for (const [entry, own] of outcomesOf(facts, outcome, remarks)) {
      const changed = this.#options.claims.book.settle(entry, own);
      const wrote = entry.claim === wroteFor;
      if (changed || wrote) this.#options.onOutcome(entry, wrote);
    }
  }

  /** Follows a target by name, or stops doing so. @see #needsWatchByName */
  #follow(target: ObjectKey, follow: boolean): void {
    const followed = this.#memory.get(target)?.watchedByName === true;
    if (follow === followed) return;
    if (follow) {
      this.#memory.edit(target).watchedByName = true;
      this.#options.store.follow(target);
    } else {
      this.#memory.edit(target).watchedByName = false;
      this.#options.store.watches.unfollow(target);
      this.#tidyMemory(target);
    }
  }

  /** Whether the target is being deleted, and no other watch would report that it is gone. */
  #needsWatchByName(target: ObjectKey, { observed, goingAway }: Facts, plan: Decision['plan']): boolean {
    if (plan.do !== 'wait' || !(observed?.deleting === true || goingAway)) return false;
    return this.#memory.get(target)?.watchedByName === true || this.#options.store.index.find(target) === undefined;
  }

  #tidyMemory(target: ObjectKey): void {
    this.#memory.removeIfEmpty(target, this.#options.claims.book.isClaimed(target));
  }
}
