/**
 * Access to Vault for the locations of rules: the session of each location, and messages for its errors.
 *
 * A location holds at most one session. A changed credential is another identity, so another session: the new one is acquired before the
 * old one is released. A lease holds its session itself.
 */
import { getOrCreate } from '../../../runtime/maps.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { VaultEntries } from '../../../vault/kv/entries.ts';
import { isVaultError, type VaultError } from '../../../vault/errors.ts';
import type { VaultIdentity } from '../../../vault/session/identity.ts';
import type { SessionHold, VaultSessions } from '../../../vault/session/sessions.ts';
import type { VaultSession } from '../../../vault/session/session.ts';
import { ApiError } from '../../../kube/errors.ts';
import { type Cause, type Fault, userCause, failureOf } from '../../model/cause.ts';
import { causedBy, missingCredential } from './login-tokens.ts';
import type { VaultCredentials } from './credentials.ts';
import { type VaultUser, isEntryKey, type LoginKey, type ObjectKey } from '../../model/keys.ts';
import type { VaultLocation } from '../locations.ts';

/** A server and a login. */
export type VaultLogin = Pick<VaultLocation, 'server' | 'auth'>;

/** The connection of one location, until its credential changes. */
export interface VaultConnection {
  readonly session: VaultSession;
  readonly entries: VaultEntries;
  /** Holds the session longer than the location does. */
  hold(): SessionHold;
}

interface Open {
  readonly identity: VaultIdentity;
  readonly hold: SessionHold;
  readonly connection: VaultConnection;
}

export interface VaultAccessOptions {
  readonly sessions: VaultSessions;
  readonly credentials: VaultCredentials;
  readonly clock: Clock;
  /** Time limit of a read that may create credentials, ms. Default: that of `VaultEntries`. */
  readonly credentialsTimeoutMs?: number;
}

export class VaultAccess {
  readonly #options: VaultAccessOptions;
  readonly #open = new Map<VaultUser, Open>();
  /** One for each session, to share its cache of mounts. */
  readonly #entries = new WeakMap<VaultSession, VaultEntries>();

  constructor(options: VaultAccessOptions) {
    this.#options = options;
  }

