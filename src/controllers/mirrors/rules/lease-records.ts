/**
 * The lease in the status of a SecretMirror, computed from the previous status and the source. Pure.
 *
 * The status names a lease before a copy has its credentials. After a restart, only status and copies show a lease. To
 * revoke it, Keyferry needs the `vault` block with which the lease was granted, so the record has it.
 */
import { isDeepStrictEqual } from 'node:util';

import type { SourceLease, SourceView } from '../../../copy/model/claim.ts';
import { rfc3339 } from '../../../runtime/text/texts.ts';
import type { SecretMirrorStatus, VaultLeaseRecord, VaultSourceStatus } from '../api.ts';
import type { EffectiveSpec } from './spec.ts';

/** What this process knows of the lease of a mirror. */
export interface LeaseState {
  /** The lease that the status must name; `undefined`: no credentials were granted yet, or the source has no lease. */
  readonly lease: SourceLease | undefined;
  /** The version of the destination in Vault that has the present content; `undefined`: it may have another content. */
  readonly destinationVersion: string | undefined;
}

export type LeaseStatus = Pick<SecretMirrorStatus, 'vaultSource' | 'vaultLeases'>;

/** The lease for the next status of a mirror. */
export function nextLease(
  source: SourceView,
  { sourceVault }: EffectiveSpec,
  previous: LeaseStatus | undefined,
  { lease, destinationVersion }: LeaseState,
): LeaseStatus {
  if (lease === undefined) {
    // Until a changed source has been read, the previous lease counts as present, with the `vault` block of its record.
    const { vaultSource } = previous ?? {};
    return source.state === 'present' || vaultSource === undefined ? {} : statusOf(vaultSource, recordOf(previous));
  }
  const { id: leaseID, seconds: leaseDuration, tokenExpiresAt } = lease;
  const tokenEnd = tokenExpiresAt === undefined ? {} : { tokenExpirationTime: rfc3339(tokenExpiresAt) };
  // Until the status names the lease, the destination has the credentials of the lease before.
  const isShown = source.state === 'present' && source.lease?.id === leaseID;
  const before = previous?.vaultSource?.leaseID === leaseID ? recordOf(previous)?.destinationVersion : undefined;
  const version = (isShown ? destinationVersion : undefined) ?? before;
  const held = version === undefined ? {} : { destinationVersion: version };
  return statusOf({ leaseID, leaseDuration, ...tokenEnd }, sourceVault && { leaseID, vault: sourceVault, ...held });
}

/** The record of the lease that a status names; `undefined`: the original wrote this status. */
export function recordOf(status: LeaseStatus | undefined): VaultLeaseRecord | undefined {
  return status?.vaultLeases?.find(({ leaseID }) => leaseID === status.vaultSource?.leaseID);
}

export function sameLeases(a: LeaseStatus | undefined, b: LeaseStatus): boolean {
  return partsOf(a).every((part, index) => isDeepStrictEqual(part, partsOf(b)[index]));
}

function partsOf(status: LeaseStatus | undefined): readonly unknown[] {
  const { leaseID, leaseDuration, tokenExpirationTime } = status?.vaultSource ?? {};
  return [leaseID, leaseDuration, tokenExpirationTime, status?.vaultLeases ?? []];
}

function statusOf(vaultSource: VaultSourceStatus, record: VaultLeaseRecord | undefined): LeaseStatus {
  return record === undefined ? { vaultSource } : { vaultSource, vaultLeases: [record] };
}
