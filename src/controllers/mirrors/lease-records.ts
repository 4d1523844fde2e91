/**
 * What a SecretMirror's status says of its leases, folded from what it said before and from the source. Pure.
 *
 * A restarted operator knows of a lease what stands here and on the copies, so the record of a lease holds all that is needed to revoke it:
 * the `vault` block of the time at which it was granted. When another lease takes its place, the record stays, with the time at which the
 * lease is over at the latest, until it was revoked (`MirrorLeases`). Only a lease that ended by the plan, replaced by one of
 * the same origin shortly before, needs none.
 */
import { isDeepStrictEqual } from 'node:util';

import type { SourceLease, SourceView } from '../../copy/model/claim.ts';
import { rfc3339 } from '../../runtime/rfc3339.ts';
import type { SecretMirrorStatus, VaultLeaseRecord, VaultSourceStatus } from './api.ts';
import type { EffectiveSpec } from './spec.ts';

/** What this process knows of leases. */
export interface LeaseNews {
  /** Replaced by another of the same origin: it is left to its time. */
  endsByItself(leaseId: string): boolean;
  /** Revoked. */
  isOver(leaseId: string): boolean;
  /** Which version of the destination in Vault holds the source's present content. */
  readonly destinationVersion: string | undefined;
}

export type LeaseStatus = Pick<SecretMirrorStatus, 'vaultSource' | 'vaultLeases'>;

/** Replaced leases that are remembered: somebody who edits a path over and over must not make the status grow. */
const MOST_REPLACED = 10;
/** Taken for the life of a lease where it is not known, seconds: the longest that Vault gives unless it is told otherwise. */
const LONGEST_LEASE_SECONDS = 768 * 3600;

/** @param now wall clock, ms */
export function foldLeases(
  source: SourceView,
  spec: EffectiveSpec,
  previous: LeaseStatus | undefined,
  news: LeaseNews | undefined,
  now: number,
): LeaseStatus {
  const vaultSource = source.state === 'present' ? statusOf(source.lease) : previous?.vaultSource;
  const before = recordsOf(previous, spec);
  const present = presentRecord(vaultSource?.leaseID, source, spec, before, news);
  const expirationTime = rfc3339(now + (previous?.vaultSource?.leaseDuration || LONGEST_LEASE_SECONDS) * 1000);
  const replaced = before
    .filter(({ leaseID, expirationTime: end }) => {
      if (leaseID === vaultSource?.leaseID || news?.isOver(leaseID) === true) return false;
      return end === undefined ? news?.endsByItself(leaseID) !== true : Date.parse(end) > now;
    })
    .map((record): VaultLeaseRecord => {
      const { leaseID, vault } = record;
      return record.expirationTime === undefined ? { leaseID, vault, expirationTime } : record;
    });
  const vaultLeases = [...present, ...replaced.slice(0, MOST_REPLACED)];
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

/** What was written down; also of a version of Keyferry, or of the original, that knew `vaultSource` only. */
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
  news: LeaseNews | undefined,
): readonly VaultLeaseRecord[] {
  if (leaseID === undefined) return [];
  const record = before.find((one) => one.leaseID === leaseID);
  // While the source cannot be told, the lease is the one of before, of whatever block that was.
  const vault = source.state === 'present' ? sourceVault : record?.vault;
  if (vault === undefined) return [];
  const destinationVersion = news?.destinationVersion ?? record?.destinationVersion;
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
