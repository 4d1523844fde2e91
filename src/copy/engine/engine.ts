/**
 * The engine: three level-triggered loops over keyed queues.
 *
 *   rules    evaluate a rule, put its claims into the book, enqueue the targets concerned (`rule-loop.ts`)
 *   targets  take all claims on one target, plan, do one write, record the outcome
 *   status   update the status of a rule, at most once a second
 *
 * Handlers of events only enqueue keys. Before its rule is evaluated, a target looks as if no rule claimed it. So the
 * targets of a backend (`backends.ts`) start only when the backend is synced and every rule was evaluated once. The wait
 * for rules whose evaluation takes long is limited. Until they are evaluated, a copy that they may claim is deleted only
 * after a minute. Besides, a copy is deleted only after its owner was read from the server.
 */
import { type Clock, systemClock } from '../../runtime/clock.ts';
import { KeyedQueue, type RunResult, type StopOptions } from '../../runtime/queue/keyed-queue.ts';
import { pause } from '../../runtime/pause.ts';
import type { ObjectEvents, OnObjectChange } from './backend.ts';
import { Claims, type ClaimsChange } from '../book/claims.ts';
import type { Entry } from '../book/claim-book.ts';
import { isPassing } from '../model/cause.ts';
import type { Undeleted } from '../model/claim.ts';
import { namespaceOf, type ObjectKey, type ResourceKey, type RuleKey } from '../model/keys.ts';
import { Cycles } from '../plan/cycles.ts';
import type { FactSource } from '../plan/decide.ts';
import type { NamedQueue, RuleReadiness } from './controller.ts';
import { worstOutcome } from '../plan/contest.ts';
import { Backends } from './backends.ts';
import type { Life } from './life/rule-life.ts';
import { RuleLoop } from './rule-loop.ts';

export interface EngineOptions {
  readonly clock?: Clock;
  /** @see Claims.leftoverOf */
  readonly adoptOrphans?: boolean | undefined;
  /** Called when a run has failed and will be repeated. `key`: the rule or target. */
  readonly onError: (
    loop: 'rules' | 'targets' | 'status',
    key: string,
    error: unknown,
    retryInMs: number | undefined,
  ) => void;
  /** Called when a target was written for a rule. @param ms time since the event that caused the write */
  readonly onWritten?: ((rule: RuleKey, ms: number) => void) | undefined;
  /** Called when the state of a rule that is gone has changed. @param undeleted its copies that could not be deleted */
  readonly onGone?: ((rule: RuleKey, undeleted: readonly Undeleted[]) => void) | undefined;
}

/** A transient error is reported to users only after this many failed attempts in a row (about 5 s). */
const REPORT_AFTER_ATTEMPTS = 6;
/** Longest wait after a transient error, ms. After an outage each target is tried within 8 s, without Retry-After. */
const PASSING_WAIT_MS = 8000;
/** Shortest time between two status updates of a rule, ms. */
const STATUS_INTERVAL_MS = 1000;
/** Delay of a status update, ms, so that one update includes the other changes of a burst. */
const STATUS_DELAY_MS = 50;
/** Delay of a status update while claims of the rule are pending, ms, so that their outcomes need no second update. */
const STATUS_PENDING_DELAY_MS = 2000;
/** Number of targets of one event that have normal priority; the others have low. Writing this many takes 0.5 s. */
const NORMAL_PRIORITY_TARGETS = 250;
/** A decision takes time for each claim on its target. Above this number, each claim delays it by `MS_PER_CLAIM`. */
const FEW_CLAIMS = 100;
const MS_PER_CLAIM = 0.25;
/**
 * How long a rule that is not evaluated yet may keep a copy that nobody else wants, ms. Otherwise any user could stop the
 * deletion of other users' copies, by a rule that is slow to evaluate and changes again and again.
 */
const MAY_WANT_MS = 60_000;
const STATUS_CONCURRENCY = 4;
/** Time for aborted work to end when the engine is stopped, ms. */
const GRACE_MS = 100;

export class Engine implements ObjectEvents {
  readonly claims: Claims;
  readonly book: Claims['book'];
  readonly cycles: Cycles;
  readonly #clock: Clock;
  readonly backends: Backends;
  readonly #rules: RuleLoop;
  readonly #status: KeyedQueue<RuleKey>;
  readonly #writes = new Map<RuleKey, number>();
  /** The targets that are reconciled now, each with the start of its latency, monotonic ms. */
  readonly #running = new Map<ResourceKey, number>();
  readonly #onWritten: EngineOptions['onWritten'];
  readonly #onGone: EngineOptions['onGone'];
  readonly #listeners: Partial<ObjectEvents>[] = [];
  /** Whether the rules were evaluated once. Before, nothing says in whose turn a target is decided. */
  #evaluatedOnce = false;

