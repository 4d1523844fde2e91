/**
 * The identities for logins to Vault, from the Secrets and ServiceAccounts in the specs of rules.
 *
 * Credential Secrets are followed like sources (a watch of their metadata) and read when their version changes. The identity from one
 * version is always the same object, so comparing objects shows a change. It is kept only while a location is followed.
 */
import { getOrCreate } from '../../runtime/maps.ts';
import type { SecretBytes } from '../../runtime/secret-bytes.ts';
import type { VaultIdentity } from '../../vault/session/identity.ts';
import type { Content } from '../model/content.ts';
import type { ResourceKey } from '../model/keys.ts';
import { SECRET } from '../model/kind.ts';
import type { KubeStore } from '../cluster/store.ts';
import { ServiceAccountTokens } from './service-account-tokens.ts';
import { VaultAuthMissingError } from './auth-missing.ts';
import type { VaultAuthRef } from './locations.ts';

/** The watch of a credential Secret is not listed yet. Its list starts the next attempt. */
export class NotKnownYetError extends Error {
  override readonly name = 'NotKnownYetError';
}

interface CachedIdentity {
  readonly version: string;
  readonly identity: VaultIdentity;
}

export class VaultCredentials {
  readonly #store: KubeStore;
  /** Followed identities by auth reference. */
  readonly #identities = new Map<string, CachedIdentity>();
  readonly #tokens: ServiceAccountTokens;
  /** The locations that log in with a Secret or as a ServiceAccount, and how often each follows it. */
  readonly #users = new Map<string, Map<ResourceKey, number>>();

  constructor(store: KubeStore) {
    this.#store = store;
    this.#tokens = new ServiceAccountTokens(store.api);
  }

  /** Follows the credential for the location `user`, until `unfollow` was called as often. */
  follow(user: ResourceKey, auth: VaultAuthRef): void {
    const account = this.#accountOf(auth);
    const users = getOrCreate(this.#users, account, () => {
      if (auth.method !== 'kubernetes') this.#store.follow(account);
      return new Map();
    });
    users.set(user, (users.get(user) ?? 0) + 1);
  }

  unfollow(user: ResourceKey, auth: VaultAuthRef): void {
    const account = this.#accountOf(auth);
    const users = this.#users.get(account);
    const count = users?.get(user);
    if (users === undefined || count === undefined) return;
    // Other users get a new object with the same identity, and so the same session.
    this.#identities.delete(idOf(account, auth));
    if (count > 1) users.set(user, count - 1);
    else users.delete(user);
    if (users.size > 0) return;
    this.#users.delete(account);
    if (auth.method !== 'kubernetes') this.#store.unfollow(account);
  }

  /** The locations that log in with a Secret. */
  usersOf(secret: ResourceKey): Iterable<ResourceKey> {
    return this.#users.get(secret)?.keys() ?? [];
  }

  /**
   * The present identity. If it is followed, the same object until it changes.
   * @throws VaultAuthMissingError, NotKnownYetError, ApiError, ConnectionError
   */
  async identity(auth: VaultAuthRef, signal: AbortSignal): Promise<VaultIdentity> {
    if (auth.method === 'kubernetes') return this.#serviceAccount(auth);
    const secret = this.#accountOf(auth);
    const view = this.#users.has(secret) ? this.#store.view(secret) : undefined;
    if (view?.state === 'unknown') throw new NotKnownYetError(`not read yet: ${secret}`);
    if (view?.state === 'missing') throw missingSecret(auth);
    const id = idOf(secret, auth);
    const cached = this.#identities.get(id);
    if (cached !== undefined && view?.state === 'present' && cached.version === view.version) return cached.identity;
    const content =
      view?.state === 'present'
        ? await this.#store.load(secret, signal)
        : (await this.#store.read(secret, signal))?.content;
    if (content === undefined) throw missingSecret(auth);
    const identity = identityFrom(auth, content);
    if (this.#users.has(secret)) this.#identities.set(id, { version: content.version, identity });
    return identity;
  }

  /** The key of the Secret, or a name for the ServiceAccount. */
  #accountOf(auth: VaultAuthRef): string {
    if (auth.method !== 'kubernetes') return this.#store.key(auth.secret.namespace, auth.secret.name);
    return `kubernetes ${auth.serviceAccount.namespace}/${auth.serviceAccount.name}`;
  }

  #serviceAccount(auth: Extract<VaultAuthRef, { method: 'kubernetes' }>): VaultIdentity {
    const account = this.#accountOf(auth);
    const id = idOf(account, auth);
    const cached = this.#identities.get(id);
    if (cached !== undefined) return cached.identity;
    const { mount, role, serviceAccount, audiences, apiTokens } = auth;
    const identity: VaultIdentity = {
      method: 'kubernetes',
      mount,
      role,
      subject: `${serviceAccount.namespace}/${serviceAccount.name} ${audiences.join(' ')}`,
      jwt: (signal) => this.#tokens.request(serviceAccount, { audiences, apiTokens }, signal),
    };
    if (this.#users.has(account)) this.#identities.set(id, { version: '', identity });
    return identity;
  }
}

function idOf(account: string, auth: VaultAuthRef): string {
  return `${account} ${JSON.stringify(auth)}`;
}

function missingSecret({ method, ...auth }: Exclude<VaultAuthRef, { method: 'kubernetes' }>): VaultAuthMissingError {
  const what = method === 'token' ? 'token' : 'approle login';
  const { namespace, name } = auth.secret;
  return new VaultAuthMissingError(`secret ${namespace}/${name} for vault ${what} not found`);
}

function identityFrom(auth: Exclude<VaultAuthRef, { method: 'kubernetes' }>, content: Content): VaultIdentity {
  const values = content.values(SECRET);
  const pick = (what: string, key: string): SecretBytes => {
    const value = values.get(key);
    if (value !== undefined && value.length > 0) return value;
    const { namespace, name } = auth.secret;
    const text = `cannot find ${what} under secret ${namespace}/${name} and key ${key}`;
    throw new VaultAuthMissingError(text);
  };
  if (auth.method === 'token') return { method: 'token', token: pick('token', auth.tokenKey) };
  return {
    method: 'approle',
    mount: auth.mount,
    roleId: pick('roleID', auth.roleIdKey),
    secretId: pick('secretID', auth.secretIdKey),
  };
}
