/**
 * The engine: three level-triggered loops over three keyed queues.
 *
 *   rules    recompute a rule's claims, put the difference into the book, enqueue the targets touched
 *   targets  take all claims on one target, plan, do one write, note the outcome
 *   status   tell a rule's user what became of its claims, at most once a second
 *
 * The targets of a backend with lanes of its own (Vault: one a server) have a queue for each, so that a slow server holds up nobody
 * else's targets. Handlers only enqueue keys. The targets' queue starts when every watch has been listed and every rule evaluated once, so that
 * "nobody wants this" is never said too early; and even then a copy is deleted only after its owner was looked up.
 */
import { retryAfterMs } from '../kube/errors.ts';
import type { Clock } from '../runtime/clock.ts';
import { systemClock } from '../runtime/clock.ts';
import { KeyedQueue } from '../runtime/queue/keyed-queue.ts';
import { QueueLanes } from '../runtime/queue/queue-lanes.ts';
import { Slices, TooLongError } from '../runtime/slices.ts';
import type { KeyedQueueOptions, Priority, RunResult, StopOptions } from '../runtime/queue/keyed-queue-options.ts';
import type { BookChange, Entry } from './plan/claim-book.ts';
import { ClaimBook } from './plan/claim-book.ts';
import { Cycles } from './plan/cycles.ts';
import { backendOf, type ResourceKey, type RuleKey } from './model/keys.ts';
import { ownerByMark, placedOwner } from './plan/marks.ts';
import type { Observed } from './model/observed.ts';
import { type Failure, failureOf, isPassing } from './model/failure.ts';
import type { OwnerFate } from './plan/facts.ts';
import type { Evaluation, RuleReconciler, TargetBackend } from './rule-reconciler.ts';
import { vaultLongestWaitMs, vaultRetryAfterMs } from './vault/access.ts';

export interface EngineOptions {
  readonly clock?: Clock;
  /** Targets written at once. Default 8. */
  readonly targetConcurrency?: number;
  /** A loop's run failed and will be repeated. */
  readonly onError: (
    loop: 'rules' | 'targets' | 'status',
    key: string,
    error: unknown,
    retryInMs: number | undefined,
  ) => void;
  /** Sources that claims ask for begin and cease to be followed. */
  readonly onSource: (source: ResourceKey, wanted: boolean) => void;
}

/** Failures that pass by themselves become a rule's business only after this many tries in a row (about 5 s). */
const PATIENCE = 6;
/** Longest wait after such a failure, ms: whatever the outage, 10 s after it all is as it should be. */
const PASSING_WAIT_MS = 8000;
/** A status is written at most this often, ms. */
const STATUS_INTERVAL_MS = 1000;
/** Waits a little for the rest of a burst, ms. */
const STATUS_DELAY_MS = 50;
/** Waits so long for what is under way, so that what has come of it needs no second write, ms. */
const STATUS_PATIENCE_MS = 2000;
const RULE_CONCURRENCY = 8;
/** A rule whose evaluation takes longer than this, ms, goes on in a queue of its own kind. Most take less than one. */
const LIGHT_MS = 30;
const HEAVY_CONCURRENCY = 2;
/** So many targets of one event go ahead in turn with everybody's; the rest of a wider one lets others pass. About half a second of writes. */
const WIDE = 250;
/** Targets written at once in each lane of a backend that has its own. */
const LANE_CONCURRENCY = 16;
const STATUS_CONCURRENCY = 4;
/** How long work that was aborted at a stop may take to end, ms. */
const GRACE_MS = 100;

interface Claimed {
  readonly evaluation: Evaluation | undefined;
  readonly change: BookChange;
}

