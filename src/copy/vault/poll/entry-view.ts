/** Turns a response of Vault into the content of a source, or into the view of a source without content. Pure. */
import type { AbsentEntry, FoundEntry, LeaseGrant } from '../../../vault/kv/answers.ts';
import type { WriteResult } from '../../../vault/kv/entries.ts';
import {
  invalidSecretKeys,
  toSecretData,
  ValueConversionError,
  type ValueEncoding,
  type VaultValues,
  keyList,
} from '../../../vault/kv/values.ts';
import { because } from '../../model/cause.ts';
import type { SourceLease, SourceView } from '../../model/claim.ts';
import { Content } from '../../model/content.ts';
import { SECRET } from '../../model/kind.ts';
import type { VaultLocation } from '../locations.ts';

/** Longest lease id, characters. In Vault a lease id is the path and about 25 more characters. */
const MAX_LEASE_ID = 1024;
/** Largest dynamic credentials, bytes. A certificate with its key and chain takes a tenth of this size. */
const MAX_LEASED = 64 * 1024;
const NONE = Object.freeze({});

export function presentView(version: string, lease?: SourceLease): SourceView {
  return { state: 'present', version, labels: NONE, annotations: NONE, ...(lease === undefined ? {} : { lease }) };
}

/** The view of an entry that is missing, deleted or destroyed. @param addr the server's address */
export function absentView(entry: AbsentEntry, { path }: VaultLocation, addr: string): SourceView {
  const where = `vault ${addr}: ${path}`;
  const left = 'copies keep their data';
  const message = {
    missing: `${where} not found, waiting to appear`,
    deleted: `${where} is deleted (version ${entry.version}); ${left}`,
    destroyed: `${where} is destroyed (version ${entry.version}); ${left}`,
  }[entry.state];
  return { state: 'missing', ...because('VaultNotFound', message) };
}

/** Number and time of an entry's version: a recreated entry may have the same number. `undefined`: not KV 2. */
export function versionOf({ version, createdTime = '' }: Partial<WriteResult>): string | undefined {
  return version === undefined ? undefined : `${version} ${createdTime}`;
}

/**
 * As `versionOf`, but '' if other content may have the same version. OpenBao's times are whole seconds: an entry that is
 * deleted with its metadata and recreated in the same second has the same number and time.
 */
export function distinctVersionOf(entry: FoundEntry): string {
  return entry.createdTime?.includes('.') === true ? (versionOf(entry) ?? '') : '';
}

/** With base64, ktsstudio/mirrors may have written the entry. In KV 1 it nests all values under one key. */
export function valuesOf({ values, version, lease }: FoundEntry, encoding: ValueEncoding): VaultValues {
  return encoding === 'base64' && version === undefined && lease === undefined ? values.unnested() : values;
}

/** @returns the content of an entry, or a failed view if a Secret cannot have its keys and values */
export function contentOf(entry: FoundEntry, location: VaultLocation, version: string): Content | SourceView {
  const { encoding, secretType, path } = location;
  const values = valuesOf(entry, encoding);
  const bad = secretType === undefined ? [] : invalidSecretKeys(values.keys());
  if (bad.length > 0) {
    const message = `the vault entry ${path} has keys that are not valid in a Secret: ${keyList(bad)}`;
    return { state: 'failed', ...because('InvalidKeys', message) };
  }
  try {
    const data = [...toSecretData(values, encoding)].map(([key, value]) => [key, value.base64()] as const);
    const content = Content.ofFields(SECRET, { data: Object.fromEntries(data) }, secretType ?? '', version);
    const problem = entry.lease && leaseProblem(entry.lease, content);
    return problem === undefined ? content : invalid(`the vault path ${path}: ${problem}`);
  } catch (error) {
    if (!(error instanceof ValueConversionError)) throw error;
    return invalid(`the vault entry ${path}: ${error.message}`);
  }
}

export function invalid(message: string): SourceView {
  return { state: 'failed', ...because('InvalidValues', message) };
}

/** Why dynamic credentials are too large to stay in memory, or their lease id for the status; `undefined`: neither. */
function leaseProblem({ leaseId }: LeaseGrant, { weight }: Content): string | undefined {
  if (leaseId.length > MAX_LEASE_ID)
    return `the id of its lease has ${leaseId.length} characters; it may have ${MAX_LEASE_ID}`;
  if (weight > MAX_LEASED) return `its credentials take ${weight} bytes; they may take ${MAX_LEASED}`;
  return undefined;
}
