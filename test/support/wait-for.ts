/** Waiting for a condition with a deadline: what tests use in place of a sleep. */

export interface WaitOptions {
  /** Default 10,000. */
  readonly timeoutMs?: number;
  /** Pause between two looks. Default 20. */
  readonly intervalMs?: number;
  /** What was waited for; stands in the error. A function is asked when the deadline has passed. */
  readonly message?: string | (() => string);
  readonly signal?: AbortSignal;
}

/**
 * Resolves with the first truthy answer of `condition`. A condition that throws is taken for "not yet".
 * @throws Error after `timeoutMs`, with the last error of `condition` as cause.
 */
export async function waitFor<T>(
  condition: () => T | Promise<T>,
  options: WaitOptions = {},
): Promise<Exclude<T, undefined | null | false | 0 | ''>> {
  const { timeoutMs = 10_000, intervalMs = 20 } = options;
  const deadline = performance.now() + timeoutMs;
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
    if (performance.now() > deadline) {
      const what = typeof options.message === 'function' ? options.message() : (options.message ?? 'the condition');
      const why = cause instanceof Error ? `: ${cause.message}` : '';
      throw new Error(`waited ${timeoutMs} ms in vain for ${what}${why}`, { cause });
    }
    await new Promise((resolve) => setTimeout(resolve, intervalMs));
  }
}

/**
 * Holds as long as `condition` stays true for `durationMs`: for "and nothing more happens".
 * @throws Error as soon as it is false.
 */
export async function staysTrue(
  condition: () => boolean | Promise<boolean>,
  durationMs: number,
  message: string,
): Promise<void> {
  const end = performance.now() + durationMs;
  do {
    if (!(await condition())) throw new Error(`${message}: no longer true`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  } while (performance.now() < end);
}
