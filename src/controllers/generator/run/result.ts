/**
 * Makes the result of the generator for one ExternalSecret, in the original's words. The result is written into the
 * condition `Created`, the annotation `keyferry.dev/generator` and events. Pure.
 *
 * When the annotation changes, ESO reads Vault again. So the text must change with each version that was written or
 * found in Vault and with each message. It must not change if nothing happened.
 */
import { isDeepStrictEqual } from 'node:util';

import { failureOf, type Fault } from '../../../copy/model/cause.ts';
import { REASONS } from '../../../copy/model/reasons.ts';
import { vaultFault, type VaultLogin } from '../../../copy/vault/access/access.ts';
import { missingCredential } from '../../../copy/vault/access/login-tokens.ts';
import { ApiError, ConnectionError } from '../../../kube/errors.ts';
import { TimeLimitError } from '../../../runtime/abort.ts';
import { isVaultError, type VaultErrorKind } from '../../../vault/errors.ts';
import { clipped } from '../../../runtime/text/texts.ts';
import { getOrCreate } from '../../../runtime/maps.ts';
import { CREATED_CONDITION, type EsoCondition } from '../api.ts';
import { isReason, type Problem, type Reason, type WantedValue } from '../request/requests.ts';
import { StoreError } from '../store/store-spec.ts';
import type { EntryOutcome } from './entry.ts';

export interface Result {
  readonly created: boolean;
  readonly reason: Reason;
  readonly message: string;
  /**
   * Number and creation time of each entry's version, by path. The time is needed because the numbers begin at 1 again
   * if the metadata of an entry is deleted. For KV 1, which has no versions: the number of Keyferry's writes.
   */
  readonly entries: Readonly<Record<string, string>>;
}

/** The state of an entry after a run. `made`: a value was written, and no result has reported this write yet. */
export type EntryState = Pick<EntryOutcome, 'path' | 'version' | 'createdTime' | 'made'>;

/** Maximum length of a message, characters. */
const MAX_MESSAGE = 1024;
/** Most bytes of the entries in the annotation: many times what usual paths need. Entries that do not fit are left out. */
const MAX_ENTRIES_BYTES = 65_536;

const FOUND = 'The external-secrets operator has found the secret.';
export const WRONG_ANNOTATION = "The only accepted value for the annotation 'create' is 'true'.";

/** The outcome of a run, from which its result is made. */
export interface RunOutcome {
  /** All entries that the run has read. */
  readonly entries: readonly EntryState[];
  readonly nested: readonly WantedValue[];
  readonly problems: readonly Problem[];
}

/** @param before the last result; `undefined`: this is the first one */
export function resultOf({ entries, nested, problems }: RunOutcome, before: Result | undefined): Result {
  const versions = { entries: versionsOf(entries, before) };
  const [problem] = problems;
  if (problem !== undefined) return { created: false, ...troubleOf(problem, problems), ...versions };
  if (entries.some(({ made }) => made))
    return { created: true, reason: 'Success', message: REASONS.Success.says, ...versions };
  // If no version changed, the last result stays, for example `Success`.
  if (before?.created === true && isDeepStrictEqual(versions.entries, before.entries)) return before;
  const [first] = nested;
  if (first === undefined) return { created: true, reason: 'Exists', message: REASONS.Exists.says, ...versions };
  const message = `${first.field}.remoteRef.property: the external-secrets operator finds this value inside another property, so no value is made`;
  return { created: true, reason: 'NestedProperty', message, ...versions };
}

function troubleOf({ reason }: Problem, problems: readonly Problem[]): Pick<Result, 'reason' | 'message'> {
  const texts = problems.map(({ field, message }) => `${field}: ${message}`).join('; ');
  const isOriginal = reason === 'ErrorCreating';
  return { reason, message: clipped(isOriginal ? `While putting the random value: ${texts}` : texts, MAX_MESSAGE) };
}

/** The result if the author gave an annotation a value that is not allowed. */
export function wrongSetting(message: string, before: Result | undefined): Result {
  return {
    entries: before?.entries ?? {},
    created: false,
    reason: 'ErrorAnnotation',
    message: clipped(message, MAX_MESSAGE),
  };
}

/** The result if a value that Keyferry made before is missing in Vault. Keyferry then makes a new value. */
export function recreating(before: Result | undefined): Result {
  return { entries: before?.entries ?? {}, created: false, reason: 'Recreating', message: REASONS.Recreating.says };
}

/** The result when ESO has read the values. If the last result is a success, that result stays. */
export function found(before: Result | undefined): Result {
  if (before?.created === true) return before;
  const entries = before?.entries ?? {};
  // `Recreating` is told after the new value is in Vault, so ESO has found a value that Keyferry made.
  if (before?.reason === 'Recreating')
    return { entries, created: true, reason: 'Success', message: REASONS.Success.says };
  return { entries, created: true, reason: 'Exists', message: FOUND };
}

