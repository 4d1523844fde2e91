/**
 * Access to Vault for sources, targets and controllers: the session of each user, and messages for its errors.
 *
 * A user holds at most one session. A changed credential is another identity, so it has another session: the new
 * session is acquired before the old one is released. A lease holds its session itself.
 */
import { getOrCreate } from '../../../runtime/maps.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { VaultEntries } from '../../../vault/kv/entries.ts';
import { isVaultError, type VaultError } from '../../../vault/errors.ts';
import type { SessionHold, VaultSessions } from '../../../vault/session/sessions.ts';
import type { VaultSession } from '../../../vault/session/session.ts';
import { ApiError } from '../../../kube/errors.ts';
import { type Cause, type Fault, userCause, failureOf } from '../../model/cause.ts';
import { causedBy, missingCredential } from './login-tokens.ts';
import type { VaultCredentials } from './credentials.ts';
import type { VaultUser } from '../../model/keys.ts';
import type { VaultLocation } from '../locations.ts';

/** A server and a login. */
export type VaultLogin = Pick<VaultLocation, 'server' | 'auth'>;

/** A connection, which all users with one identity share until their credential changes. */
export interface VaultConnection {
  readonly session: VaultSession;
  readonly entries: VaultEntries;
  /** Acquires the session once more, for a lease, which needs it longer than the user does. */
  hold(): SessionHold;
}

/** A user of a login, until `close`. */
interface OpenLogin {
  readonly login: VaultLogin;
  /** The version of the login's Secrets when the user last opened it. `undefined`: they were not known. */
  version: string | undefined;
  open?: {
    /** The version of the Secrets that the session's identity is made of. */
    readonly version: string | undefined;
    readonly hold: SessionHold;
    readonly connection: VaultConnection;
  };
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
  readonly #logins = new Map<VaultUser, OpenLogin>();
  /** One connection for each session, so that its users share a cache of mounts. */
  readonly #connections = new WeakMap<VaultSession, VaultConnection>();

  constructor(options: VaultAccessOptions) {
    this.#options = options;
  }

  /** Follows the credential of a user until `close`, so that a change of the credential is known. */
  follow(user: VaultUser, { server, auth }: VaultLogin): OpenLogin {
    const { credentials } = this.#options;
    const login = { server, auth };
    const before = this.#logins.get(user);
    if (before !== undefined && JSON.stringify(before.login) === JSON.stringify(login)) return before;
    const followed: OpenLogin = { login, version: undefined };
    credentials.follow(user, auth, before?.login.auth);
    this.#logins.set(user, followed);
    before?.open?.hold.release();
    return followed;
  }

  /**
   * Opens the connection of a user, and follows its credential until `close`.
   * @throws VaultAuthMissingError, NotKnownYetError, VaultError `invalidServer` and `closed`
   */
  async open(user: VaultUser, login: VaultLogin, signal: AbortSignal): Promise<VaultConnection> {
    const followed = this.follow(user, login);
    // Record the version before reading the Secrets, so that a change during the read makes it outdated.
    const version = (followed.version = this.#options.credentials.versionOf(login.auth));
    const { open } = followed;
    if (open !== undefined && version !== undefined && open.version === version) return open.connection;
    const connection = await this.#open(followed, signal);
    // If the user was closed meanwhile, nobody else releases the session.
    if (this.#logins.get(user) !== followed) followed.open?.hold.release();
    return connection;
  }

  /** Uses a connection once, without following its credential. @throws as `open`, and what `work` throws */
  async once<T>(login: VaultLogin, signal: AbortSignal, work: (connection: VaultConnection) => Promise<T>): Promise<T> {
    const single: OpenLogin = { login, version: undefined };
    try {
      return await work(await this.#open(single, signal));
    } finally {
      single.open?.hold.release();
    }
  }

  /** Whether the credential of a user is unknown, or has changed since the user last opened its connection. */
  isOutdated(user: VaultUser): boolean {
    const followed = this.#logins.get(user);
    if (followed === undefined) return false;
    const version = this.#options.credentials.versionOf(followed.login.auth);
    return version === undefined || version !== followed.version;
  }

  /** Ends the use of a connection, and no longer follows its credential. */
  close(user: VaultUser): void {
    const followed = this.#logins.get(user);
    if (followed === undefined) return;
    this.#logins.delete(user);
    this.#options.credentials.follow(user, undefined, followed.login.auth);
    followed.open?.hold.release();
  }

  async #open(of: OpenLogin, signal: AbortSignal): Promise<VaultConnection> {
    const { credentials, sessions, clock, credentialsTimeoutMs } = this.#options;
    const { server, auth } = of.login;
    const { version } = of;
    const identity = await credentials.identity(auth, signal);
    const hold = sessions.acquire(server, identity);
    const connection = getOrCreate(this.#connections, hold.session, () => ({
      session: hold.session,
      entries: new VaultEntries(hold.session, { clock, credentialsTimeoutMs }),
      hold: () => sessions.acquire(server, identity),
    }));
    const before = of.open;
    of.open = { version, hold, connection };
    before?.hold.release();
    return connection;
  }
}

/** A failure of Vault, for users. `pending`: a credential does not exist yet. */
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

/** Statuses below 500 of a Vault that cannot answer now (developer.hashicorp.com/vault/api-docs#http-status-codes). */
const UNAVAILABLE: ReadonlySet<number> = new Set([412, 429, 472, 473]);
/** Kinds of errors by which Keyferry itself refuses a request of a rule. */
const ABOUT_THE_RULE = ['invalidServer', 'invalidPath', 'badRequest', 'tooLarge', 'casMismatch', 'authFailed'] as const;

/**
 * The fault of an error of Vault. It depends only on the status and on the owner of the credentials, not on a text,
 * because an author may name a server that answers any text.
 */
export function vaultFault(error: unknown, auth: VaultLogin['auth'] | undefined): Fault {
  // The API server refused the token of the ServiceAccount.
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

/** Whether Vault was not called because of an earlier failure, whose message is more useful than this one. */
export function isSkippedCall(error: unknown): boolean {
  return isVaultError(error, 'circuitOpen') || (isVaultError(error, 'throttled') && error.status === undefined);
}

/** Whether the login failed because its mount does not exist, which Vault's client does not count as a refusal. */
function isRefusedLogin(error: unknown): error is VaultError {
  return isVaultError(error, 'invalidPath') && error.isLogin;
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : 'unknown';
}

/** Longest wait for a Vault that is down, sealed or overloaded, ms. Three such waits may follow one another. */
export const LONGEST_WAIT_MS = 5000;

/** The longest wait of a queue after a transient error, ms. */
export function vaultLongestWaitMs(error: unknown): number | undefined {
  return isVaultError(error) && error.transient ? LONGEST_WAIT_MS : undefined;
}

/** The wait of a queue that the server requested, ms. */
export function vaultRetryAfterMs(error: unknown): number | undefined {
  return isVaultError(error) ? error.retryAfterMs : undefined;
}
