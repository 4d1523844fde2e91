/** Waits for conditions, with a time limit. Tests use these functions in place of a sleep. */
import { LONGEST_PAUSE_MS, Yardstick } from './yardstick.ts';

/**
 * The time that a test waits for a condition, ms: more than twice what it takes on a busy machine. It only ends a test
 * that fails. A test of speed uses `within`.
 */
export const PATIENCE_MS = 60_000;

/** The largest factor by which a wait becomes longer on a busy machine. */
const LONGEST_STRETCH = 4;

/**
 * Pause between two checks of `staysTrue`, ms. Most checks are requests, and most effects that they look for last
 * longer.
 */
const STAYS_INTERVAL_MS = 50;

/**
 * The shortest pause between two checks of `waitFor`, ms; it grows with the time waited so far. Most checks are
 * requests, and take CPU time that servers and programs under test need.
 */
const LEAST_PAUSE_MS = 20;
const WAITED_SHARE = 1 / 6;
const LONGEST_LEAST_PAUSE_MS = 150;

/**
 * The pause after a check is so many times as long as the check: a long one, as a list of 1,000 Secrets, is work for
 * the servers.
 */
const PAUSE_SHARE = 3;
const LONGEST_INTERVAL_MS = 500;

/**
 * @param lookMs - the time of the last check
 * @param waitedMs - the time so far, of which the pause adds at most half
 */
function pauseAfter(lookMs: number, waitedMs: number, leastMs: number): number {
  return Math.max(leastMs, Math.min(PAUSE_SHARE * lookMs, waitedMs / 2, LONGEST_INTERVAL_MS));
}

export interface WaitOptions {
  /** The time limit, ms. Default: `PATIENCE_MS`. */
  readonly timeoutMs?: number;
  /**
   * The pause between two calls of `condition`, ms. Default: a sixth of the time waited so far, from 20 to 150 ms, and
   * more after a long call.
   */
  readonly intervalMs?: number;
  /** The name of the condition in the error. A function is called at the time limit. */
  readonly message?: string | (() => string);
  readonly signal?: AbortSignal;
}

/**
 * Waits until `condition` returns something truthy, and returns it. An error of `condition` counts as "not yet".
 * @throws Error at the time limit, with the last error of `condition` as its cause
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
 * Waits until `look` returns the same value for `quietMs`. On a busy machine this time is longer.
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
 * Checks that `condition` stays true for `durationMs`, to show that nothing more happens. On a busy machine it takes
 * longer, because there an unwanted effect would come later.
 * @throws Error as soon as `condition` is false
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
