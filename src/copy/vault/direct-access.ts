/** Access to Vault for a controller that reads and writes entries itself, and does not copy. It shares sessions and credentials with all others. */
import type { ResourceKey } from '../model/keys.ts';
import type { VaultAccess, VaultConnection, VaultLogin } from './access.ts';
import type { VaultCredentials } from './credentials.ts';

/** The credential of a user has changed. @param user as it was given to `open` */
export type OnCredential = (user: string) => void;

export class VaultDirectAccess {
  readonly #access: VaultAccess;
  readonly #credentials: VaultCredentials;
  readonly #onCredential: OnCredential;
  /** The followed login of each user. */
  readonly #users = new Map<ResourceKey, VaultLogin>();

  constructor(access: VaultAccess, credentials: VaultCredentials, onCredential: OnCredential) {
    this.#access = access;
    this.#credentials = credentials;
    this.#onCredential = onCredential;
  }

  /**
   * Opens a connection, and follows its credential until `close`.
   * @param user a name that no other user of Vault has
   * @throws VaultAuthMissingError, NotKnownYetError (`onCredential` is called when it is known), VaultError `invalidServer` and `closed`
   */
  async open(user: string, login: VaultLogin, signal: AbortSignal): Promise<VaultConnection> {
    const before = this.#users.get(user);
    if (before === undefined || JSON.stringify(before) !== JSON.stringify(login)) {
      this.#credentials.follow(user, login.auth);
      if (before !== undefined) this.#credentials.unfollow(user, before.auth);
      // A connection is kept for its user, whatever the server of the next login is.
      this.#access.close(user);
      this.#users.set(user, login);
    }
    return await this.#access.open(user, login, signal);
  }

  close(user: string): void {
    const login = this.#users.get(user);
    if (login === undefined) return;
    this.#users.delete(user);
    this.#credentials.unfollow(user, login.auth);
    this.#access.close(user);
  }

  /** A Secret is known, or has changed. */
  objectKnown(object: ResourceKey): void {
    for (const user of this.#credentials.usersOf(object)) if (this.#users.has(user)) this.#onCredential(user);
  }
}
