/**
 * When to renew a Vault lease and when to replace it. Pure. All times are ms, on one clock.
 *
 * - A lease is renewed at two thirds of its life (a little earlier by `jitter`), whatever the poll period of its rule.
 * - If a renewal gave less time than requested, `max_ttl` cut it, and another renewal would not help. The credentials are
 *   replaced `margin` before their end.
 * - The same holds for a lease that is not renewable, and for one whose token expires first: Vault revokes the leases of a
 *   token with it.
 * - `margin` is the time for the new credentials to reach their users: a tenth of the lease, 30 s at least, but no more than a
 *   third of the lease and no more than 15 minutes.
 */

export interface LeaseTimes {
  /** Of the last renewal, or of the grant. */
  readonly issuedAt: number;
  readonly expiresAt: number;
  /** The increment of each renewal: the duration of the grant, seconds. */
  readonly fullSeconds: number;
  readonly renewable: boolean;
  /** Expiry of the token of the lease. `Infinity`: the token outlives the lease. `undefined`: unknown, and treated as `Infinity`. */
  readonly tokenDeadline?: number | undefined;
}

export interface LeasePlan {
  readonly action: 'renew' | 'replace' | 'wait';
  /** For `wait`: when `next` is due; else `now`. */
  readonly at: number;
  readonly next: 'renew' | 'replace';
}

/** Leases that Vault ended early, one after the other. */
export interface EarlyEnds {
  readonly count: number;
  /** Of the last one. */
  readonly at: number;
  /** No new credentials are requested before this time. */
  readonly until: number;
}

/** Share of its duration before which the end of a lease is early. */
const EARLY = 0.6;
/** A single end is no series: after it new credentials are requested at once. Wait after the second, ms; it doubles each time. */
const EARLY_WAIT = { first: 2_000, longest: 60_000 };
/** A series ends when no lease ends early for this time, ms. */
const CALM_MS = 600_000;

/** A renewal may lose a second to rounding. */
const CAPPED_BELOW = 0.9;
const SLACK_MS = 1_000;
const SHORTEST_MARGIN_MS = 30_000;
const LONGEST_MARGIN_MS = 900_000;

/** @param jitter 0 ≤ jitter < 1; the same for one lease from call to call */
export function leasePlan(lease: LeaseTimes, now: number, jitter: number): LeasePlan {
  const fullMs = lease.fullSeconds * 1_000;
  const lifeMs = lease.expiresAt - lease.issuedAt;
  const tokenDeadline = lease.tokenDeadline ?? Infinity;
  const end = Math.min(lease.expiresAt, tokenDeadline);
  const capped = lifeMs < fullMs * CAPPED_BELOW && lifeMs < fullMs - SLACK_MS;
  const extendable = lease.renewable && !capped && tokenDeadline > lease.expiresAt && now < end;
  return extendable
    ? due('renew', lease.expiresAt - (lifeMs / 3) * (1 + 0.1 * jitter), now)
    : due('replace', end - marginOf(fullMs), now);
}

/** Whether a lease that Vault no longer has at `now` ended early. */
export function endedEarly({ issuedAt, expiresAt }: Pick<LeaseTimes, 'issuedAt' | 'expiresAt'>, now: number): boolean {
  return now - issuedAt < (expiresAt - issuedAt) * EARLY;
}

/** The series with one more. @param before `undefined`: no lease ended early yet */
export function withEarlyEnd(before: EarlyEnds | undefined, now: number): EarlyEnds {
  const count = before !== undefined && now - before.at < CALM_MS ? before.count + 1 : 1;
  const waitMs = count === 1 ? 0 : Math.min(EARLY_WAIT.first * 2 ** (count - 2), EARLY_WAIT.longest);
  return { count, at: now, until: now + waitMs };
}

function due(action: 'renew' | 'replace', at: number, now: number): LeasePlan {
  return at <= now ? { action, at: now, next: action } : { action: 'wait', at, next: action };
}

function marginOf(fullMs: number): number {
  return Math.min(Math.max(fullMs / 10, SHORTEST_MARGIN_MS), fullMs / 3, LONGEST_MARGIN_MS);
}
