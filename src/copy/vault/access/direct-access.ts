/** Access to Vault for a controller that reads and writes entries itself, and does not copy. It shares sessions and credentials with all others. */
import { isEntryKey, type LoginKey, type ObjectKey } from '../../model/keys.ts';
import type { VaultAccess, VaultConnection, VaultLogin } from './access.ts';
import type { VaultCredentials } from './credentials.ts';

/** The credential of a user has changed. @param user as it was given to `open` */
export type OnCredential = (user: LoginKey) => void;

interface FollowedLogin {
  readonly login: VaultLogin;
  /** Of its Secrets, as the user last opened it with. `undefined`: they were not known. */
  version: string | undefined;
}

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
