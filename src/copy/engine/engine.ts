/**
 * The engine: three level-triggered loops over keyed queues.
 *
 *   rules    evaluate a rule, put its claims into the book, enqueue the targets touched
 *            beside this loop, `finalizers`: write the finalizer of a rule that has none; until then its targets stay unchanged
 *   targets  take all claims on one target, plan, do one write, record the outcome
 *   status   update the status of a rule, at most once a second
 *
 * Handlers only enqueue keys. The targets of a backend (`backends.ts`) start when every rule except the heavy ones was evaluated once and
 * the backend is synced. Before that, a claimed target may look unclaimed: the copies of a heavy rule get the answer `later` until it is
 * evaluated. After that, a copy is still deleted only after its owner was read from the server.
 */
import { retryAfterMs } from '../../kube/errors.ts';
import { type Clock, systemClock } from '../../runtime/clock.ts';
import { KeyedQueue } from '../../runtime/queue/keyed-queue.ts';
import { Slices, TooLongError } from '../../runtime/queue/slices.ts';
import type { KeyedQueueOptions, Priority, RunResult, StopOptions } from '../../runtime/queue/keyed-queue-options.ts';
import type { ObjectEvents, OnObjectChange } from './backend.ts';
import { Claims, type ClaimsChange } from '../book/claims.ts';
import type { Entry } from '../book/claim-book.ts';
import { type Cause, sameCause, failureOf, isPassing } from '../model/cause.ts';
import { controllerOf, namespaceOf, type ObjectKey, type ResourceKey, type RuleKey } from '../model/keys.ts';
import type { FactSource } from '../plan/decide.ts';
import type { NamedQueue, RuleReadiness, RuleReconciler } from './controller.ts';
import { worstOutcome } from '../plan/contest.ts';
import { Backends } from './backends.ts';

export interface EngineOptions {
  readonly clock?: Clock;
  /** A run failed and will be repeated. */
  readonly onError: (
    loop: 'rules' | 'targets' | 'status',
    key: string,
    error: unknown,
    retryInMs: number | undefined,
  ) => void;
  /** A target was written for a rule. @param ms since the event that made the write necessary */
  readonly onWritten?: ((rule: RuleKey, ms: number) => void) | undefined;
}

/** Transient errors are reported to users only after this many failed attempts in a row (about 5 s). */
const REPORT_AFTER_ATTEMPTS = 6;
/** Longest wait after a transient error, ms. So each target is tried again within 8 s after an outage, if no Retry-After delays it. */
const PASSING_WAIT_MS = 8000;
/** Between two status updates of a rule, ms. */
const STATUS_INTERVAL_MS = 1000;
/** Delay of a status update, ms: it then includes the rest of a burst. */
const STATUS_DELAY_MS = 50;
/** Delay while claims are pending, ms: their outcomes then need no second update. */
const STATUS_PENDING_DELAY_MS = 2000;
const RULE_CONCURRENCY = 8;
/** A rule whose evaluation takes longer than this, ms, moves to the queue of heavy rules. Most take less than 1 ms. */
const HEAVY_AFTER_MS = 30;
const HEAVY_CONCURRENCY = 2;
const FINALIZER_CONCURRENCY = 8;
/** The first targets of one event have normal priority, the others low. Writing this many takes about half a second. */
const NORMAL_PRIORITY_TARGETS = 250;
/**
 * A copy that no rule claims any more is decided after this time, ms. The next event may bring another rule that claims the copy and takes it
 * over: rules that swap their names, in one `kubectl apply`.
 */
const UNCLAIMED_DELAY_MS = 500;
/** A decision costs time for each claim on its target. Thousands of rules can claim one, so its changes are then decided together, this much later. */
const FEW_CLAIMS = 100;
const MS_PER_CLAIM = 0.25;
const STATUS_CONCURRENCY = 4;
/** Time for aborted work to end at a stop, ms. */
const GRACE_MS = 100;