  constructor(options: EngineOptions) {
    const clock = (this.#clock = options.clock ?? systemClock);
    this.claims = new Claims(() => clock.monotonic(), options.adoptOrphans);
    this.book = this.claims.book;
    this.cycles = new Cycles({
      book: this.book,
      contestOf: (target) => this.backends.of(target).targetsOf(target).contestOf(target),
      onChange: (targets) => this.enqueueTargets(targets),
    });
    this.#onWritten = options.onWritten;
    this.#onGone = options.onGone;
    const common = { clock, retryMaxMsOf: passingWaitMs };
    this.#rules = new RuleLoop({
      ...common,
      claims: this.claims,
      onError: (rule, error, retryInMs, attempt) => {
        options.onError('rules', rule, error, retryInMs);
        return isReported(error, attempt);
      },
      onEvaluated: (...evaluated) => this.#evaluated(...evaluated),
      onFailure: (rule) => this.enqueueStatus(rule),
    });
    this.backends = new Backends({
      ...common,
      turnOf: (target) => {
        const claim = this.book.firstOn(target)?.claim;
        if (claim?.mode !== 'fill') return claim === undefined ? '' : namespaceOf(claim.owner.key);
        const { source } = claim;
        return source !== undefined && this.backends.view(source).state === 'present' ? namespaceOf(source) : '';
      },
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

  /** Adds the rules of a controller. */
  add(life: Life): void {
    this.#rules.add(life);
  }

  get queues(): readonly NamedQueue[] {
    return [...this.#rules.queues, ...this.backends.queues, { name: 'status', queue: this.#status }];
  }

  /**
   * Starts the loops. Call it when the watches of the rules are synced. Settles when every rule was evaluated once, or
   * when that takes too long. Then the targets of each backend start as soon as the backend is synced.
   */
  async start(signal: AbortSignal): Promise<void> {
    // A target without claims in the book looks like an orphan.
    await this.#rules.start(signal);
    this.#evaluatedOnce = true;
    // Each evaluation has enqueued the targets of its claims.
    for (const rule of this.claims.owners)
      this.enqueueTargets([...this.claims.ownedBy(rule)].filter((target) => !this.book.isClaimed(target)));
    this.#rules.startFinalizers();
    this.backends.start((...run) => this.#runTarget(...run));
    this.#status.start((rule, running) => this.#runStatus(rule, running), { concurrency: STATUS_CONCURRENCY });
  }

  /** Waits for running work, at most `drainMs` for all queues together, then aborts it. */
  async stop(drainMs = 0): Promise<void> {
    const until = this.#clock.monotonic() + drainMs;
    const limits = (): StopOptions => ({ drainMs: Math.max(0, until - this.#clock.monotonic()), graceMs: GRACE_MS });
    await this.#rules.stop(limits());
    await this.backends.stop(limits());
    await this.#status.stop(limits());
  }

  /** Called when a rule may have changed. */
  enqueueRule(rule: RuleKey): void {
    this.#rules.enqueue(rule);
  }

  /** Called when a target may differ from its desired state. */
  enqueueTarget(target: ResourceKey): void {
    this.enqueueTargets([target]);
  }

  /** The first targets get normal priority, the others a low one, so that thousands of them do not delay other rules. */
  enqueueTargets(targets: Iterable<ResourceKey>): void {
    let touched = 0;
    for (const target of targets) {
      const priority = ++touched > NORMAL_PRIORITY_TARGETS ? 'low' : 'normal';
      const claims = this.book.countOn(target);
      this.backends.queueOf(target).add(target, { priority, delayMs: claims > FEW_CLAIMS ? claims * MS_PER_CLAIM : 0 });
    }
  }

  /** As `enqueueTarget`, but ends a back-off of the target, so that it runs at once. */
  retryTarget(target: ResourceKey): void {
    const queue = this.backends.queueOf(target);
    queue.forget(target);
    queue.add(target);
  }

  /** Called when a source may have changed. */
  enqueueSource(source: ResourceKey): void {
    this.enqueueTargets(this.book.targetsOf(source));
    // A rule that was not evaluated yet has no status to update.
    for (const rule of this.book.rulesOn(source))
      if (this.claims.versionOf(rule) !== undefined) this.enqueueStatus(rule);
  }

  enqueueStatus(rule: RuleKey, delayMs = this.book.isUnderWay(rule) ? STATUS_PENDING_DELAY_MS : STATUS_DELAY_MS): void {
    this.#status.add(rule, { delayMs });
  }

  /**
   * Called when an object has changed that may be a source, a target or both. Updates the index of marks, and enqueues
   * the keys concerned. `own`: Keyferry's own write changed the target, and the run that wrote goes on.
   */
  readonly objectChanged: OnObjectChange = (key, before, after, own = false) => {
    const { lost, isMarked } = this.claims.objectChanged(key, before, after);
    for (const rule of lost) {
      // If the rule is being deleted, it waits until its last copy is deleted.
      this.enqueueStatus(rule);
      // A refused rule claims only the copies that it has, so the loss of a copy changes its claims.
      if (this.claims.findingsOf(rule).refusal !== undefined) this.enqueueRule(rule);
    }
    const isTarget = isMarked || this.book.isClaimed(key);
    if (!own && isTarget && this.#evaluatedOnce) this.enqueueTarget(key);
    this.enqueueSource(key);
    for (const { objectChanged } of this.#listeners) objectChanged?.(key, before, after, own);
  };

  objectKnown(key: ObjectKey): void {
    this.enqueueSource(key);
    this.enqueueTarget(key);
    for (const { objectKnown } of this.#listeners) objectKnown?.(key);
  }

  /** Calls `listener` for each later change of an object in any cluster. The key of the object names the cluster. */
  onObjects(listener: Partial<ObjectEvents>): void {
    this.#listeners.push(listener);
  }

  /** Called when the outcome of a claim has changed, or when a target was written for the claim. */
  outcomeChanged(entry: Entry, wrote: boolean): void {
    const { target, claim } = entry;
    const { owner } = claim;
    this.enqueueStatus(owner.key);
    // Whether an object without data empties those that are filled from it depends on this outcome.
    if (claim.mode === 'fill') this.enqueueTargets(this.book.targetsOf(target));
    if (!wrote) return;
    this.#writes.set(owner.key, (this.#writes.get(owner.key) ?? 0) + 1);
    const since = this.#running.get(target);
    if (since !== undefined) this.#onWritten?.(owner.key, this.#clock.monotonic() - since);
  }

  /** Called after each run of a target in a cluster. @see Claims.settleUndeleted */
  targetTried(...result: Parameters<Claims['settleUndeleted']>): void {
    for (const rule of this.claims.settleUndeleted(...result)) this.enqueueStatus(rule);
  }

  /** For metrics: every rule that was evaluated or has failed, and whether it is ready. */
  *readiness(): Iterable<RuleReadiness> {
    for (const [rule, cause] of this.#rules.failures) yield { rule, cause };
    for (const rule of this.claims.rules) {
      if (this.#rules.failureOf(rule) !== undefined) continue;
      const { refusal, outOfReach } = this.claims.findingsOf(rule);
      const problem = refusal ?? this.claims.ruleSetOf(rule).problemOf?.(rule);
      const unreached = outOfReach?.part === 'others' ? undefined : outOfReach;
      const cause = problem ?? unreached ?? worstOutcome(this.book.of(rule));
      yield { rule, cause: cause ?? this.claims.undeletedOf(rule)[0]?.outcome };
    }
  }

  /**
   * Whether to delete an orphan: a target with the mark of a rule that does not claim it. Reads the rule from the API.
   * @returns `later`: this cannot be decided yet
   */
  readonly orphanActionOf: FactSource['orphanActionOf'] = (rule, target, observed, signal) => {
    return this.claims.orphanActionOf(rule, target, observed, {
      isOutdated: () => this.#rules.isOutdated(rule),
      getLive: () => this.#rules.lifeOf(rule).getLive(rule, target, signal),
    });
  };

  /** Whether a rule that is not evaluated yet may claim the target. It has a minute: its evaluation may fail forever. */
  readonly mayBeWanted: NonNullable<FactSource['mayBeWanted']> = async (target) => {
    return this.claims.unwantedMs(target) < MAY_WANT_MS && (await this.#rules.mayWant(target));
  };

  #evaluated(rule: RuleKey, change: ClaimsChange): void {
    this.#follow(change);
    if (this.claims.versionOf(rule) === undefined) this.#writes.delete(rule);
    this.enqueueTargets(change.targets);
    // Keyferry keeps a copy that other claims use as their source. Now it may be an orphan.
    this.enqueueTargets(change.unusedSources);
    this.enqueueTargets(change.orphans);
    this.enqueueStatus(rule);
  }

  #follow({ addedSources, droppedSources }: Pick<ClaimsChange, 'addedSources' | 'droppedSources'>): void {
    for (const source of addedSources) this.backends.follow(source);
    for (const source of droppedSources) this.backends.unfollow(source);
  }

  async #runTarget(target: ResourceKey, signal: AbortSignal, since: number): Promise<RunResult | undefined> {
    await pause();
    this.cycles.visited(target);
    this.#running.set(target, since);
    try {
      return await this.backends.of(target).targetsOf(target).reconcile(target, signal);
    } finally {
      this.#running.delete(target);
    }
  }

  async #runStatus(rule: RuleKey, signal: AbortSignal): Promise<RunResult | undefined> {
    await pause();
    const writes = this.#writes.get(rule) ?? 0;
    const { claims } = this;
    const known = {
      evaluated: claims.versionOf(rule),
      failure: this.#rules.failureOf(rule),
      undeleted: claims.undeletedOf(rule),
      ...claims.findingsOf(rule),
    };
    if (known.evaluated === undefined) this.#onGone?.(rule, known.undeleted);
    const progress = { writes, ...known };
    const result = await this.#rules.lifeOf(rule).report(rule, this.book.of(rule), progress, signal);
    const left = (this.#writes.get(rule) ?? 0) - writes;
    if (left > 0) this.#writes.set(rule, left);
    else this.#writes.delete(rule);
    return result;
  }
}

/** Whether an error is reported to users: a transient error only if it lasts. */
function isReported(error: unknown, attempt: number): boolean {
  return attempt >= REPORT_AFTER_ATTEMPTS || !isPassing(error);
}

function passingWaitMs(error: unknown): number | undefined {
  return isPassing(error) ? PASSING_WAIT_MS : undefined;
}