/** The text of the annotation. */
export function textOf({ reason, message, entries }: Result): string {
  return JSON.stringify({ reason, message, entries });
}

/** @returns the result in the text of an annotation; `undefined`: the text is not from Keyferry */
export function parseResult(text: string | undefined): Result | undefined {
  if (text === undefined) return undefined;
  try {
    const { reason, message, entries } = JSON.parse(text) as Record<string, unknown>;
    if (typeof reason !== 'string' || !isReason(reason) || typeof message !== 'string') return undefined;
    const versions = Object.entries(typeof entries === 'object' ? (entries ?? {}) : {});
    return {
      created: reason === 'Success' || reason === 'Exists' || reason === 'NestedProperty',
      reason,
      message,
      entries: Object.fromEntries(versions.filter((entry): entry is [string, string] => typeof entry[1] === 'string')),
    };
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof TypeError)) throw error;
    return undefined;
  }
}

/** The conditions with `Created` set to this result. `undefined`: they already have this result. */
export function withCreated(conditions: readonly EsoCondition[], result: Result): EsoCondition[] | undefined {
  const { reason, message } = result;
  const status = result.created ? 'True' : 'False';
  const present = conditions.find(({ type }) => type === CREATED_CONDITION);
  if (present?.status === status && present.reason === reason && present.message === message) return undefined;
  return [...withoutCreated(conditions), { type: CREATED_CONDITION, status, reason, message }];
}

/** The conditions without `Created`. */
export function withoutCreated(conditions: readonly EsoCondition[]): EsoCondition[] {
  return conditions.filter(({ type }) => type !== CREATED_CONDITION);
}

function versionsOf(states: readonly EntryState[], before: Result | undefined): Result['entries'] {
  const known = before?.entries ?? {};
  if (states.length === 0) return known;
  // The same path may exist on two servers.
  const byPath = new Map<string, EntryState[]>();
  for (const state of states.toSorted((a, b) => (a.path < b.path ? -1 : Number(a.path > b.path))))
    getOrCreate(byPath, state.path, () => []).push(state);
  const versions = [...byPath].map(([path, same]): [string, string] => {
    return [path, versionText(same, Object.hasOwn(known, path) ? known[path] : undefined)];
  });
  let bytes = 0;
  return Object.fromEntries(
    versions.filter((version) => (bytes += Buffer.byteLength(JSON.stringify(version))) <= MAX_ENTRIES_BYTES),
  );
}

/** @param known the text for the same path in the last result */
function versionText(states: readonly EntryState[], known: string | undefined): string {
  const versions = states.map(versionOf).filter((version) => version !== undefined);
  if (versions.length === states.length) return versions.join(', ');
  const writes = states.filter(({ version, made }) => made && version === undefined).length;
  return [...versions, `writes ${Number(/writes (\d+)$/.exec(known ?? '')?.[1] ?? 0) + writes}`].join(', ');
}

function versionOf({ version, createdTime }: EntryState): string | undefined {
  return version === undefined ? undefined : [version, createdTime ?? []].flat().join(' ');
}

/** Messages for responses that must not be quoted: the author can name any server, and must not read its responses. */
const UNSHOWN: Partial<Record<VaultErrorKind, string>> = {
  badResponse: 'the server of the store does not respond as Vault does',
  redirect: 'the server of the store redirects to another server, and Keyferry sends no credentials there',
};

/**
 * Describes a failure of Vault, the API server or a store for the author of the ExternalSecret.
 * @param field the place of the failure: a store, or a field of the ExternalSecret
 * @param auth the login with which Vault was called; `undefined`: Vault was not called
 * @returns `undefined`: another error, such as a TypeError
 */
export function problemOf(error: unknown, field: string, auth: VaultLogin['auth'] | undefined): Problem | undefined {
  if (error instanceof StoreError) return { reason: error.reason, field, message: error.message, fault: error.fault };
  const failed = (message: string, fault: Fault): Problem => ({ reason: 'ErrorCreating', field, message, fault });
  const missing = missingCredential(error);
  if (missing !== undefined) return failed(missing.message, missing.fault);
  if (isVaultError(error)) {
    const { kind, reason, addr, path, transient } = error;
    // While the server is down, each try may fail at another call. The message must not change, so it names no call.
    const call = path === undefined || transient ? '' : `${path}: `;
    return failed(UNSHOWN[kind] ?? `vault ${addr}: ${call}${reason}`, vaultFault(error, auth));
  }
  // The API server's message names the missing permission and its namespace.
  if (error instanceof ApiError) return failed(error.statusMessage, failureOf(error).fault);
  if (error instanceof ConnectionError || error instanceof TimeLimitError) return failed(error.message, 'operator');
  return undefined;
}
