/**
 * What the generator did for an ExternalSecret: the words of the original, for the condition `Created`, the annotation and events. Pure.
 *
 * The text of the annotation changes with each version that was written or found in Vault, and with each other message. The text never changes
 * by itself, because each change makes ESO read again.
 */
import { createHash } from 'node:crypto';

import { failureOf, type Fault } from '../../../copy/model/cause.ts';
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
   * The versions of the entries, by path: number and time, because the numbers of an entry that was deleted with its metadata begin at 1
   * again. KV 1 has no versions, so the text counts our writes.
   */
  readonly entries: Readonly<Record<string, string>>;
  /** One text for the versions of all further entries, which are not in `entries`. */
  readonly more?: string;
}

/** An entry after its run. `made`: a value was written, and no result says so yet. */
export type EntryState = Pick<EntryOutcome, 'path' | 'version' | 'createdTime' | 'made'>;

/** Longest message, characters. */
const MAX_MESSAGE = 1024;
/** Entries whose versions are written out. */
const MAX_ENTRIES = 10;
/** Longest annotation that is read. A longer one is not ours. */
const MAX_TEXT = 32_768;

const SUCCESS = 'A random value was put into Vault.';
const EXISTS = 'Vault has the values.';
const FOUND = 'The external-secrets operator has found the secret.';
const RECREATING = 'The Vault secret previously created cannot be found anymore, it needs to be recreated.';
export const WRONG_ANNOTATION = "The only accepted value for the annotation 'create' is 'true'.";

/** What a run did. */
export interface RunOutcome {
  /** The entries that were read. */
  readonly entries: readonly EntryState[];
  readonly nested: readonly WantedValue[];
  readonly problems: readonly Problem[];
}

/** @param before the last result */
export function resultOf({ entries, nested, problems }: RunOutcome, before: Result | undefined): Result {
  const versions = versionsOf(entries, before);
  const [problem] = problems;
  if (problem !== undefined) return { created: false, ...troubleOf(problem, problems), ...versions };
  if (entries.some(({ made }) => made)) return { created: true, reason: 'Success', message: SUCCESS, ...versions };
  // Unchanged values keep their message.
  if (before?.created === true && isSame(versions, before)) return before;
  const [first] = nested;
  if (first === undefined) return { created: true, reason: 'Exists', message: EXISTS, ...versions };
  const message = `${first.field}.remoteRef.property: the external-secrets operator finds it inside another property, so it is left alone`;
  return { created: true, reason: 'NestedProperty', message, ...versions };
}

function troubleOf({ reason }: Problem, problems: readonly Problem[]): Pick<Result, 'reason' | 'message'> {
  const texts = problems.map(({ field, message }) => `${field}: ${message}`).join('; ');
  const isOriginal = reason === 'ErrorCreating';
  return { reason, message: clipped(isOriginal ? `While putting the random value: ${texts}` : texts, MAX_MESSAGE) };
}

/** The result of a setting that is wrong: a mistake of the author. */
export function wrongSetting(message: string, before: Result | undefined): Result {
  return { ...kept(before), created: false, reason: 'ErrorAnnotation', message: clipped(message, MAX_MESSAGE) };
}

/** The result while a value is missing that was put into Vault before. The value is made again. */
export function recreating(before: Result | undefined): Result {
  return { ...kept(before), created: false, reason: 'Recreating', message: RECREATING };
}

/** The result once ESO has read the values. A result that says so already stays. */
export function found(before: Result | undefined): Result {
  if (before?.created === true) return before;
  return { ...kept(before), created: true, reason: 'Exists', message: FOUND };
}

/** The text of the annotation. */
export function textOf({ reason, message, entries, more }: Result): string {
  return JSON.stringify({ reason, message, entries, ...(more !== undefined && { more }) });
}

/** @returns `undefined` for a text that Keyferry has not written */
export function parseResult(text: string | undefined): Result | undefined {
  if (text === undefined || text.length > MAX_TEXT) return undefined;
  try {
    const { reason, message, entries, more } = JSON.parse(text) as Record<string, unknown>;
    if (typeof reason !== 'string' || !isReason(reason) || typeof message !== 'string') return undefined;
    const versions = Object.entries(typeof entries === 'object' ? (entries ?? {}) : {});
    return {
      created: reason === 'Success' || reason === 'Exists' || reason === 'NestedProperty',
      reason,
      message,
      entries: Object.fromEntries(versions.filter((entry): entry is [string, string] => typeof entry[1] === 'string')),
      ...(typeof more === 'string' && { more }),
    };
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof TypeError)) throw error;
    return undefined;
  }
}

