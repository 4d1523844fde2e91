/**
 * Decides when a Vault lease of dynamic credentials is renewed, looked up or replaced, and renews it. Times of a lease
 * are on the monotonic clock, so that a change of the wall clock does not change its remaining time.
 */
import type { Clock } from '../../../runtime/clock.ts';
import { isVaultError } from '../../../vault/errors.ts';
import { lookupLease, renewalVerdict, renewLease } from '../../../vault/lease-calls.ts';
import type { SessionRef } from '../../../vault/session/sessions.ts';
import type { Content } from '../../model/content.ts';
import type { EntryKey, RuleKey } from '../../model/keys.ts';

/** The source and rule that a lease is for. */
export interface LeaseUser {
  /** The key of the source. */
  readonly key: EntryKey;
  readonly rule: RuleKey;
}

export type LeaseEvent =
  | { readonly type: 'granted' | 'renewed' | 'restored'; readonly leaseId: string }
  | { readonly type: 'renewFailed'; readonly leaseId: string; readonly httpStatus: number | undefined };

/** A live lease. */
export interface VaultLease extends LeaseUser {
  /** Whether the status of the rule names the lease. Before that, no copy gets its credentials. */
  isRecorded: boolean;
  readonly leaseId: string;
  readonly content: Content;
  readonly fullSeconds: number;
  durationSeconds: number;
  /** Time of the last renewal or of the grant. Monotonic clock, ms, like `expiresAt` and `checkedAt`. */
  issuedAt: number;
  expiresAt: number;
  renewable: boolean;
  /** Id of the token with which the lease was created. `undefined`: this token is from before a restart. */
  readonly tokenId: string | undefined;
  /** When the token expires without a renewal, ms since 1970; `undefined`: unknown, or the token does not expire. */
  tokenExpiresAt: number | undefined;
  readonly jitter: number;
  readonly ref: SessionRef;
  checkedAt: number;
  /** Whether a policy in Vault forbids looking up the lease. */
  isLookupForbidden: boolean;
}

export interface UpkeepOptions {
  readonly clock: Clock;
  readonly onEvent: (key: EntryKey, event: LeaseEvent) => void;
}

/**
 * Keyferry cannot renew a token from before a restart, and its leases end with the token. If the expiry of the token is
 * not recorded, the lease is looked up at this interval, ms, or at the poll period if this is shorter.
 */
const UNSURE_POLL_MS = 10_000;
/** Longest time until the deadlines of a lease are looked at again, ms, which needs no request: its token may be lost. */
const LOOK_MS = 10_000;
/** If a token's expiry differs by no more than this (ms), it counts as unchanged. */
const TOKEN_END_TOLERANCE_MS = 2000;
/** After this share of a token's remaining time its expiry is read again: the session renews a token at two thirds. */
const TOKEN_LOOK = 0.7;
const SHORTEST_TOKEN_LOOK_MS = 1000;
/** Wait before another renewal if the last one took longer than it gained, ms. */
const RENEW_AGAIN_MS = 1000;
/** HTTP status of Vault's response to the lookup of a lease that does not exist. */
const LEASE_GONE_STATUS = 400;

/**
 * Renews a lease or looks it up, if this is due.
 * @returns ms until the next call; `replace`: new credentials are needed
 * @throws VaultError if Vault's response does not tell the state of the lease; the lease then stays live
 */
export async function maintainLease(
  lease: VaultLease,
  pollMs: number,
  options: UpkeepOptions,
  signal: AbortSignal,
): Promise<number | 'replace'> {
  const { clock } = options;
  const { tokenId } = lease;
  const unsure = tokenId === undefined && lease.tokenExpiresAt === undefined;
  const everyMs = unsure ? Math.min(pollMs, UNSURE_POLL_MS) : pollMs;
  for (;;) {
    updateTokenEnd(lease);
    const now = clock.monotonic();
    const plan = planOf(lease, clock);
    if (plan.action === 'replace') return 'replace';
    if (plan.action === 'renew') {
      if (!(await renew(lease, options, signal))) return 'replace';
      // Vault answered so late that the lease must be renewed again already.
      if (planOf(lease, clock).action === 'renew') return RENEW_AGAIN_MS;
      continue;
    }
    // A poll may come up to 0.5 s early. It counts all the same; otherwise the next poll would follow immediately.
    if (!lease.isLookupForbidden && now - lease.checkedAt >= everyMs - 500 && !(await exists(lease, options, signal))) {
      lease.expiresAt = now;
      return 'replace';
    }
    const tokenLeftMs = (lease.tokenExpiresAt ?? Infinity) - clock.now();
    const tokenLookMs = Math.max(SHORTEST_TOKEN_LOOK_MS, tokenLeftMs * TOKEN_LOOK);
    return Math.max(0, Math.min(plan.at - clock.monotonic(), everyMs, tokenLookMs, LOOK_MS));
  }
}

