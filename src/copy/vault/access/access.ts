/**
 * Opens connections to Vault for its users (sources, targets, controllers), and turns errors of Vault into messages.
 *
 * A user has at most one session. When its credential changes, the user gets a new session, and after that releases the
 * old session. A lease keeps its session open even when the user has closed it.
 */
import { isVaultError, type VaultError } from '../../../vault/errors.ts';
import type { SessionRef, VaultSessions } from '../../../vault/session/sessions.ts';
import { ApiError } from '../../../kube/errors.ts';
import { type Cause, type Fault, userCause, failureOf } from '../../model/cause.ts';
import { causedBy, missingCredential } from './login-tokens.ts';
import type { VaultCredentials } from './credentials.ts';
import type { VaultUser } from '../../model/keys.ts';
import type { VaultLocation } from '../locations.ts';

/** A server and a login. */
export type VaultLogin = Pick<VaultLocation, 'server' | 'auth'>;

/** A session and its entries, which all users with the same server and credential share. */
export type VaultConnection = Omit<SessionRef, 'release'>;

/** The login that a user follows until `close`. */
interface OpenLogin {
  readonly login: VaultLogin;
  /** The version of the login's Secrets when the user last called `open`. `undefined`: no Secret, or not known. */
  version: string | undefined;
  open?: {
    /** The version of the Secrets with which the session logged in; `undefined`: no Secret, or not known. */
    readonly version: string | undefined;
    readonly ref: SessionRef;
  };
}

interface VaultAccessOptions {
  readonly sessions: VaultSessions;
  readonly credentials: VaultCredentials;
}

export class VaultAccess {
  readonly #options: VaultAccessOptions;
  readonly #logins = new Map<VaultUser, OpenLogin>();

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
    before?.open?.ref.release();
    return followed;
  }

  /**
   * Opens the connection of a user, and follows its credential until `close`.
   * @throws VaultAuthMissingError, NotKnownYetError, VaultError `invalidServer` and `closed`
   */
  async open(user: VaultUser, login: VaultLogin, signal: AbortSignal): Promise<VaultConnection> {
    const followed = this.follow(user, login);
    // The version is stored before the Secrets are read: if a Secret changes during the read, the version is outdated.
    const version = (followed.version = this.#options.credentials.versionOf(login.auth));
    const { open } = followed;
    if (open !== undefined && version !== undefined && open.version === version) return open.ref;
    const connection = await this.#open(followed, signal);
    // If `close` was called meanwhile, it did not release this new session.
    if (this.#logins.get(user) !== followed) followed.open?.ref.release();
    return connection;
  }

  /** Opens a connection for `work` only, without following its credential. @throws as `open` and as `work` */
  async once<T>(login: VaultLogin, signal: AbortSignal, work: (connection: VaultConnection) => Promise<T>): Promise<T> {
    const single: OpenLogin = { login, version: undefined };
    try {
      return await work(await this.#open(single, signal));
    } finally {
      single.open?.ref.release();
    }
  }

  /** Whether the credential of a user is unknown, or has changed since the user last opened its connection. */
  isOutdated(user: VaultUser): boolean {
    const followed = this.#logins.get(user);
    if (followed === undefined) return false;
    const version = this.#options.credentials.versionOf(followed.login.auth);
    return version === undefined || version !== followed.version;
  }

  /** Closes the connection of a user, and stops following the credential. */
  close(user: VaultUser): void {
    const followed = this.#logins.get(user);
    if (followed === undefined) return;
    this.#logins.delete(user);
    this.#options.credentials.follow(user, undefined, followed.login.auth);
    followed.open?.ref.release();
  }

  async #open(of: OpenLogin, signal: AbortSignal): Promise<VaultConnection> {
    const { credentials, sessions } = this.#options;
    const { server, auth } = of.login;
    const { version } = of;
    const ref = sessions.acquire(server, await credentials.identity(auth, signal));
    const before = of.open;
    of.open = { version, ref };
    before?.ref.release();
    return ref;
  }
}

/** An error of Vault, as users see it. `pending`: only the credential for the login is missing. */
export interface VaultTrouble extends Cause {
  readonly pending: boolean;
}

/** The reason, message and fault of an error for users. Where ktsstudio/mirrors has a message, it is the same. */
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

/** HTTP statuses < 500 of a Vault that cannot answer now (developer.hashicorp.com/vault/api-docs#http-status-codes). */
const UNAVAILABLE: ReadonlySet<number> = new Set([412, 429, 472, 473]);
/** Kinds of errors with which Keyferry itself refuses a call to Vault, because the rule is wrong. */
const ABOUT_THE_RULE = ['invalidServer', 'invalidPath', 'badRequest', 'tooLarge', 'casMismatch', 'authFailed'] as const;

/**
 * Whose fault an error of Vault is. This depends only on the HTTP status and on the owner of the credentials. It never
 * depends on a text, because an author of a rule may name a server that answers any text.
 */
export function vaultFault(error: unknown, auth: VaultLogin['auth'] | undefined): Fault {
  // The API server refused to make the token of the ServiceAccount.
  const refused = causedBy(error, ApiError);
  if (refused !== undefined) return failureOf(refused).fault;
  if (!isVaultError(error)) return 'operator';
  const { status, isLogin } = error;
  const isOwn = auth?.method === 'environment';
  if (isOwn && (isLogin || isVaultError(error, 'authFailed', 'tokenInvalid', 'invalidServer'))) return 'operator';
  if (status === undefined || status < 400) return isVaultError(error, ...ABOUT_THE_RULE) ? 'user' : 'operator';
  // Vault up to version 1.13 answers a login with a wrong secret id with status 500.
  if (status >= 500) return isLogin && status === 500 ? 'user' : 'operator';
  return UNAVAILABLE.has(status) ? 'operator' : 'user';
}

/** Whether Vault was not called, because an earlier call failed. Then the message of the earlier error is kept. */
export function isSkippedCall(error: unknown): boolean {
  return isVaultError(error, 'circuitOpen');
}

/** Whether a login failed because its auth method is not mounted: `invalidPath`, not `authFailed`. */
function isRefusedLogin(error: unknown): error is VaultError {
  return isVaultError(error, 'invalidPath') && error.isLogin;
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : 'unknown';
}

/** Longest wait for a Vault that is down, sealed or overloaded, ms. Three such waits may follow one another. */
export const LONGEST_WAIT_MS = 5000;

/** The longest wait of a queue after an error, ms; `undefined`: the queue's own limit counts. */
export function vaultLongestWaitMs(error: unknown): number | undefined {
  return isVaultError(error) && error.transient ? LONGEST_WAIT_MS : undefined;
}
