/**
 * Vault's leases: the life of dynamic credentials. `VaultEntries.read` makes them; here they are kept and ended.
 */
import { isVaultError } from './errors.ts';
import { booleanMember, stringMember } from './json.ts';
import type { VaultCaller } from './session/session.ts';

export interface LeaseRenewal {
  /** From the time of asking; shorter than asked for where `max_ttl` is near. */
  readonly durationSeconds: number;
  readonly renewable: boolean;
}

export interface LeaseFacts {
  /** Wall clock, ms since 1970. */
  readonly issuedAt: number;
  readonly expiresAt: number | undefined;
  readonly renewable: boolean;
}

/**
 * Asks for `incrementSeconds` from now on.
 * @throws VaultError: `leaseGone` if it is over or cannot be renewed, `permissionDenied` if a policy forbids it, …; see
 *   `renewalVerdict`. AbortedError.
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

/**
 * What a failed renewal means: `replace`, the lease is over or we may not keep it, so new credentials are needed;
 * `retry`, Vault cannot tell at the moment, and the lease lives on until its end.
 */
export function renewalVerdict(error: unknown): 'replace' | 'retry' {
  return isVaultError(error, 'leaseGone', 'badRequest', 'permissionDenied', 'notFound', 'invalidPath')
    ? 'replace'
    : 'retry';
}

/**
 * Ends the credentials now, or finds that they have ended.
 * @throws VaultError: `permissionDenied` if the policy does not allow `sys/leases/revoke` (the default one does not), …;
 *   AbortedError. The lease is then still counted to its token.
 */
export async function revokeLease(session: VaultCaller, leaseId: string, signal?: AbortSignal): Promise<void> {
  try {
    await session.request({ method: 'PUT', path: 'sys/leases/revoke', body: jsonBody({ lease_id: leaseId }), signal });
  } catch (error) {
    if (!isVaultError(error, 'leaseGone')) throw error;
  }
  session.forgetLease(leaseId);
}

/** `undefined`: there is no such lease (any more). @throws VaultError, AbortedError */
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
      issuedAt: Date.parse(stringMember(data, 'issue_time') ?? '') || 0,
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