export class Engine {
  readonly book = new ClaimBook();
  /** Shared by all long work on rules and targets. */
  readonly slices: Slices;
  /** Claims that are not carried out, because their content would come back to where it began. */
  readonly cycles = new Cycles({
    book: this.book,
    flowOf: (claim) => this.#backendOf(claim.target).flowOf(claim),
    onChange: (targets) => {
      this.#touchTargets(targets, 'normal');
    },
  });
  readonly #options: EngineOptions;
  readonly #systems = new Map<string, RuleReconciler>();
  readonly #backends = new Map<string, TargetBackend>();
  readonly #rules: KeyedQueue;
  readonly #heavyRules: KeyedQueue;
  readonly #targets: KeyedQueue;
  readonly #lanes: QueueLanes;
  readonly #status: KeyedQueue;
  readonly #evaluated = new Map<RuleKey, string>();
  /** Rules whose claims may say less than they will: something has happened since they were evaluated. */
  readonly #touched = new Set<RuleKey>();
  readonly #evaluating = new Set<RuleKey>();
  /** Rules that have taken long. */
  readonly #heavy = new Set<RuleKey>();
  readonly #owned = new Map<RuleKey, Set<ResourceKey>>();
  readonly #writes = new Map<RuleKey, number>();
  /** Of rules whose runs fail, once there was patience enough. */
  readonly #failures = new Map<RuleKey, Failure>();
  #started = false;

