/**
 * Access to Vault for the locations of rules: the session of each, changed when its credential changes, and its errors in the
 * words that users see.
 *
 * A location holds at most one session. A changed credential is another identity, so another session: the new one is held before the
 * old one is let go, and what hangs on the old one (a lease) holds it for itself.
 */
import type { Clock } from '../../runtime/clock.ts';
import { VaultEntries } from '../../vault/entries.ts';
import { isVaultError, type VaultError } from '../../vault/errors.ts';
import type { VaultIdentity } from '../../vault/session/identity.ts';
import type { SessionHold, VaultSessions } from '../../vault/session/sessions.ts';
import type { VaultSession } from '../../vault/session/session.ts';
import { missingCredential } from './auth-missing.ts';
import type { VaultCredentials } from './credentials.ts';
import type { ResourceKey } from '../model/keys.ts';
import type { VaultLocation } from './locations.ts';

/** What one location may use, until its credential changes. */
export interface VaultConnection {
  readonly session: VaultSession;
  readonly entries: VaultEntries;
  /** Holds the session also when the location no longer does. */
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
  /** Time limit of a read that may make credentials, ms; default that of `VaultEntries`. */
  readonly credentialsTimeoutMs?: number;
}

export class VaultAccess {
  readonly #options: VaultAccessOptions;
  readonly #open = new Map<ResourceKey, Open>();
  /** One for each session, so that what is known of its mounts is shared. */
  readonly #entries = new WeakMap<VaultSession, VaultEntries>();

  constructor(options: VaultAccessOptions) {
    this.#options = options;
  }

  /**
   * The connection of a location that is followed (`VaultCredentials.follow`), or is opened for once.
   * @throws VaultAuthMissingError, NotKnownYetError, VaultError `invalidTarget` and `closed`
   */
  async open(key: ResourceKey, location: VaultLocation, signal: AbortSignal): Promise<VaultConnection> {
    const { credentials, sessions } = this.#options;
    const identity = await credentials.identity(location.auth, signal);
    const known = this.#open.get(key);
    if (known?.identity === identity) return known.connection;
    const hold = sessions.acquire(location.target, identity);
    const { session } = hold;
    const connection: VaultConnection = {
      session,
      entries: this.#entriesOf(session),
      hold: () => sessions.acquire(location.target, identity),
    };
    this.#open.set(key, { identity, hold, connection });
    known?.hold.release();
    return connection;
  }

  /** The location is not used any more. */
  close(key: ResourceKey): void {
    this.#open.get(key)?.hold.release();
    this.#open.delete(key);
  }

  #entriesOf(session: VaultSession): VaultEntries {
    let entries = this.#entries.get(session);
    if (entries === undefined) {
      const { clock, credentialsTimeoutMs } = this.#options;
      entries = new VaultEntries(session, { clock, credentialsTimeoutMs });
      this.#entries.set(session, entries);
    }
    return entries;
  }
}

/** What users are told of a failure. `pending`: it waits for something that is not there yet. */
export interface VaultTrouble {
  readonly pending: boolean;
  readonly reason: string;
  readonly message: string;
}

/** A failure at a location, in the words of the original where it has some. @param doing `reading from` or `syncing to` */
export function troubleOf(error: unknown, location: VaultLocation, doing: 'reading from' | 'syncing to'): VaultTrouble {
  const missing = missingCredential(error);
  if (missing !== undefined) return { pending: true, reason: 'VaultAuthMissing', message: missing.message };
  if (isVaultError(error, 'authFailed', 'tokenInvalid') || isRefusedLogin(error)) {
    const message = `error logging in to vault via ${location.auth.method}: ${textOf(error)}`;
    return { pending: false, reason: 'VaultAuthInvalid', message };
  }
  return { pending: false, reason: 'VaultError', message: `Error ${doing} vault: ${textOf(error)}` };
}

/** That Vault is left alone for a while, and was not asked, says less than why: what was said before stands. */
export function saysNothingNew(error: unknown): boolean {
  return isVaultError(error, 'circuitOpen') || (isVaultError(error, 'throttled') && error.status === undefined);
}

/** A login at a mount that does not exist keeps its own kind, because it locks nobody. */
function isRefusedLogin(error: unknown): error is VaultError {
  return isVaultError(error, 'invalidPath') && error.path?.startsWith('auth/') === true;
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : 'unknown';
}

/** The longest wait of whatever waits for a Vault that is down, sealed or overloaded, ms. Three such waits may follow one another. */
export const LONGEST_WAIT_MS = 5000;

/** For queues: the longest wait after this error, ms, where it passes by itself. Spread, so that what failed together comes back apart. */
export function vaultLongestWaitMs(error: unknown): number | undefined {
  return isVaultError(error) && error.transient ? LONGEST_WAIT_MS * (0.75 + Math.random() / 4) : undefined;
}

/** For queues: how long the other side asked to be left alone. */
export function vaultRetryAfterMs(error: unknown): number | undefined {
  return isVaultError(error) ? error.retryAfterMs : undefined;
}
