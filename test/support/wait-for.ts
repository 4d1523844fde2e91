/** Waits for a condition with a deadline. Tests use it instead of a sleep. */
import { Yardstick } from './yardstick.ts';

/**
 * How long a test waits for an expected condition: more than twice the time on a busy machine. It only limits a failure;
 * a test of speed uses `within`.
 */
export const PATIENCE_MS = 60_000;

/** The maximum factor by which a busy machine prolongs a wait. */
const LONGEST_STRETCH = 4;

/** Pause between two looks of `staysTrue`, most of which are requests. Most effects that it watches for last. */
const STAYS_INTERVAL_MS = 50;

export interface WaitOptions {
  /** Default `PATIENCE_MS`. */
  readonly timeoutMs?: number;
  /** Pause between two calls of `condition`. Default: a tenth of the time waited so far, 20 to 100 ms. */
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
    try {
      const answer = await condition();
      if (answer) return answer as Exclude<T, undefined | null | false | 0 | ''>;
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    const waitedMs = performance.now() - from;
    if (waitedMs > timeoutMs) {
      const what = typeof options.message === 'function' ? options.message() : (options.message ?? 'the condition');
      const why = cause instanceof Error ? `: ${cause.message}` : '';
      throw new Error(`waited ${timeoutMs} ms for ${what}${why}`, { cause });
    }
    const intervalMs = options.intervalMs ?? Math.min(Math.max(20, waitedMs / 10), 100);
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
  using yardstick = new Yardstick();
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
  using yardstick = new Yardstick();
  const from = performance.now();
  for (;;) {
    const isLast = performance.now() > from + durationMs * Math.min(yardstick.stretch, LONGEST_STRETCH);
    if (!(await condition())) throw new Error(`${message}: no longer true`);
    if (isLast) return;
    await new Promise((resolve) => setTimeout(resolve, STAYS_INTERVAL_MS));
  }
}