export class Engine implements ObjectEvents {
  readonly claims = new Claims({
    flowsInto: (target) => this.backends.of(target).targetsOf(target).flowsInto(target),
    onChange: (targets) => this.#enqueueTargets(targets, 'normal'),
  });
  readonly book = this.claims.book;
  /** Shared by all long work on rules and targets. */
  readonly slices: Slices;
  readonly cycles = this.claims.cycles;
  readonly #clock: Clock;
  readonly backends: Backends;
  readonly #reconcilers = new Map<string, RuleReconciler>();
  readonly #rules: KeyedQueue<RuleKey>;
  readonly #heavyRules: KeyedQueue<RuleKey>;
  readonly #finalizers: KeyedQueue<RuleKey>;
  readonly #status: KeyedQueue<RuleKey>;
  /** Rules that may have changed since their evaluation: their claims may be incomplete. */
  readonly #changedRules = new Set<RuleKey>();
  readonly #evaluatingRules = new Set<RuleKey>();
  readonly #heavyRuleKeys = new Set<RuleKey>();
  readonly #writes = new Map<RuleKey, number>();
  /** The failure of each rule that fails, for its status. */
  readonly #failures = new Map<RuleKey, Cause>();
  /** The targets that are reconciled now, and the start of their latency, monotonic ms. */
  readonly #running = new Map<ResourceKey, number>();
  readonly #onWritten: EngineOptions['onWritten'];
  readonly #listeners: Partial<ObjectEvents>[] = [];
  #started = false;
  /** The rules of the start were evaluated. */
  #evaluated = false;

