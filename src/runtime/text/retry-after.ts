/**
 * Reads the header `Retry-After` (RFC 9110 §10.2.3). The wait is limited, because a server may request a wait of a
 * year, for example, or send a date from a wrong clock.
 */

/** Longest wait, ms. */
export const LONGEST_RETRY_AFTER_MS = 60_000;

/**
 * @param header seconds or a date
 * @param nowMs wall clock, to turn a date into a duration
 * @returns ms, 0 to `LONGEST_RETRY_AFTER_MS`; `undefined`: there is no header, or it is neither seconds nor a date
 */
export function parseRetryAfter(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined;
  const text = header.trim();
  const ms = /^\d+(?:\.\d+)?$/u.test(text) ? Number(text) * 1000 : Date.parse(text) - nowMs;
  return Number.isNaN(ms) ? undefined : limitRetryAfter(ms);
}

/** Limits a wait that a server requested to 0–`LONGEST_RETRY_AFTER_MS`, ms. */
export function limitRetryAfter(ms: number): number {
  return Math.min(Math.max(0, ms), LONGEST_RETRY_AFTER_MS);
}
