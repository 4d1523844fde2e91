/**
 * The work queue. It holds keys, never objects or events: the worker reads the current state itself.
 *
 * A key is at any time in one of these states:
 *
 *   absent ──add──▶ waiting ──worker free──▶ running ──done──▶ absent
 *      └──add later──▶ delayed ──due──▶ waiting
 *
 * - **waiting**: the key is in one of two lists, `normal` before `low`. In a list owners and their groups take turns, and
 *   each group is first in, first out. Adding the key again changes nothing, but adding it as `normal` moves it from `low` to the end
 *   of its group in `normal`. A group with many runs leaves workers to other groups (`turns.ts`).
 * - **delayed**: the key is in the heap with a due time. Of several times the earliest counts. An add without a delay
 *   ends the wait: the run that follows decides again whether to requeue.
 * - **running**: a worker runs the key. Adding the key meanwhile marks it *dirty*: it waits again when the run is over.
 *   The key may also be delayed at the same time, if a later run was requested.
 *
 * If a run fails, it is repeated after the key's back-off. An add ends this wait early, but not before the first
 * back-off step and a Retry-After are over. Until then the key *cools down*: otherwise a run that fails and adds its
 * own key would repeat without a pause. A cooldown also separates the runs of a key by `minIntervalMs`: the first add runs
 * at once, and later adds share one run.
 */
import { orAborted } from '../abort.ts';
import { askedWaitMs, Cooldowns, type WaitAfter, waitAfter } from './backoff.ts';
import { type Clock, systemClock, type Timer } from '../clock.ts';
import { DelayHeap } from './delay-heap.ts';
import { type GroupOf, GroupRuns, Turns } from './turns.ts';

/** `low` is for the many keys of one change, so that later changes overtake them. */
type Priority = 'normal' | 'low';

interface AddOptions {
  /** The run starts this many ms from now at the earliest. Default 0. */
  readonly delayMs?: number;
  /** Default `normal`. */
  readonly priority?: Priority;
}

/**
 * Reconciles the key. If the worker rejects, the run has failed and is repeated with back-off, but not before the
 * `retryAfterMs` of the error. If it returns `requeueAfterMs`, one more run is scheduled. The worker should end soon
 * after the signal is aborted.
 * @param since when the run was requested, monotonic ms; after failures, when the first failed run was requested
 */
export type Worker<K extends string = string> = (
  key: K,
  signal: AbortSignal,
  since: number,
) => Promise<RunResult | undefined | void>;

export interface RunResult {
  readonly requeueAfterMs?: number | undefined;
}

/**
 * Called after every failed run, when the key is queued again.
 * @param retryInMs `undefined`: not repeated, because the key was forgotten or the queue stopped
 * @param attempt number of failures in a row, including this failure
 */
export type OnError<K extends string = string> = (
  key: K,
  error: unknown,
  retryInMs: number | undefined,
  attempt: number,
) => void;

export interface KeyedQueueOptions<K extends string = string> {
  /** Names the queue in errors, logs and metrics: `targets`. */
  readonly name: string;
  /** Called after each failed run. Must not throw. */
  readonly onError: OnError<K>;
  /** First back-off step, ms. Default 100. */
  readonly retryBaseMs?: number;
  /** Longest back-off, ms. Default 60,000. */
  readonly retryMaxMs?: number;
  /** Longest back-off for this error, ms, for an error that may end without a user's action; default `retryMaxMs`. */
  readonly retryMaxMsOf?: (error: unknown) => number | undefined;
  /** Shortest time between the starts of two runs of a key, ms. Default 0. */
  readonly minIntervalMs?: number;
  /**
   * Returns the group of a key, such as its namespace. Groups take turns and share the workers (`turns.ts`). So even if
   * one group has many keys or long runs, it delays no other group. Default: one group for all keys.
   */
  readonly groupOf?: GroupOf<K> | undefined;
  /**
   * Returns the owner of a key, such as the namespace that causes the work. Owners take turns, and the groups of an
   * owner share its turns. So even if an owner has keys in many groups, it delays no other owner. Default: one owner.
   */
  readonly ownerOf?: GroupOf<K> | undefined;
  readonly clock?: Clock;
}

