/** Waits for conditions, with a time limit. Tests call these functions instead of sleeping. */
import { LONGEST_PAUSE_MS, Yardstick } from './yardstick.ts';

/**
 * Time limit for a condition, ms. On a busy machine, conditions take less than half of it, so only a test that fails
 * anyway reaches it. A test of speed uses `within` instead.
 */
export const PATIENCE_MS = 60_000;

/** Waits become longer on a busy machine, at most by this factor. */
const LONGEST_STRETCH = 4;

/**
 * The pauses between two checks: a share of the time that has passed, within these limits. A check that takes as long
 * as a request costs servers, proxies and test several milliseconds of CPU time, which the programs under test need. So
 * such checks are rarer than those of values in the test's own process.
 */
const REQUEST_MS = 1;
const UNTIL_TRUE = {
  local: { leastMs: 20, share: 1 / 6, mostMs: 150 },
  request: { leastMs: 50, share: 1 / 3, mostMs: 500 },
};
/** Most unwanted effects come at once, and last. */
const STAYS_TRUE = {
  local: { leastMs: 50, share: 0, mostMs: 50 },
  request: { leastMs: 50, share: 1 / 4, mostMs: 500 },
};

/**
 * After a slow check, the pause is this many times as long as the check. A slow check, for example a list of 1,000
 * Secrets, is work for the servers, too.
 */
const PAUSE_SHARE = 3;
const LONGEST_INTERVAL_MS = 500;

/**
 * @param lookMs - how long the last check took
 * @param waitedMs - how long the test has waited. After a slow check, the pause is at most half of this time
 */
function pauseAfter(lookMs: number, waitedMs: number, pauses: typeof UNTIL_TRUE): number {
  const { leastMs, share, mostMs } = lookMs < REQUEST_MS ? pauses.local : pauses.request;
  const usualMs = Math.min(Math.max(leastMs, waitedMs * share), mostMs);
  return Math.max(usualMs, Math.min(PAUSE_SHARE * lookMs, waitedMs / 2, LONGEST_INTERVAL_MS));
}

export interface WaitOptions {
  /** Time limit, ms. Default: `PATIENCE_MS`. */
  readonly timeoutMs?: number;
  /**
   * Pause between two checks, ms. Default: after a request, a third of the time that has passed, but 50 to 500 ms; else a
   * sixth, but 20 to 150 ms; longer after a slow check.
   */
  readonly intervalMs?: number;
  /** What the error says that was awaited. A function is called only at the time limit. */
  readonly message?: string | (() => string);
  readonly signal?: AbortSignal;
}

/**
 * Waits until `condition` returns a truthy value, and returns the value. If `condition` throws, it is called again.
 * @throws Error at the time limit. Its cause is the last error of `condition`
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
    const intervalMs = options.intervalMs ?? pauseAfter(now - lookedAt, waitedMs, UNTIL_TRUE);
    await new Promise((resolve) => setTimeout(resolve, intervalMs));
  }
}

/**
 * Waits until the value of `look` has not changed for `quietMs`, longer on a busy machine.
 * @throws Error if the value still changes after `PATIENCE_MS`
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
 * Checks that `condition` stays true for `durationMs`, to show that something does not happen. On a busy machine it
 * waits longer, because an unwanted effect would come later there.
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
    const pauseMs = pauseAfter(now - lookedAt, now - from, STAYS_TRUE);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}
