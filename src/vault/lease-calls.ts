/** Renews, looks up and revokes leases. A lease is the lifetime of dynamic credentials that `VaultEntries.read` got. */
import { isVaultError } from './errors.ts';
import { booleanMember, stringMember } from './json.ts';
import type { VaultCaller } from './session/session.ts';

interface LeaseRenewal {
  /** Counted from the time of the request. Shorter than requested if `max_ttl` limits the life of the lease. */
  readonly durationSeconds: number;
  readonly renewable: boolean;
}

export interface LeaseFacts {
  /** Wall clock, ms since 1970; `undefined`: the lease does not expire. */
  readonly expiresAt: number | undefined;
  readonly renewable: boolean;
}

/**
 * Renews the lease: requests a life of `incrementSeconds` from now.
 * @throws VaultError: `leaseGone` if the lease has ended or cannot be renewed, `permissionDenied` if a policy forbids
 *   it, …; see `renewalVerdict`. AbortedError.
 */
export async function renewLease(
  session: VaultCaller,
  leaseId: string,
  incrementSeconds: number,
  signal?: AbortSignal,
): Promise<LeaseRenewal> {
  const body = jsonBody({ lease_id: leaseId, increment: Math.round(incrementSeconds) });
  const { leaseSeconds, renewable } = await session.request({ method: 'PUT', path: 'sys/leases/renew', body, signal });
  return { durationSeconds: leaseSeconds, renewable };
}

/** What to do after a failed renewal: `replace` the lease if it has ended or Vault never renews it; else `retry`. */
export function renewalVerdict(error: unknown): 'replace' | 'retry' {
  return isVaultError(error, 'leaseGone', 'badRequest', 'permissionDenied', 'notFound', 'invalidPath')
    ? 'replace'
    : 'retry';
}

/**
 * Ends a lease and its credentials. Also succeeds if the lease has already ended.
 * @throws VaultError: `permissionDenied` if the policy does not allow `sys/leases/revoke` (the policy `default` does
 *   not), …; AbortedError. After an error the session still counts the lease, and so does not revoke its token.
 */
export async function revokeLease(session: VaultCaller, leaseId: string, signal?: AbortSignal): Promise<void> {
  try {
    await session.request({ method: 'PUT', path: 'sys/leases/revoke', body: jsonBody({ lease_id: leaseId }), signal });
  } catch (error) {
    if (!isVaultError(error, 'leaseGone')) throw error;
  }
  session.forgetLease(leaseId);
}

/** Reads a lease from Vault. `undefined`: the lease does not exist (any more). @throws VaultError, AbortedError */
export async function lookupLease(
  session: VaultCaller,
  leaseId: string,
  signal?: AbortSignal,
): Promise<LeaseFacts | undefined> {
  try {
    const body = jsonBody({ lease_id: leaseId });
    const { data } = await session.request({ method: 'PUT', path: 'sys/leases/lookup', body, signal });
    const expiresAt = Date.parse(stringMember(data, 'expire_time') ?? '');
    return {
      expiresAt: Number.isNaN(expiresAt) ? undefined : expiresAt,
      renewable: booleanMember(data, 'renewable') ?? false,
    };
  } catch (error) {
    if (isVaultError(error, 'leaseGone')) return undefined;
    throw error;
  }
}

function jsonBody(fields: Readonly<Record<string, string | number>>): Buffer {
  return Buffer.from(JSON.stringify(fields));
}