/** The list of conditions with this result. The others stay as they are. `undefined`: the list has this result already. */
export function withCreated(conditions: readonly EsoCondition[], result: Result): EsoCondition[] | undefined {
  const { reason, message } = result;
  const status = result.created ? 'True' : 'False';
  const present = conditions.find(({ type }) => type === CREATED_CONDITION);
  if (present?.status === status && present.reason === reason && present.message === message) return undefined;
  return [...withoutCreated(conditions), { type: CREATED_CONDITION, status, reason, message }];
}

/** The list of conditions without the original's. */
export function withoutCreated(conditions: readonly EsoCondition[]): EsoCondition[] {
  return conditions.filter(({ type }) => type !== CREATED_CONDITION);
}

function kept(before: Result | undefined): Pick<Result, 'entries' | 'more'> {
  const { entries = {}, more } = before ?? {};
  return { entries, ...(more !== undefined && { more }) };
}

function versionsOf(states: readonly EntryState[], before: Result | undefined): Pick<Result, 'entries' | 'more'> {
  if (states.length === 0) return kept(before);
  // Two stores may have the same path on two servers.
  const byPath = new Map<string, EntryState[]>();
  for (const state of states.toSorted((a, b) => (a.path < b.path ? -1 : Number(a.path > b.path))))
    getOrCreate(byPath, state.path, () => []).push(state);
  const groups = [...byPath];
  const versions = groups.slice(0, MAX_ENTRIES).map(([path, same]): [string, string] => {
    const known = Object.hasOwn(before?.entries ?? {}, path) ? before?.entries[path] : undefined;
    return [path, versionText(same, known)];
  });
  const rest = groups.slice(MAX_ENTRIES).flatMap(([, same]) => same);
  return { entries: Object.fromEntries(versions), ...(rest.length > 0 && { more: digestOf(rest, before) }) };
}

/** @param known the text before */
function versionText(states: readonly EntryState[], known: string | undefined): string {
  const versions = states.map(versionOf).filter((version) => version !== undefined);
  if (versions.length === states.length) return versions.join(', ');
  const writes = states.filter(({ version, made }) => made && version === undefined).length;
  return [...versions, `writes ${Number(/writes (\d+)$/.exec(known ?? '')?.[1] ?? 0) + writes}`].join(', ');
}

/** `<digest of the versions>+<number of writes to entries without versions>` */
function digestOf(states: readonly EntryState[], before: Result | undefined): string {
  const versions = states.map((state) => [state.path, versionOf(state) ?? null]);
  const digest = createHash('sha256').update(JSON.stringify(versions)).digest('hex').slice(0, 12);
  const isWritten = states.some(({ version, made }) => made && version === undefined);
  const writes = Number(before?.more?.split('+')[1] ?? 0) || 0;
  return `${digest}+${writes + (isWritten ? 1 : 0)}`;
}

function versionOf({ version, createdTime }: EntryState): string | undefined {
  return version === undefined ? undefined : [version, createdTime ?? []].flat().join(' ');
}

function isSame(a: Pick<Result, 'entries' | 'more'>, b: Pick<Result, 'entries' | 'more'>): boolean {
  return JSON.stringify([a.entries, a.more]) === JSON.stringify([b.entries, b.more]);
}

/** What was answered is not shown: the server may be any server that the author named. */
const UNSHOWN: Partial<Record<VaultErrorKind, string>> = {
  badResponse: 'the server of the store did not answer as Vault does',
  redirect: 'the server of the store redirects to another one, and credentials are not sent there',
};

/**
 * A failure of Vault, the API server or a store, in words for an author.
 * @param field where it is: a store, or a field of the ExternalSecret
 * @param auth whose credentials Vault got; `undefined`: Vault was not called
 * @returns `undefined` for an error that is not about a store, Vault, the API server or a credential
 */
export function problemOf(error: unknown, field: string, auth: VaultLogin['auth'] | undefined): Problem | undefined {
  if (error instanceof StoreError) return { reason: error.reason, field, message: error.message, fault: error.fault };
  const failed = (message: string, fault: Fault): Problem => ({ reason: 'ErrorCreating', field, message, fault });
  const missing = missingCredential(error);
  if (missing !== undefined) return failed(missing.message, missing.fault);
  if (isVaultError(error)) {
    const { kind, reason, addr, path, transient } = error;
    // While the server is down, another call may fail first in each try. The message must stay the same, so it names no call.
    const call = path === undefined || transient ? '' : `${path}: `;
    return failed(UNSHOWN[kind] ?? `vault ${addr}: ${call}${reason}`, vaultFault(error, auth));
  }
  // The message of the API server names the missing permission and its namespace.
  if (error instanceof ApiError) return failed(error.statusMessage, failureOf(error).fault);
  if (error instanceof ConnectionError || error instanceof TimeLimitError) return failed(error.message, 'operator');
  return undefined;
}