  /**
   * Opens the connection of a location: one that is followed (`VaultCredentials.follow`), or for a single use.
   * @throws VaultAuthMissingError, NotKnownYetError, VaultError `invalidServer` and `closed`
   */
  async open(key: VaultUser, location: VaultLogin, signal: AbortSignal): Promise<VaultConnection> {
    const { credentials, sessions, clock, credentialsTimeoutMs } = this.#options;
    const identity = await credentials.identity(location.auth, signal);
    const known = this.#open.get(key);
    if (known?.identity === identity) return known.connection;
    const hold = sessions.acquire(location.server, identity);
    const { session } = hold;
    const connection: VaultConnection = {
      session,
      entries: getOrCreate(this.#entries, session, () => new VaultEntries(session, { clock, credentialsTimeoutMs })),
      hold: () => sessions.acquire(location.server, identity),
    };
    this.#open.set(key, { identity, hold, connection });
    known?.hold.release();
    return connection;
  }

  /** The location is no longer used. */
  close(key: VaultUser): void {
    this.#open.get(key)?.hold.release();
    this.#open.delete(key);
  }
}

/** A failure, for users. `pending`: a credential does not exist yet. */
export interface VaultTrouble extends Cause {
  readonly pending: boolean;
}

/** The message of a failure, as in the original if it has one. @param doing `reading from` or `syncing to` */
export function troubleOf(error: unknown, location: VaultLocation, doing: 'reading from' | 'syncing to'): VaultTrouble {
  const missing = missingCredential(error);
  if (missing !== undefined) {
    return { pending: true, ...vaultCause('VaultAuthMissing', missing.message, missing.fault) };
  }
  const fault = vaultFault(error, location.auth);
  if (isVaultError(error, 'authFailed', 'tokenInvalid') || isRefusedLogin(error)) {
    const message = `error logging in to vault via ${location.auth.method}: ${textOf(error)}`;
    return { pending: false, ...vaultCause('VaultAuthInvalid', message, fault) };
  }
  return { pending: false, ...vaultCause('VaultError', `Error ${doing} vault: ${textOf(error)}`, fault) };
}

function vaultCause(reason: string, message: string, fault: Fault): Cause {
  return { ...userCause(reason, message), fault };
}

/** Statuses of Vault below 500 that say that the server cannot answer now: https://developer.hashicorp.com/vault/api-docs#http-status-codes */
const UNAVAILABLE: ReadonlySet<number> = new Set([412, 429, 472, 473]);
/** Our own refusals of what a rule asks for. */
const ABOUT_THE_RULE = ['invalidServer', 'invalidPath', 'badRequest', 'tooLarge', 'casMismatch', 'authFailed'] as const;

/**
 * Whose fault it is that Vault did not do what a rule asks for. By the status alone, and by whose credentials they are: an author may name a server
 * that answers any text.
 */
export function vaultFault(error: unknown, auth: VaultLogin['auth'] | undefined): Fault {
  // The token of its ServiceAccount.
  const refused = causedBy(error, ApiError);
  if (refused !== undefined) return failureOf(refused).fault;
  if (!isVaultError(error)) return 'operator';
  const { status, isLogin } = error;
  const isOwn = auth?.method === 'environment';
  if (isOwn && (isLogin || isVaultError(error, 'authFailed', 'tokenInvalid', 'invalidServer'))) return 'operator';
  if (status === undefined || status < 400) return isVaultError(error, ...ABOUT_THE_RULE) ? 'user' : 'operator';
  // Vault ≤ 1.13 answers 500 to a wrong secret id.
  if (status >= 500) return isLogin && status === 500 ? 'user' : 'operator';
  return UNAVAILABLE.has(status) ? 'operator' : 'user';
}

/** Whether Vault was not called because of an earlier failure. The message of that failure is more useful. */
export function isSkippedCall(error: unknown): boolean {
  return isVaultError(error, 'circuitOpen') || (isVaultError(error, 'throttled') && error.status === undefined);
}

/** Whether the login failed because its mount does not exist. Vault's client does not count that as a refused login. */
function isRefusedLogin(error: unknown): error is VaultError {
  return isVaultError(error, 'invalidPath') && error.isLogin;
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : 'unknown';
}

/** Longest wait for a Vault that is down, sealed or overloaded, ms. Three such waits may follow one another. */
export const LONGEST_WAIT_MS = 5000;

/** For queues: the longest wait after a transient error, ms. With jitter, so that keys that failed together are not retried together. */
export function vaultLongestWaitMs(error: unknown): number | undefined {
  return isVaultError(error) && error.transient ? LONGEST_WAIT_MS * (0.75 + Math.random() / 4) : undefined;
}

/** For queues: the wait that the server requested, ms. */
export function vaultRetryAfterMs(error: unknown): number | undefined {
  return isVaultError(error) ? error.retryAfterMs : undefined;
}

/** The credential of a user has changed. @param user as it was given to `open` */
export type OnCredential = (user: LoginKey) => void;

interface FollowedLogin {
  readonly login: VaultLogin;
  /** Of its Secrets, as the user last opened it with. `undefined`: they were not known. */
  version: string | undefined;
}

/** Access to Vault for a controller that reads and writes entries itself, and does not copy. It shares sessions and credentials with all others. */
export class VaultDirectAccess {
  readonly #access: VaultAccess;
  readonly #credentials: VaultCredentials;
  readonly #onCredential: OnCredential;
  /** The followed login of each user. */
  readonly #users = new Map<LoginKey, FollowedLogin>();

  constructor(access: VaultAccess, credentials: VaultCredentials, onCredential: OnCredential) {
    this.#access = access;
    this.#credentials = credentials;
    this.#onCredential = onCredential;
  }

  /**
   * Opens a connection, and follows its credential until `close`.
   * @throws VaultAuthMissingError, NotKnownYetError (`onCredential` is called when it is known), VaultError `invalidServer` and `closed`
   */
  async open(user: LoginKey, login: VaultLogin, signal: AbortSignal): Promise<VaultConnection> {
    const before = this.#users.get(user);
    if (before === undefined || JSON.stringify(before.login) !== JSON.stringify(login)) {
      this.#credentials.follow(user, login.auth);
      if (before !== undefined) this.#credentials.unfollow(user, before.login.auth);
      // A connection is kept for its user, whatever the server of the next login is.
      this.#access.close(user);
      this.#users.set(user, { login, version: undefined });
    }
    // Recorded before the Secrets are read, so that a change during the read triggers the callback.
    const followed = this.#users.get(user);
    if (followed !== undefined) followed.version = this.#credentials.versionOf(login.auth);
    return await this.#access.open(user, login, signal);
  }

  close(user: LoginKey): void {
    const followed = this.#users.get(user);
    if (followed === undefined) return;
    this.#users.delete(user);
    this.#credentials.unfollow(user, followed.login.auth);
    this.#access.close(user);
  }

  /** A Secret is known, or has changed. A user that opened with this version already is not called. */
  objectKnown(object: ObjectKey): void {
    for (const user of this.#credentials.usersOf(object)) {
      if (isEntryKey(user)) continue;
      const followed = this.#users.get(user);
      if (followed === undefined) continue;
      const version = this.#credentials.versionOf(followed.login.auth);
      if (version === undefined || version !== followed.version) this.#onCredential(user);
    }
  }
}