  constructor(options: EngineOptions) {
    const clock = (this.#clock = options.clock ?? systemClock);
    this.slices = new Slices(clock);
    this.#onWritten = options.onWritten;
    const common = { clock, retryAfterMs, retryMaxMsOf: passingWaitMs };
    const rules: KeyedQueueOptions<RuleKey> = {
      ...common,
      name: 'rules',
      groupOf: namespaceOf,
      onError: (key, error, retryInMs, attempt) => {
        options.onError('rules', key, error, retryInMs);
        if (isReported(error, attempt)) this.#noteFailure(key, failureOf(error));
      },
    };
    this.#rules = new KeyedQueue(rules);
    this.#heavyRules = new KeyedQueue({ ...rules, name: 'rules heavy' });
    this.#finalizers = new KeyedQueue({ ...rules, name: 'finalizers' });
    this.backends = new Backends({
      ...common,
      // A target without a rule is an orphan: its own namespace counts.
      ruleNamespaceOf: (target) => namespaceOf(this.book.firstOn(target)?.claim.owner.key ?? target),
      onError: (key, error, retryInMs, attempt) => {
        options.onError('targets', key, error, retryInMs);
        if (isReported(error, attempt)) this.backends.of(key).targetsOf(key).failed(key, error);
      },
    });
    this.#status = new KeyedQueue<RuleKey>({
      ...common,
      name: 'status',
      groupOf: namespaceOf,
      minIntervalMs: STATUS_INTERVAL_MS,
      onError: (key, error, retryInMs) => options.onError('status', key, error, retryInMs),
    });
  }

  addReconciler(reconciler: RuleReconciler): void {
    this.claims.add(reconciler.rules);
    this.#reconcilers.set(reconciler.rules.name, reconciler);
  }

  #reconcilerOf(rule: RuleKey): RuleReconciler {
    const reconciler = this.#reconcilers.get(controllerOf(rule));
    if (reconciler === undefined) throw new Error(`no controller for the rule ${rule}`);
    return reconciler;
  }

  get queues(): readonly NamedQueue[] {
    return [
      { name: 'rules', queue: this.#rules },
      { name: 'rules heavy', queue: this.#heavyRules },
      { name: 'finalizers', queue: this.#finalizers },
      ...this.backends.queues,
      { name: 'status', queue: this.#status },
    ];
  }

  /**
   * Starts the loops. Call it when the watches of the rules are synced.
   * Settles when every rule but the heavy ones was evaluated; the targets of a backend start then, or when it is synced.
   */
  async start(signal: AbortSignal): Promise<void> {
    this.#started = true;
    this.#rules.start((rule, running) => this.#runRule(rule, running, HEAVY_AFTER_MS), {
      concurrency: RULE_CONCURRENCY,
    });
    this.#heavyRules.start((rule, running) => this.#runRule(rule, running), { concurrency: HEAVY_CONCURRENCY });
    // A target whose claims are not in the book yet looks unclaimed. Heavy rules need no barrier: `orphanActionOf` answers `later` for their copies.
    await this.#rules.idle(signal);
    this.#evaluated = true;
    this.backends.start((...run) => this.#runTarget(...run));
    // Not before the targets: one user may have thousands of rules without a finalizer, and each write evaluates its rule again.
    this.#finalizers.start((rule, running) => this.#runFinalizer(rule, running), {
      concurrency: FINALIZER_CONCURRENCY,
    });
    this.#status.start((rule, running) => this.#runStatus(rule, running), { concurrency: STATUS_CONCURRENCY });
  }

  /** Lets running work end within `drainMs`, all queues together, then aborts it. */
  async stop(drainMs = 0): Promise<void> {
    const until = this.#clock.monotonic() + drainMs;
    const limits = (): StopOptions => ({ drainMs: Math.max(0, until - this.#clock.monotonic()), graceMs: GRACE_MS });
    await Promise.all([this.#rules, this.#heavyRules, this.#finalizers].map((queue) => queue.stop(limits())));
    await this.backends.stop(limits());
    await this.#status.stop(limits());
  }

  /** The sources that a rule is about to claim. Before the start they are listed with the other objects. After it, this does nothing. */
  expectSources(rule: RuleKey, sources: readonly ResourceKey[]): void {
    if (!this.#started) this.#follow(this.book.replace(rule, [], sources));
  }

  /** A rule may have changed. */
  enqueueRule(rule: RuleKey, priority: Priority = 'normal'): void {
    this.#changedRules.add(rule);
    (this.#heavyRuleKeys.has(rule) ? this.#heavyRules : this.#rules).add(rule, { priority });
  }

  /**
   * A target may differ from its desired state.
   * @param unclaimedMs delay if no rule claims it, ms
   */
  enqueueTarget(target: ResourceKey, priority: Priority = 'normal', unclaimedMs = 0): void {
    const claims = this.book.countOn(target);
    const contestedMs = claims > FEW_CLAIMS ? claims * MS_PER_CLAIM : 0;
    this.backends.queueOf(target).add(target, { priority, delayMs: claims === 0 ? unclaimedMs : contestedMs });
  }

  /** As `enqueueTarget`, without waiting for the end of a back-off. */
  retryTarget(target: ResourceKey): void {
    const queue = this.backends.queueOf(target);
    queue.forget(target);
    queue.add(target);
  }

  /** A source may have changed. */
  enqueueSource(source: ResourceKey, priority: Priority = 'normal'): void {
    this.#enqueueTargets(this.book.targetsOf(source), priority);
    // A rule that was not evaluated yet has no status to update.
    for (const rule of this.book.rulesOn(source))
      if (this.claims.versionOf(rule) !== undefined) this.enqueueStatus(rule);
  }

  /** One rule or source with thousands of targets must not delay the others. */
  #enqueueTargets(targets: Iterable<ResourceKey>, priority: Priority, unclaimedMs = 0): void {
    let touched = 0;
    for (const target of targets)
      this.enqueueTarget(target, ++touched > NORMAL_PRIORITY_TARGETS ? 'low' : priority, unclaimedMs);
  }

  enqueueStatus(rule: RuleKey): void {
    this.#status.add(rule, { delayMs: this.book.isUnderWay(rule) ? STATUS_PENDING_DELAY_MS : STATUS_DELAY_MS });
  }

  /**
   * An object changed that may be source, target or both. Updates the index of marks and enqueues the keys concerned.
   * `own`: our write changed the target, and its run continues.
   */
  readonly objectChanged: OnObjectChange = (key, before, after, initial, own = false) => {
    const { was, is } = this.claims.objectChanged(key, before, after);
    // The rule may be waiting for the deletion of its last copy.
    if (was !== undefined && was !== is) this.enqueueStatus(was);
    const priority = initial ? 'low' : 'normal';
    // A refused rule claims the copies that it has.
    if (was !== undefined && was !== is && this.claims.findingsOf(was).refusal !== undefined)
      this.enqueueRule(was, priority);
    if (!own && (was !== undefined || is !== undefined || this.book.isClaimed(key))) this.enqueueTarget(key, priority);
    this.enqueueSource(key, priority);
    for (const { objectChanged } of this.#listeners) objectChanged?.(key, before, after, initial, own);
  };

  objectKnown(key: ObjectKey): void {
    this.enqueueSource(key);
    this.enqueueTarget(key);
    for (const { objectKnown } of this.#listeners) objectKnown?.(key);
  }

  /** Calls `listener` for the objects of all clusters from now on. The key of an object has the cluster. */
  onObjects(listener: Partial<ObjectEvents>): void {
    this.#listeners.push(listener);
  }

  /** The outcome of a claim changed, or a target was written for it. */
  outcomeChanged(entry: Entry, wrote: boolean): void {
    const { owner, target } = entry.claim;
    this.enqueueStatus(owner.key);
    if (!wrote) return;
    this.#writes.set(owner.key, (this.#writes.get(owner.key) ?? 0) + 1);
    const since = this.#running.get(target);
    if (since !== undefined) this.#onWritten?.(owner.key, this.#clock.monotonic() - since);
  }

  /** Every rule that was evaluated or failed before, for metrics. */
  *readiness(): Iterable<RuleReadiness> {
    for (const [rule, cause] of this.#failures) yield { rule, cause };
    for (const rule of this.claims.rules) {
      if (this.#failures.has(rule)) continue;
      const { refusal, outOfReach } = this.claims.findingsOf(rule);
      const problem = refusal ?? this.claims.ruleSetOf(rule).problemOf?.(rule);
      const unreached = outOfReach?.part === 'others' ? undefined : outOfReach;
      yield { rule, cause: problem ?? unreached ?? worstOutcome(this.book.of(rule)) };
    }
  }

  /**
   * Whether to delete an orphan: a target with the mark of a rule that does not claim it. Reads the rule from the server.
   * @returns `later` while that cannot be decided
   */
  readonly orphanActionOf: FactSource['orphanActionOf'] = (rule, target, observed, signal) => {
    return this.claims.orphanActionOf(rule, target, observed, {
      isOutdated: () => this.#changedRules.has(rule) || this.#evaluatingRules.has(rule),
      getLive: () => this.#reconcilerOf(rule).getLive(rule, target, signal),
    });
  };

  /** Evaluates a rule. @param limitMs time limit of the evaluation in this queue, ms; a rule that needs longer moves to the other queue */
  async #runRule(rule: RuleKey, signal: AbortSignal, limitMs = Infinity): Promise<RunResult | undefined> {
    if (limitMs !== Infinity && this.#heavyRuleKeys.has(rule)) {
      this.#heavyRules.add(rule);
      return undefined;
    }
    const reconciler = this.#reconcilerOf(rule);
    let change: ClaimsChange;
    let again: RunResult | undefined | void;
    try {
      await this.slices.pause();
      const steps = reconciler.rules.warmUp?.(rule);
      if (steps !== undefined) await this.slices.run(steps, signal, limitMs);
      again = await reconciler.listed?.(rule, signal);
      change = await this.#claim(reconciler, rule, signal, limitMs);
    } catch (error) {
      if (!(error instanceof TooLongError)) throw error;
      this.#heavyRuleKeys.add(rule);
      this.#heavyRules.add(rule);
      return undefined;
    }
    this.#follow(change);
    const isGone = this.claims.versionOf(rule) === undefined;
    const unclaimedMs = isGone ? 0 : UNCLAIMED_DELAY_MS;
    this.#enqueueTargets(change.targets, 'normal', unclaimedMs);
    // A copy that was kept because it was a source may be an orphan.
    this.#enqueueTargets(change.unusedSources, 'normal');
    this.#enqueueTargets(change.orphans, 'normal', unclaimedMs);
    if (isGone) {
      this.#heavyRuleKeys.delete(rule);
      this.#writes.delete(rule);
    }
    // A failure of the preparation stays until the preparation succeeds.
    if (reconciler.preparationOf?.(rule) === undefined) {
      this.#finalizers.forget(rule);
      this.#failures.delete(rule);
    } else this.#finalizers.add(rule, { priority: this.#evaluated ? 'normal' : 'low' });
    this.enqueueStatus(rule);
    return again ?? undefined;
  }

  /** The change of the rule object enqueues the rule again. */
  async #runFinalizer(rule: RuleKey, signal: AbortSignal): Promise<void> {
    const reconciler = this.#reconcilerOf(rule);
    if (reconciler.preparationOf?.(rule) !== undefined) await reconciler.prepare?.(rule, signal);
    if (reconciler.preparationOf?.(rule) === 'first') throw new Error('the API server did not store the finalizer');
    if (this.#failures.delete(rule)) this.enqueueStatus(rule);
  }

  /** A change during the evaluation enqueues the rule again. Until its claims are in the book, none of its copies counts as an orphan. */
  async #claim(reconciler: RuleReconciler, rule: RuleKey, signal: AbortSignal, limitMs: number): Promise<ClaimsChange> {
    this.#changedRules.delete(rule);
    this.#evaluatingRules.add(rule);
    try {
      const evaluation = await this.slices.run(reconciler.rules.evaluate(rule, this.claims), signal, limitMs);
      reconciler.evaluated?.(rule);
      return this.claims.put(rule, evaluation, reconciler.preparationOf?.(rule) !== 'first');
    } catch (error) {
      this.#changedRules.add(rule);
      throw error;
    } finally {
      this.#evaluatingRules.delete(rule);
    }
  }

  #noteFailure(rule: RuleKey, failure: Cause): void {
    if (sameCause(this.#failures.get(rule), failure)) return;
    this.#failures.set(rule, failure);
    this.enqueueStatus(rule);
  }

  #follow({ addedSources, droppedSources }: Pick<ClaimsChange, 'addedSources' | 'droppedSources'>): void {
    for (const source of addedSources) this.backends.follow(source);
    for (const source of droppedSources) this.backends.unfollow(source);
  }

  async #runTarget(target: ResourceKey, signal: AbortSignal, since: number): Promise<RunResult | undefined> {
    await this.slices.pause();
    this.cycles.visited(target);
    this.#running.set(target, since);
    try {
      return await this.backends.of(target).targetsOf(target).reconcile(target, signal);
    } finally {
      this.#running.delete(target);
    }
  }

  async #runStatus(rule: RuleKey, signal: AbortSignal): Promise<RunResult | undefined> {
    await this.slices.pause();
    const writes = this.#writes.get(rule) ?? 0;
    const { claims } = this;
    const known = { evaluated: claims.versionOf(rule), failure: this.#failures.get(rule), ...claims.findingsOf(rule) };
    const progress = { writes, ...known };
    const result = await this.#reconcilerOf(rule).updateStatus(rule, this.book.of(rule), progress, signal);
    const left = (this.#writes.get(rule) ?? 0) - writes;
    if (left > 0) this.#writes.set(rule, left);
    else this.#writes.delete(rule);
    return result;
  }
}

/** Whether an error is reported to users: a transient one only when it lasts. */
function isReported(error: unknown, attempt: number): boolean {
  return attempt >= REPORT_AFTER_ATTEMPTS || !isPassing(error);
}

/** With jitter, so that keys that failed together do not retry together. */
function passingWaitMs(error: unknown): number | undefined {
  return isPassing(error) ? PASSING_WAIT_MS * (0.75 + Math.random() / 4) : undefined;
}
