/** Renews, looks up and revokes Vault leases: the lifetimes of dynamic credentials, which `VaultEntries.read` gets. */
import { isVaultError } from './errors.ts';
import { booleanMember, stringMember } from './json.ts';
import type { VaultCaller } from './session/session.ts';

export interface LeaseRenewal {
  /** Counted from the time of the request. Shorter than requested if `max_ttl` limits it. */
  readonly durationSeconds: number;
  readonly renewable: boolean;
}

export interface LeaseFacts {
  /** Wall clock, ms since 1970; `undefined`: does not expire. */
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

/** After a failed renewal: `replace` if the lease has ended or may not be renewed; else `retry`, which may succeed. */
export function renewalVerdict(error: unknown): 'replace' | 'retry' {
  return isVaultError(error, 'leaseGone', 'badRequest', 'permissionDenied', 'notFound', 'invalidPath')
    ? 'replace'
    : 'retry';
}

/**
 * Ends the credentials now, or finds that they have ended.
 * @throws VaultError: `permissionDenied` if the policy does not allow `sys/leases/revoke` (the default one does not),
 *   …; AbortedError. After an error the session keeps the lease's token, because Vault revokes both together.
 */
export async function revokeLease(session: VaultCaller, leaseId: string, signal?: AbortSignal): Promise<void> {
  try {
    await session.request({ method: 'PUT', path: 'sys/leases/revoke', body: jsonBody({ lease_id: leaseId }), signal });
  } catch (error) {
    if (!isVaultError(error, 'leaseGone')) throw error;
  }
  session.forgetLease(leaseId);
}

/** `undefined`: the lease does not exist (any more). @throws VaultError, AbortedError */
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