/** Decides what must be done with the lease now: wait, renew or replace. */
function planOf(lease: VaultLease, clock: Clock): LeasePlan {
  const { tokenId, ref, jitter } = lease;
  const now = clock.monotonic();
  const deadline = tokenId === undefined ? lease.tokenExpiresAt : ref.session.tokenDeadline(tokenId);
  const tokenDeadline = deadline === undefined ? undefined : deadline - clock.now() + now;
  return leasePlan({ ...lease, tokenDeadline }, now, jitter);
}

/** The age of a lease for metrics. `old`: in its last third; `overdue`: a renewal or replacement is due. */
export function ageOf(lease: VaultLease, clock: Clock): 'fresh' | 'old' | 'overdue' {
  if (planOf(lease, clock).action !== 'wait') return 'overdue';
  const { issuedAt, expiresAt } = lease;
  return clock.monotonic() - issuedAt > ((expiresAt - issuedAt) * 2) / 3 ? 'old' : 'fresh';
}

/** Updates the recorded expiry of the lease's token. For a token from before a restart, it stays unchanged. */
export function updateTokenEnd(lease: VaultLease): void {
  if (lease.tokenId === undefined) return;
  const end = lease.ref.session.tokenEndWithoutRenewal(lease.tokenId);
  if (end !== undefined && Math.abs(end - (lease.tokenExpiresAt ?? 0)) <= TOKEN_END_TOLERANCE_MS) return;
  lease.tokenExpiresAt = end;
}

/** @returns whether the lease was renewed; `false`: it must be replaced */
async function renew(lease: VaultLease, { clock, onEvent }: UpkeepOptions, signal: AbortSignal): Promise<boolean> {
  const { leaseId, fullSeconds } = lease;
  const askedAt = clock.monotonic();
  try {
    const { durationSeconds, renewable } = await renewLease(lease.ref.session, leaseId, fullSeconds, signal);
    if (durationSeconds <= 0) return false;
    lease.durationSeconds = durationSeconds;
    lease.issuedAt = askedAt;
    lease.checkedAt = askedAt;
    lease.expiresAt = askedAt + durationSeconds * 1000;
    lease.renewable = renewable;
    onEvent(lease.key, { type: 'renewed', leaseId });
    return true;
  } catch (error) {
    if (!isVaultError(error)) throw error;
    onEvent(lease.key, { type: 'renewFailed', leaseId, httpStatus: error.status });
    if (renewalVerdict(error) === 'replace') return false;
    throw error;
  }
}

async function exists(lease: VaultLease, { clock, onEvent }: UpkeepOptions, signal: AbortSignal): Promise<boolean> {
  lease.checkedAt = clock.monotonic();
  const { key, leaseId } = lease;
  try {
    if ((await lookupLease(lease.ref.session, leaseId, signal)) !== undefined) return true;
    // ktsstudio/mirrors notices a missing lease by a refused renewal, and its users' alerts count refused renewals.
    onEvent(key, { type: 'renewFailed', leaseId, httpStatus: LEASE_GONE_STATUS });
    return false;
  } catch (error) {
    if (!isVaultError(error, 'permissionDenied')) throw error;
    lease.isLookupForbidden = true;
    return true;
  }
}

export interface LeaseTimes {
  /** The time of the last renewal, or, if there was none, of the grant. */
  readonly issuedAt: number;
  readonly expiresAt: number;
  /** The duration of the grant, seconds. Each renewal requests this duration. */
  readonly fullSeconds: number;
  readonly renewable: boolean;
  /** When the lease's token expires. `Infinity`: not before the lease. `undefined`: unknown, treated as `Infinity`. */
  readonly tokenDeadline?: number | undefined;
}

interface LeasePlan {
  readonly action: 'renew' | 'replace' | 'wait';
  /** When to act. If `action` is `wait`, this is later than now. */
  readonly at: number;
}

/** If a renewal gives less than this share of the requested time, `max_ttl` cut it. Rounding may cost `SLACK_MS`. */
const CAPPED_BELOW = 0.9;
const SLACK_MS = 1_000;
const SHORTEST_MARGIN_MS = 30_000;
const LONGEST_MARGIN_MS = 900_000;

/**
 * Decides when to renew a Vault lease and when to replace it. Pure. All times are ms, on one clock.
 *
 * - A lease is renewed at two thirds of its duration (a little earlier by `jitter`), whatever the poll period is.
 * - If a renewal gave less time than requested, `max_ttl` cut it, and another renewal would not help. Then the
 *   credentials are replaced `margin` before their end.
 * - They are also replaced `margin` before their end if the lease is not renewable, or if its token expires earlier:
 *   Vault revokes the leases of a token together with the token.
 * - In the time `margin` the new credentials reach their users. It is a tenth of the lease and at least 30 s, but at
 *   most a third of the lease and at most 15 minutes.
 *
 * @param jitter 0 ≤ jitter < 1; the same in each call for one lease
 */
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
  return at <= now ? { action, at: now } : { action: 'wait', at };
}

function marginOf(fullMs: number): number {
  return Math.min(Math.max(fullMs / 10, SHORTEST_MARGIN_MS), fullMs / 3, LONGEST_MARGIN_MS);
}
