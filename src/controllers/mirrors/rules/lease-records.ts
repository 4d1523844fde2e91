/**
 * The leases in the status of a SecretMirror, computed from the previous status and the source. Pure.
 *
 * After a restart, only the status and the copies show a lease. To revoke the lease, Keyferry needs the `vault` block
 * with which the lease was granted, so the record has it. The record of a replaced lease stays until the lease is
 * revoked (`MirrorLeases`) or expires. If the new lease has the same origin, the old one is not recorded: it ends soon.
 */
import { isDeepStrictEqual } from 'node:util';

import type { SourceLease, SourceView } from '../../../copy/model/claim.ts';
import { rfc3339 } from '../../../runtime/text/texts.ts';
import type { SecretMirrorStatus, VaultLeaseRecord, VaultSourceStatus } from '../api.ts';
import type { EffectiveSpec } from './spec.ts';

/** What this process knows of the leases of a mirror. */
export interface LeaseStates {
  /** Whether another lease of the same origin has replaced the lease. Such a lease expires soon. */
  expiresSoon(leaseId: string): boolean;
  /** Whether the lease is revoked. */
  isOver(leaseId: string): boolean;
  /** The version of the destination in Vault that has the present content; `undefined`: it may have another content. */
  readonly destinationVersion: string | undefined;
}

export type LeaseStatus = Pick<SecretMirrorStatus, 'vaultSource' | 'vaultLeases'>;

/** Maximum number of recorded replaced leases. A user may change the path of a source any number of times. */
const MAX_REPLACED = 10;
/** Assumed duration of a lease whose duration is unknown, seconds: by default Vault grants no longer lease. */
const LONGEST_LEASE_SECONDS = 768 * 3600;

/** The leases for the next status of a mirror. @param now wall clock, ms */
export function nextLeases(
  source: SourceView,
  spec: EffectiveSpec,
  previous: LeaseStatus | undefined,
  states: LeaseStates | undefined,
  now: number,
): LeaseStatus {
  const vaultSource = source.state === 'present' ? statusOf(source.lease) : previous?.vaultSource;
  const before = recordsOf(previous, spec);
  const present = presentRecord(vaultSource?.leaseID, source, spec, before, states);
  const expirationTime = rfc3339(now + (previous?.vaultSource?.leaseDuration || LONGEST_LEASE_SECONDS) * 1000);
  const replaced = before
    .filter(({ leaseID, expirationTime: end }) => {
      if (leaseID === vaultSource?.leaseID || states?.isOver(leaseID) === true) return false;
      return end === undefined ? states?.expiresSoon(leaseID) !== true : Date.parse(end) > now;
    })
    .map((record): VaultLeaseRecord => {
      const { leaseID, vault } = record;
      return record.expirationTime === undefined ? { leaseID, vault, expirationTime } : record;
    });
  const vaultLeases = [...present, ...replaced.slice(0, MAX_REPLACED)];
  return {
    ...(vaultSource === undefined ? {} : { vaultSource }),
    ...(vaultLeases.length === 0 ? {} : { vaultLeases }),
  };
}

export function sameLeases(a: LeaseStatus | undefined, b: LeaseStatus): boolean {
  return partsOf(a).every((part, index) => isDeepStrictEqual(part, partsOf(b)[index]));
}

function partsOf(status: LeaseStatus | undefined): readonly unknown[] {
  const { leaseID, leaseDuration, tokenExpirationTime } = status?.vaultSource ?? {};
  return [leaseID, leaseDuration, tokenExpirationTime, status?.vaultLeases ?? []];
}

/** The leases in a status. The original and older versions of Keyferry recorded only `vaultSource`. */
function recordsOf(previous: LeaseStatus | undefined, { sourceVault }: EffectiveSpec): readonly VaultLeaseRecord[] {
  const records = previous?.vaultLeases ?? [];
  const leaseID = previous?.vaultSource?.leaseID;
  if (leaseID === undefined || sourceVault === undefined) return records;
  return records.some((record) => record.leaseID === leaseID) ? records : [...records, { leaseID, vault: sourceVault }];
}

function presentRecord(
  leaseID: string | undefined,
  source: SourceView,
  { sourceVault }: EffectiveSpec,
  before: readonly VaultLeaseRecord[],
  states: LeaseStates | undefined,
): readonly VaultLeaseRecord[] {
  if (leaseID === undefined) return [];
  const record = before.find((one) => one.leaseID === leaseID);
  // Until a changed source has been read, the previous lease counts as present, with the `vault` block of its record.
  const vault = source.state === 'present' ? sourceVault : record?.vault;
  if (vault === undefined) return [];
  const destinationVersion = states?.destinationVersion ?? record?.destinationVersion;
  return [{ leaseID, vault, ...(destinationVersion === undefined ? {} : { destinationVersion }) }];
}

function statusOf(lease: SourceLease | undefined): VaultSourceStatus | undefined {
  if (lease === undefined) return undefined;
  const { id: leaseID, seconds: leaseDuration, tokenExpiresAt } = lease;
  return {
    leaseID,
    leaseDuration,
    ...(tokenExpiresAt === undefined ? {} : { tokenExpirationTime: rfc3339(tokenExpiresAt) }),
  };
}
