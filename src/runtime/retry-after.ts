/**
 * How long a server asks to be left alone: the header `Retry-After` (RFC 9110 §10.2.3). Whoever waits so long hears of nothing else
 * meanwhile, so what is absurd (a year, a date by a clock that is wrong) is not obeyed to the letter.
 */

/** The longest wait that a server is granted, ms. */
export const LONGEST_RETRY_AFTER_MS = 60_000;

/**
 * @param header seconds or a date
 * @param nowMs wall clock, to turn a date into a duration
 * @returns ms, 0 to `LONGEST_RETRY_AFTER_MS`; `undefined` for no header or one that is neither
 */
export function parseRetryAfter(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined;
  const text = header.trim();
  const ms = /^\d+(?:\.\d+)?$/u.test(text) ? Number(text) * 1000 : Date.parse(text) - nowMs;
  return Number.isNaN(ms) ? undefined : granted(ms);
}

/** A wait that a server asked for, ms, as long as it is granted. */
export function granted(ms: number): number {
  return Math.min(Math.max(0, ms), LONGEST_RETRY_AFTER_MS);
}
