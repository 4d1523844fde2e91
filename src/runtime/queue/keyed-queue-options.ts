/** Options, results and metrics of a `KeyedQueue`. */
import type { Clock } from '../clock.ts';
import type { GroupOf } from './turns.ts';

/** `low` is for the objects of the first list of a watch; live changes overtake them. */
export type Priority = 'normal' | 'low';

export interface AddOptions {
  /** Not before this many ms from now. Default 0. */
  readonly delayMs?: number;
  /** Default `normal`. */
  readonly priority?: Priority;
}

/**
 * Reconciles the key. A rejection is a failure and is repeated with back-off; `requeueAfterMs` schedules one more run. The
 * worker should end soon after the signal is aborted.
 * @param since when the run was requested, monotonic ms; after failures, when the first of the failed runs was
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
 * @param attempt failures in a row, this one included
 */
export type OnError<K extends string = string> = (
  key: K,
  error: unknown,
  retryInMs: number | undefined,
  attempt: number,
) => void;

export interface KeyedQueueOptions<K extends string = string> {
  /** For errors, logs and metrics: `targets`. */
  readonly name: string;
  /** Must not throw. */
  readonly onError: OnError<K>;
  /** Retry-After of a worker's error, ms. */
  readonly retryAfterMs?: (error: unknown) => number | undefined;
  /** First back-off step, ms. Default 100. */
  readonly retryBaseMs?: number;
  /** Longest back-off, ms. Default 60,000. */
  readonly retryMaxMs?: number;
  /** Ceiling of the back-off after this error, ms, where it is lower than `retryMaxMs`: for errors that end without an action of a user. */
  readonly retryMaxMsOf?: (error: unknown) => number | undefined;
  /** Runs of one key start at least this far apart, ms. Default 0. */
  readonly minIntervalMs?: number;
  /**
   * Groups of keys (of one user) take turns and share the workers (`turns.ts`), so that neither many keys nor long runs of one group
   * hold up another. Default: all are one.
   */
  readonly groupOf?: GroupOf<K> | undefined;
  /** `groupOf` may give another group later. A key that waits stays in its group; this costs memory for each key. */
  readonly groupsChange?: boolean;
  /** A group for which it is false misses its turns. Call `KeyedQueue.resume` when it may be true again. Default: no group does. */
  readonly mayRun?: ((group: string) => boolean) | undefined;
  readonly clock?: Clock;
  /** 0 ≤ r < 1, for the jitter of the back-off. */
  readonly random?: (() => number) | undefined;
}

export interface StopOptions {
  /** How long running workers may go on, ms. Default 0. */
  readonly drainMs?: number;
  /** How long they may take to notice the abort after that, ms. Default 1000. */
  readonly graceMs?: number;
}

export interface QueueMetrics {
  /** Keys waiting for a worker now. */
  readonly depth: number;
  /** Keys waiting for their time. */
  readonly delayed: number;
  readonly running: number;
  /** Since the start. */
  readonly retries: number;
  readonly oldestWaitingMs: number;
  readonly longestRunningMs: number;
}