export interface StopOptions {
  /** Time until running workers are aborted, ms. Default 0. */
  readonly drainMs?: number;
  /** Time that aborted workers have to end, ms. Default 1000. */
  readonly graceMs?: number;
}

interface QueueMetrics {
  /** Keys that wait for a worker. */
  readonly depth: number;
  /** Keys that wait until their delay or back-off is over. */
  readonly delayed: number;
  readonly running: number;
  /** Failed runs since the start whose key was queued again. */
  readonly retries: number;
  readonly oldestWaitingMs: number;
  readonly longestRunningMs: number;
}

interface Run {
  readonly startedAt: number;
  /** When the run was requested, monotonic ms; see `Worker`. */
  readonly since: number;
  readonly low: boolean;
  readonly group: string;
  /** Whether the key was added while it ran, and with which priority. */
  dirty: 'no' | 'low' | 'normal';
  /** Whether `forget` was called for the key during the run. If so, the outcome of the run is ignored. */
  forgotten: boolean;
}

/** Shortest time between two removals of expired cooldowns, ms. */
const SWEEP_MS = 1000;

export class KeyedQueue<K extends string = string> {
  readonly #options: KeyedQueueOptions<K>;
  readonly #clock: Clock;
  readonly #minIntervalMs: number;
  readonly #retryBaseMs: number;
  readonly #waitAfter: WaitAfter;
  readonly #waiting: Turns<K>;
  readonly #delayed = new DelayHeap<K>();
  readonly #running = new Map<K, Run>();
  readonly #cooldowns: Cooldowns;
  /** For each key whose last run failed: how many runs in a row failed, and `Run.since` of the first failed run. */
  readonly #failures = new Map<K, { readonly count: number; readonly since: number }>();
  #worker: Worker<K> | undefined;
  #concurrency = 1;
  #groupRuns = new GroupRuns(1);
  #stopped: Promise<readonly K[]> | undefined;
  readonly #abort = new AbortController();
  #idle: PromiseWithResolvers<void> | undefined;
  #pump: NodeJS.Immediate | undefined;
  #timer: Timer | undefined;
  #timerAt = Infinity;
  #retries = 0;

  constructor(options: KeyedQueueOptions<K>) {
    const { clock = systemClock, minIntervalMs = 0, retryBaseMs = 100, retryMaxMs = 60_000 } = options;
    this.#options = options;
    this.#waiting = new Turns<K>(options.groupOf, options.ownerOf);
    this.#clock = clock;
    this.#minIntervalMs = minIntervalMs;
    this.#cooldowns = new Cooldowns(Math.max(SWEEP_MS, minIntervalMs));
    this.#retryBaseMs = retryBaseMs;
    this.#waitAfter = waitAfter({ baseMs: retryBaseMs, maxMs: retryMaxMs });
  }

