/** Reads entries (found, missing, deleted or destroyed) from answers of KV 1, KV 2 and other engines. */
import type { VaultResponse } from '../client/answer.ts';
import { booleanMember, type JsonObject, numberMember, objectMember, stringMember } from '../json.ts';
import type { SessionResponse } from '../session/session.ts';
import { VaultValues } from './values.ts';

/** A lease as Vault granted it together with values. Times are wall-clock ms since 1970. */
export interface LeaseGrant {
  readonly leaseId: string;
  readonly durationSeconds: number;
  readonly renewable: boolean;
  /** The time of the request, so that the end of the lease is never assumed too late. */
  readonly issuedAt: number;
  /** The token with which the lease ends; see `VaultSession.tokenDeadline`. */
  readonly tokenId: string;
}

export interface FoundEntry {
  readonly state: 'found';
  readonly values: VaultValues;
  /** Number of the entry's version; KV 2 only. */
  readonly version?: number;
  /** When this version was created, RFC 3339; KV 2 only. */
  readonly createdTime?: string;
  /** Only dynamic credentials have a lease; no KV mount has such credentials. */
  readonly lease?: LeaseGrant;
}

/** An entry without values: never written (`missing`), or its latest version is soft-deleted or destroyed. */
export interface AbsentEntry {
  readonly state: 'missing' | 'deleted' | 'destroyed';
  /** The latest version, which the next write must name; 0 for `missing`. */
  readonly version: number;
}

export type KvEntry = FoundEntry | AbsentEntry;

export const MISSING: AbsentEntry = { state: 'missing', version: 0 };

/** The entry in an answer of a KV 2 mount. `undefined`: another kind of mount answered. */
export function versionedEntry(response: VaultResponse): KvEntry | undefined {
  const metadata = objectMember(response.data, 'metadata');
  const version = numberMember(metadata, 'version');
  if (response.data === undefined || !('data' in response.data) || version === undefined) return undefined;
  const values = objectMember(response.data, 'data');
  if (values === undefined || response.status === 404) return absent(version, metadata);
  const createdTime = stringMember(metadata, 'created_time');
  return { state: 'found', values: VaultValues.fromJson(values), version, ...(createdTime && { createdTime }) };
}

/** The entry in an answer of KV 1 or another engine, or `undefined`. @param askedAt time of the call, wall clock, ms */
export function plainEntry(response: SessionResponse, askedAt: number): FoundEntry | undefined {
  if (response.data === undefined || response.status === 404) return undefined;
  const values = VaultValues.fromJson(response.data);
  if (response.leaseId === '') return { state: 'found', values };
  const lease: LeaseGrant = {
    leaseId: response.leaseId,
    durationSeconds: response.leaseSeconds,
    renewable: response.renewable,
    issuedAt: askedAt,
    tokenId: response.tokenId,
  };
  return { state: 'found', values, lease };
}

function absent(version: number, metadata: JsonObject | undefined): AbsentEntry {
  return { state: booleanMember(metadata, 'destroyed') === true ? 'destroyed' : 'deleted', version };
}