  constructor(options: EngineOptions) {
    this.#options = options;
    const clock = options.clock ?? systemClock;
    this.slices = new Slices(clock);
    const rules: KeyedQueueOptions = {
      name: 'rules',
      groupOf: namespaceOf,
      clock,
      retryAfterMs,
      retryMaxMsOf: longestWaitMs,
      onError: (key, error, retryInMs, attempt) => {
        options.onError('rules', key, error, retryInMs);
        if (isTold(error, attempt)) this.#noteFailure(key, failureOf(error));
      },
    };
    this.#rules = new KeyedQueue(rules);
    this.#heavyRules = new KeyedQueue({ ...rules, name: 'rules heavy' });
    const targets: KeyedQueueOptions = {
      name: 'targets',
      clock,
      retryAfterMs: waitAskedFor,
      retryMaxMsOf: longestWaitMs,
      onError: (key, error, retryInMs, attempt) => {
        options.onError('targets', key, error, retryInMs);
        if (isTold(error, attempt)) this.#backends.get(backendOf(key))?.failed(key, error);
      },
    };
    this.#targets = new KeyedQueue(targets);
    this.#lanes = new QueueLanes({ ...targets, concurrency: LANE_CONCURRENCY });
    this.#status = new KeyedQueue({
      name: 'status',
      clock,
      retryAfterMs,
      retryMaxMsOf: longestWaitMs,
      minIntervalMs: STATUS_INTERVAL_MS,
      onError: (key, error, retryInMs) => options.onError('status', key, error, retryInMs),
    });
  }

  addReconciler(system: RuleReconciler): void {
    this.#systems.set(system.name, system);
  }

  /** @param name first part of the target keys: a cluster's name, or `vault` */
  addBackend(name: string, backend: TargetBackend): void {
    this.#backends.set(name, backend);
  }

  get queues(): readonly { readonly name: string; readonly queue: KeyedQueue }[] {
    return [
      { name: 'rules', queue: this.#rules },
      { name: 'rules heavy', queue: this.#heavyRules },
      { name: 'targets', queue: this.#targets },
      ...this.#lanes.all,
      { name: 'status', queue: this.#status },
    ];
  }

  /**
   * Starts the loops. Call it when the watches are synced and the rules that they brought are enqueued; for a standby that
   * takes over, everything is looked at again.
   */
  async start(signal: AbortSignal): Promise<void> {
    this.#started = true;
    this.#rules.start(async (key, runSignal) => await this.#runRule(key, runSignal, LIGHT_MS), {
      concurrency: RULE_CONCURRENCY,
    });
    this.#heavyRules.start(async (key, runSignal) => await this.#runRule(key, runSignal), {
      concurrency: HEAVY_CONCURRENCY,
    });
    // All rules first: a target whose claims are not in the book yet looks unwanted. Nobody waits for rules that take long: of their
    // copies it is said `later` until they are evaluated.
    await this.#rules.idle(signal);
    this.#targets.start(async (key, runSignal) => await this.#runTarget(key, runSignal), {
      concurrency: this.#options.targetConcurrency ?? 8,
    });
    this.#lanes.start(async (key, runSignal) => await this.#runTarget(key, runSignal));
    this.#status.start(async (key, runSignal) => await this.#runStatus(key, runSignal), {
      concurrency: STATUS_CONCURRENCY,
    });
  }

  /** Lets running work end within `drainMs`, all queues together, then aborts it. */
  async stop(drainMs = 0): Promise<void> {
    const clock = this.#options.clock ?? systemClock;
    const until = clock.monotonic() + drainMs;
    const limits = (): StopOptions => ({ drainMs: Math.max(0, until - clock.monotonic()), graceMs: GRACE_MS });
    await Promise.all([this.#rules.stop(limits()), this.#heavyRules.stop(limits())]);
    await Promise.all([this.#targets.stop(limits()), this.#lanes.stop(limits())]);
    await this.#status.stop(limits());
  }

  /**
   * What a rule is going to ask for. Before the start it is listed along with all the rest, so that nobody has to look for it
   * object by object afterwards; from the start on the rule's evaluation says it.
   */
  expectSources(rule: RuleKey, sources: readonly ResourceKey[]): void {
    if (!this.#started) this.#follow(this.book.replace(rule, [], sources));
  }

  /** A rule may have changed. */
  touchRule(rule: RuleKey, priority: Priority = 'normal'): void {
    this.#touched.add(rule);
    (this.#heavy.has(rule) ? this.#heavyRules : this.#rules).add(rule, { priority });
  }

  /** A target may not be as it should. */
  touchTarget(target: ResourceKey, priority: Priority = 'normal'): void {
    this.#queueOf(target).add(target, { priority });
  }

  /** As `touchTarget`, but what made it fail before may be over: it does not wait for its next try. */
  retryTarget(target: ResourceKey): void {
    const queue = this.#queueOf(target);
    queue.forget(target);
    queue.add(target);
  }

  #queueOf(target: ResourceKey): KeyedQueue {
    const lane = this.#backends.get(backendOf(target))?.laneOf?.(target);
    return lane === undefined ? this.#targets : this.#lanes.of(lane);
  }

  /** A source may hold something else. */
  touchSource(source: ResourceKey, priority: Priority = 'normal'): void {
    if (!this.cycles.isEmpty) for (const target of this.book.targetsOf(source)) this.cycles.touched(target);
    this.#touchTargets(this.book.targetsOf(source), priority);
    // Of a rule that is still to be evaluated nothing can be said but that.
    for (const rule of this.book.rulesOn(source)) if (this.#evaluated.has(rule)) this.touchStatus(rule);
  }

  /** What one rule or source with thousands of targets sets off must not hold up those of all others. */
  #touchTargets(targets: Iterable<ResourceKey>, priority: Priority): void {
    let touched = 0;
    for (const target of targets) this.touchTarget(target, ++touched > WIDE ? 'low' : priority);
  }

  touchStatus(rule: RuleKey): void {
    this.#status.add(rule, { delayMs: this.book.isUnderWay(rule) ? STATUS_PATIENCE_MS : STATUS_DELAY_MS });
  }

  /** An object changed that may be source, target or both. Keeps the index of marks, enqueues what it concerns. */
  objectChanged(key: ResourceKey, before: Observed | undefined, after: Observed | undefined, initial: boolean): void {
    const was = before && placedOwner(this.#systems.values(), before, key);
    const is = after && placedOwner(this.#systems.values(), after, key);
    if (was !== is) {
      if (was !== undefined) this.#disown(was, key);
      if (is !== undefined) this.#own(is, key);
    }
    const priority = initial ? 'low' : 'normal';
    this.cycles.touched(key);
    if (was !== undefined || is !== undefined || this.book.isClaimed(key)) this.touchTarget(key, priority);
    this.touchSource(key, priority);
  }

  /** The rule whose mark on the object counts, whichever system made it. */
  ownerOf(observed: Observed, target: ResourceKey): RuleKey | undefined {
    return ownerByMark(this.#systems.values(), this.book, observed, target);
  }

  ownedBy(rule: RuleKey): Iterable<ResourceKey> {
    return this.#owned.get(rule) ?? [];
  }

  /** An outcome is news, or a write was done for the claim. */
  outcomeChanged(entry: Entry, wrote: boolean): void {
    const { key } = entry.claim.owner;
    if (wrote) this.#writes.set(key, (this.#writes.get(key) ?? 0) + 1);
    this.touchStatus(key);
  }

  /** Whether a rule whose mark stands on an unclaimed target is gone, or is there and does not want it. Asks the server. */
  async fateOf(
    rule: RuleKey,
    target: ResourceKey,
    observed: Observed,
    signal: AbortSignal,
  ): Promise<OwnerFate | 'later'> {
    const system = this.#reconcilerOf(rule);
    // Nothing can be said yet, so that nobody need be asked: a rule that cannot be prepared may have thousands of copies.
    if (this.#isUnsettled(rule)) return 'later';
    const state = await system.getLive(rule, signal);
    if (state.state === 'gone') return system.orphanPolicy(rule, observed, false);
    // What the server has is not what the claims were made from: the watch is behind, and will enqueue the rule.
    if (this.#evaluated.get(rule) !== state.version) return 'later';
    // A namespace that has come may bring copies along (a backup), before the rule has claimed them.
    if (this.#isUnsettled(rule)) return 'later';
    if (this.book.claims(rule, target)) return 'later';
    return system.orphanPolicy(rule, observed, true);
  }

  /** @param limitMs how long the evaluation may take here, ms */
  async #runRule(rule: RuleKey, signal: AbortSignal, limitMs = Infinity): Promise<undefined> {
    if (limitMs !== Infinity && this.#heavy.has(rule)) {
      this.#heavyRules.add(rule);
      return undefined;
    }
    const system = this.#reconcilerOf(rule);
    let claimed: Claimed;
    try {
      await this.slices.pause();
      if (system.warmUp !== undefined) await this.slices.run(system.warmUp(rule), signal, limitMs);
      await system.prepare?.(rule, signal);
      claimed = await this.#claim(system, rule, signal, limitMs);
    } catch (error) {
      if (!(error instanceof TooLongError)) throw error;
      this.#heavy.add(rule);
      this.#heavyRules.add(rule);
      return undefined;
    }
    const { evaluation, change } = claimed;
    this.#follow(change);
    this.#touchTargets(change.targets, 'normal');
    // What was not deleted while copies were made from it may be a copy that nobody wants.
    this.#touchTargets(change.unusedSources, 'normal');
    if (evaluation === undefined) {
      this.#evaluated.delete(rule);
      this.#heavy.delete(rule);
      this.#writes.delete(rule);
      this.#touchTargets(this.ownedBy(rule), 'normal');
    } else {
      this.#evaluated.set(rule, evaluation.version);
    }
    this.#failures.delete(rule);
    this.touchStatus(rule);
    return undefined;
  }

  /** What happens to the rule meanwhile touches it again; and until its claims are in the book nobody may say what it does not want. */
  async #claim(system: RuleReconciler, rule: RuleKey, signal: AbortSignal, limitMs: number): Promise<Claimed> {
    this.#touched.delete(rule);
    this.#evaluating.add(rule);
    try {
      const evaluation = await this.slices.run(system.evaluate(rule, this), signal, limitMs);
      const change = this.book.replace(rule, evaluation?.claims ?? [], evaluation?.sources ?? []);
      // At once: until then a claim of a cycle looks like any other.
      this.cycles.changed(change);
      return { evaluation, change };
    } catch (error) {
      this.#touched.add(rule);
      throw error;
    } finally {
      this.#evaluating.delete(rule);
    }
  }

  /** The claims of the rule may say less than they will. */
  #isUnsettled(rule: RuleKey): boolean {
    return this.#touched.has(rule) || this.#evaluating.has(rule);
  }

  #noteFailure(rule: RuleKey, failure: Failure): void {
    const before = this.#failures.get(rule);
    if (before?.reason === failure.reason && before.message === failure.message) return;
    this.#failures.set(rule, failure);
    this.touchStatus(rule);
  }

  #follow({ addedSources, droppedSources }: Pick<BookChange, 'addedSources' | 'droppedSources'>): void {
    for (const source of addedSources) this.#options.onSource(source, true);
    for (const source of droppedSources) this.#options.onSource(source, false);
  }

  async #runTarget(target: ResourceKey, signal: AbortSignal): Promise<RunResult | undefined> {
    // Whatever can close or open a cycle touches a target of it; from here all others concerned are touched.
    this.cycles.refresh();
    await this.slices.pause();
    return await this.#backendOf(target).reconcile(target, signal);
  }

  #backendOf(target: ResourceKey): TargetBackend {
    const backend = this.#backends.get(backendOf(target));
    if (backend === undefined) throw new Error(`no backend for the target ${target}`);
    return backend;
  }

  async #runStatus(rule: RuleKey, signal: AbortSignal): Promise<RunResult | undefined> {
    await this.slices.pause();
    const writes = this.#writes.get(rule) ?? 0;
    const news = { writes, evaluated: this.#evaluated.get(rule), failure: this.#failures.get(rule) };
    const result = await this.#reconcilerOf(rule).updateStatus(rule, this.book.of(rule), news, signal);
    const rest = (this.#writes.get(rule) ?? 0) - writes;
    if (rest > 0) this.#writes.set(rule, rest);
    else this.#writes.delete(rule);
    return result;
  }

  #reconcilerOf(rule: RuleKey): RuleReconciler {
    const name = rule.slice(0, rule.indexOf(':'));
    const system = this.#systems.get(name);
    if (system === undefined) throw new Error(`no system for the rule ${rule}`);
    return system;
  }

  #own(rule: RuleKey, target: ResourceKey): void {
    const targets = this.#owned.get(rule);
    if (targets === undefined) this.#owned.set(rule, new Set([target]));
    else targets.add(target);
  }

  #disown(rule: RuleKey, target: ResourceKey): void {
    const targets = this.#owned.get(rule);
    targets?.delete(target);
    if (targets?.size === 0) this.#owned.delete(rule);
    // A rule that is waiting for its last copy to go.
    this.touchStatus(rule);
  }
}

/** The namespace of a rule, whichever system's: `mirrors:default/x`, `replicator:Secret/default/x`. */
function namespaceOf(rule: RuleKey): string {
  return (
    rule
      .slice(rule.indexOf(':') + 1)
      .split('/')
      .at(-2) ?? ''
  );
}

/** Whether a failure is told to users: what passes by itself, only when it goes on. */
function isTold(error: unknown, attempt: number): boolean {
  return attempt >= PATIENCE || !isPassing(error);
}

/** A spread ceiling, so that what failed together does not come back together. */
function longestWaitMs(error: unknown): number | undefined {
  return isPassing(error) ? PASSING_WAIT_MS * (0.75 + Math.random() / 4) : vaultLongestWaitMs(error);
}

/** How long whoever answered asked to be left alone: an API server, or a Vault. */
function waitAskedFor(error: unknown): number | undefined {
  return retryAfterMs(error) ?? vaultRetryAfterMs(error);
}