  /**
   * Requests a run of `key`. Accepted in every state; after `stop` it does nothing.
   * @throws RangeError for a negative or infinite `delayMs`
   */
  add(key: K, { delayMs = 0, priority = 'normal' }: AddOptions = {}): void {
    nonNegative('delayMs', delayMs);
    if (this.#stopped !== undefined) return;
    const run = this.#running.get(key);
    if (run !== undefined) run.forgotten = false;
    const now = this.#clock.monotonic();
    this.#enqueue(key, now + delayMs, priority === 'low', now);
  }

  /**
   * Starts to run keys with `worker`, at most `concurrency` keys (default 1) at a time.
   * @param options.share number of workers that each group may use while others wait. Default: a third
   * @throws Error if it was started before
   */
  start(
    worker: Worker<K>,
    { concurrency = 1, share }: { readonly concurrency?: number; readonly share?: number } = {},
  ): void {
    if (this.#worker !== undefined) throw new Error(`queue ${this.#options.name} was started twice`);
    this.#concurrency = concurrency;
    this.#groupRuns = new GroupRuns(concurrency, share);
    this.#worker = worker;
    this.#schedulePump();
  }

  /** Drops the pending runs of `key` and its failures. A run that has begun goes on to its end, but is not repeated. */
  forget(key: K): void {
    this.#waiting.delete(key);
    this.#delayed.delete(key);
    this.#failures.delete(key);
    this.#cooldowns.delete(key);
    const run = this.#running.get(key);
    if (run !== undefined) {
      run.forgotten = true;
      run.dirty = 'no';
    }
    this.#checkIdle();
  }

  /**
   * Resolves when no key is waiting or running, and after `stop`. Delayed keys, including retries, do not count.
   * @throws AbortedError
   */
  idle(signal?: AbortSignal): Promise<void> {
    if (this.#isIdle()) return Promise.resolve();
    this.#idle ??= Promise.withResolvers<void>();
    return orAborted(this.#idle.promise, signal, `waiting for queue ${this.#options.name} to be idle`);
  }

  /** Whether no key waits, is delayed, runs or has failed. */
  get isUnused(): boolean {
    return this.#isIdle() && this.#delayed.size === 0 && this.#failures.size === 0;
  }

  metrics(): QueueMetrics {
    const now = this.#clock.monotonic();
    let longest = 0;
    for (const run of this.#running.values()) longest = Math.max(longest, now - run.startedAt);
    return {
      depth: this.#waiting.size,
      delayed: this.#delayed.size,
      running: this.#running.size,
      retries: this.#retries,
      oldestWaitingMs: Math.max(0, now - (this.#waiting.oldestSince() ?? now)),
      longestRunningMs: longest,
    };
  }

  /**
   * Ends the queue. Drops waiting and delayed keys. Running workers have `drainMs` (default 0) to end. Then their
   * signal is aborted, and they have `graceMs` (default 1000) to end. Never rejects; safe to call again.
   * @returns the keys whose runs had not ended after `graceMs`
   */
  stop(options: StopOptions = {}): Promise<readonly K[]> {
    this.#stopped ??= this.#stop(options);
    return this.#stopped;
  }

  async #stop({ drainMs = 0, graceMs = 1000 }: StopOptions): Promise<readonly K[]> {
    this.#waiting.clear();
    this.#delayed.clear();
    this.#cooldowns.clear();
    this.#timer?.cancel();
    clearImmediate(this.#pump);
    await this.#settledWithin(drainMs);
    this.#abort.abort(new Error(`queue ${this.#options.name} stopped`));
    await this.#settledWithin(graceMs);
    const left = [...this.#running.keys()];
    this.#idle?.resolve();
    return left;
  }

  async #settledWithin(ms: number): Promise<void> {
    if (ms === 0 || this.#isIdle()) return;
    this.#idle ??= Promise.withResolvers<void>();
    const late = Promise.withResolvers<void>();
    const timer = this.#clock.setTimeout(late.resolve, ms);
    await Promise.race([this.#idle.promise, late.promise]);
    timer.cancel();
  }

  /** Makes the key waiting, dirty or delayed. It runs neither before `at` nor before the end of its cooldown. */
  #enqueue(key: K, at: number, low: boolean, now: number): void {
    const start = Math.max(at, this.#cooldowns.until(key));
    const run = this.#running.get(key);
    if (start <= now) {
      this.#delayed.delete(key);
      if (run === undefined) this.#waiting.add(key, low, now);
      else if (run.dirty !== 'normal') run.dirty = low ? 'low' : 'normal';
      this.#schedulePump();
    } else if (this.#waiting.has(key)) {
      // The waiting key runs before `start` anyway; only its priority may change.
      this.#waiting.add(key, low, now);
    } else if (run === undefined || run.dirty === 'no') {
      this.#delayed.put(key, start, low);
      this.#armTimer(now);
    }
  }

  /** Sets the one timer for all delayed keys to the first due time. If the timer fires too early, it is set again. */
  #armTimer(now: number): void {
    const at = this.#delayed.nextAt;
    if (at === undefined || at >= this.#timerAt) return;
    this.#timer?.cancel();
    this.#timerAt = at;
    this.#timer = this.#clock.setTimeout(() => this.#due(), at - now);
  }

  #due(): void {
    this.#timerAt = Infinity;
    // Measured by the monotonic clock, a timer may fire a little early. Then a timer for the rest of the time is set.
    const now = this.#clock.monotonic();
    for (let due = this.#delayed.shift(now); due !== undefined; due = this.#delayed.shift(now))
      this.#enqueue(due.key, now, due.low, now);
    this.#armTimer(now);
  }

  /** Starts runs in the next turn of the event loop, never inside `add`, so that no run interrupts an event handler. */
  #schedulePump(): void {
    if (this.#pump !== undefined || this.#worker === undefined) return;
    if (this.#running.size >= this.#concurrency + this.#groupRuns.extra || this.#waiting.size === 0) return;
    this.#pump = setImmediate(() => {
      this.#pump = undefined;
      this.#startRuns();
    });
  }

  #startRuns(): void {
    const worker = this.#worker;
    if (worker === undefined) return;
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      const { key, low, group } = next;
      const startedAt = this.#clock.monotonic();
      const since = this.#failures.get(key)?.since ?? next.since;
      const run: Run = { startedAt, since, low, group, dirty: 'no', forgotten: false };
      this.#running.set(key, run);
      this.#groupRuns.started(group);
      if (this.#minIntervalMs > 0) this.#cooldowns.extend(key, startedAt + this.#minIntervalMs);
      void this.#run(key, run, worker);
    }
  }

  /** The key to run now: first of a group below its share of the workers; else, if a worker is free, of any group. */
  #next(): ReturnType<Turns<K>['shift']> {
    const free = this.#concurrency - this.#running.size;
    const { extra, isBelowShare } = this.#groupRuns;
    const next = free + extra > 0 ? this.#waiting.shift(isBelowShare) : undefined;
    return next ?? (free > 0 ? this.#waiting.shift() : undefined);
  }

  async #run(key: K, run: Run, worker: Worker<K>): Promise<void> {
    try {
      const requeueAfterMs = (await worker(key, this.#abort.signal, run.since))?.requeueAfterMs;
      if (requeueAfterMs !== undefined) nonNegative('requeueAfterMs', requeueAfterMs);
      this.#succeeded(key, run, requeueAfterMs);
    } catch (error) {
      if (this.#abort.signal.aborted) this.#running.delete(key);
      else this.#failed(key, run, error);
    } finally {
      this.#groupRuns.ended(run.group);
      this.#schedulePump();
      this.#checkIdle();
    }
  }

  #succeeded(key: K, run: Run, requeueAfterMs: number | undefined): void {
    this.#running.delete(key);
    this.#failures.delete(key);
    const now = this.#clock.monotonic();
    if (this.#stopped !== undefined) return;
    if (run.dirty !== 'no') this.#enqueue(key, now, run.dirty === 'low', now);
    else if (requeueAfterMs !== undefined && !run.forgotten) this.#enqueue(key, now + requeueAfterMs, run.low, now);
    this.#cooldowns.sweep(now);
  }

  #failed(key: K, run: Run, error: unknown): void {
    this.#running.delete(key);
    const now = this.#clock.monotonic();
    let retryInMs: number | undefined;
    let attempt = 1;
    if (this.#stopped === undefined && !run.forgotten) {
      const floorMs = askedWaitMs(error);
      attempt = (this.#failures.get(key)?.count ?? 0) + 1;
      this.#failures.set(key, { count: attempt, since: run.since });
      const wait = this.#waitAfter(attempt, floorMs, this.#options.retryMaxMsOf?.(error));
      const cooldown = Math.min(wait, Math.max(floorMs, this.#retryBaseMs));
      retryInMs = run.dirty === 'no' ? wait : cooldown;
      this.#cooldowns.extend(key, now + cooldown);
      this.#retries++;
      this.#enqueue(key, now + retryInMs, run.low && run.dirty !== 'normal', now);
      this.#cooldowns.sweep(now);
    }
    this.#options.onError(key, error, retryInMs, attempt);
  }

  #isIdle(): boolean {
    return this.#running.size === 0 && this.#waiting.size === 0;
  }

  #checkIdle(): void {
    if (this.#idle === undefined || !this.#isIdle()) return;
    this.#idle.resolve();
    this.#idle = undefined;
  }
}

/** @throws RangeError naming the option and its value */
function nonNegative(name: string, value: number): number {
  if (!(value >= 0 && value < Infinity)) throw new RangeError(`${name} must be 0 or more, got ${value}`);
  return value;
}
