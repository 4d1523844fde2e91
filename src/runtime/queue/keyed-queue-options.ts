/** Options, results and metrics of a `KeyedQueue`. */
import type { Clock } from '../clock.ts';
import type { GroupOf } from './turns.ts';

/** `low` is for the objects in the first list of a watch, so that later changes overtake them. */
export type Priority = 'normal' | 'low';

export interface AddOptions {
  /** The run starts this many ms from now at the earliest. Default 0. */
  readonly delayMs?: number;
  /** Default `normal`. */
  readonly priority?: Priority;
}

/**
 * Reconciles the key. If the worker rejects, the run has failed and is repeated with back-off, but not before the
 * `retryAfterMs` of the error. If it returns
 * `requeueAfterMs`, one more run is scheduled. The worker should end soon after the signal is aborted.
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
  /** Returns r, 0 ≤ r < 1, for the random part of the back-off. Default `Math.random`. */
  readonly random?: (() => number) | undefined;
}

export interface StopOptions {
  /** Time until running workers are aborted, ms. Default 0. */
  readonly drainMs?: number;
  /** Time that aborted workers have to end, ms. Default 1000. */
  readonly graceMs?: number;
}

export interface QueueMetrics {
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
