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

function due(action: 'renew' | 'replace', at: number, now: number): LeasePlan {
  return at <= now ? { action, at: now, next: action } : { action: 'wait', at, next: action };
}

function marginOf(fullMs: number): number {
  return Math.min(Math.max(fullMs / 10, SHORTEST_MARGIN_MS), fullMs / 3, LONGEST_MARGIN_MS);
}
