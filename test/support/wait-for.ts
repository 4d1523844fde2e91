/** Waits for a condition with a deadline. Tests use it instead of a sleep. */
import { LONGEST_PAUSE_MS, Yardstick } from './yardstick.ts';

/**
 * How long a test waits for an expected condition: more than twice the time on a busy machine. It only limits a failure;
 * a test of speed uses `within`.
 */
export const PATIENCE_MS = 60_000;

/** The maximum factor by which a busy machine prolongs a wait. */
const LONGEST_STRETCH = 4;

/** Pause between two looks of `staysTrue`, most of which are requests. Most effects that it watches for last. */
const STAYS_INTERVAL_MS = 50;

/**
 * The least pause between two looks of `waitFor`, of a share of the time waited so far. Most looks are requests, and these use processor
 * time that the servers and programs under test need.
 */
const LEAST_PAUSE_MS = 20;
const WAITED_SHARE = 1 / 6;
const LONGEST_LEAST_PAUSE_MS = 150;

/** A look that takes long, such as a list of 1,000 Secrets, is work for the servers under test: the pause is so many times longer. */
const PAUSE_SHARE = 3;
const LONGEST_INTERVAL_MS = 500;

/** @param lookMs the time of the last look @param waitedMs so far: the pause adds at most half of it */
function pauseAfter(lookMs: number, waitedMs: number, leastMs: number): number {
  return Math.max(leastMs, Math.min(PAUSE_SHARE * lookMs, waitedMs / 2, LONGEST_INTERVAL_MS));
}

export interface WaitOptions {
  /** Default `PATIENCE_MS`. */
  readonly timeoutMs?: number;
  /**
   * Pause between two calls of `condition`. Default: a sixth of the time waited so far, 20 to 150 ms, and longer after a call that takes
   * long.
   */
  readonly intervalMs?: number;
  /** Names the condition in the error. A function is called when the deadline has passed. */
  readonly message?: string | (() => string);
  readonly signal?: AbortSignal;
}

/**
 * Resolves with the first truthy result of `condition`. An error of `condition` counts as "not yet".
 * @throws Error after `timeoutMs`, with the last error of `condition` as cause.
 */
export async function waitFor<T>(
  condition: () => T | Promise<T>,
  options: WaitOptions = {},
): Promise<Exclude<T, undefined | null | false | 0 | ''>> {
  const { timeoutMs = PATIENCE_MS } = options;
  const from = performance.now();
  let cause: unknown;
  for (;;) {
    options.signal?.throwIfAborted();
    const lookedAt = performance.now();
    try {
      const answer = await condition();
      if (answer) return answer as Exclude<T, undefined | null | false | 0 | ''>;
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    const now = performance.now();
    const waitedMs = now - from;
    if (waitedMs > timeoutMs) {
      const what = typeof options.message === 'function' ? options.message() : (options.message ?? 'the condition');
      const why = cause instanceof Error ? `: ${cause.message}` : '';
      throw new Error(`waited ${timeoutMs} ms for ${what}${why}`, { cause });
    }
    const leastMs = Math.min(Math.max(LEAST_PAUSE_MS, waitedMs * WAITED_SHARE), LONGEST_LEAST_PAUSE_MS);
    const intervalMs = options.intervalMs ?? pauseAfter(now - lookedAt, waitedMs, leastMs);
    await new Promise((resolve) => setTimeout(resolve, intervalMs));
  }
}

/**
 * Waits until `look` has returned the same value for `quietMs`, which is longer on a busy machine.
 * @throws Error if that does not happen within `PATIENCE_MS`
 */
export async function waitForStable(
  look: () => string | Promise<string>,
  quietMs: number,
  message: string,
): Promise<void> {
  using yardstick = new Yardstick(LONGEST_PAUSE_MS);
  let seen: string | undefined;
  let since = performance.now();
  const rests = async (): Promise<boolean> => {
    const now = await look();
    if (now !== seen) since = performance.now();
    seen = now;
    return performance.now() - since > quietMs * Math.min(yardstick.stretch, LONGEST_STRETCH);
  };
  await waitFor(rests, { message });
}

/**
 * Checks that `condition` stays true for `durationMs`, for "nothing more happens". On a busy machine it takes longer, in
 * proportion to its speed, because an unwanted effect would appear later there.
 * @throws Error as soon as it is false.
 */
export async function staysTrue(
  condition: () => boolean | Promise<boolean>,
  durationMs: number,
  message: string,
): Promise<void> {
  using yardstick = new Yardstick(LONGEST_PAUSE_MS);
  const from = performance.now();
  for (;;) {
    const lookedAt = performance.now();
    const isLast = lookedAt > from + durationMs * Math.min(yardstick.stretch, LONGEST_STRETCH);
    if (!(await condition())) throw new Error(`${message}: no longer true`);
    if (isLast) return;
    const now = performance.now();
    const pauseMs = pauseAfter(now - lookedAt, now - from, STAYS_INTERVAL_MS);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}
