/**
 * Gets the credentials for logins to Vault: from Secrets and ServiceAccounts that rules name, or from the environment.
 * The Secrets are followed like sources: a watch brings their metadata, and they are read when their version changes.
 */
import { getOrCreate } from '../../../runtime/maps.ts';
import { SecretBytes } from '../../../runtime/secret-bytes.ts';
import type { VaultIdentity } from '../../../vault/session/identity.ts';
import type { SourceView } from '../../model/claim.ts';
import type { Content } from '../../model/content.ts';
import type { ObjectKey, VaultUser } from '../../model/keys.ts';
import { SECRET } from '../../model/kind.ts';
import type { KubeStore } from '../../cluster/objects/store.ts';
import { serviceAccountToken, VaultAuthMissingError, type EnvironmentToken } from './login-tokens.ts';
import type { ObjectRef, VaultAuthRef, VaultSecretKey } from '../locations.ts';

/** It is not known yet whether the Secret with the credential exists. The first list of its watch starts a retry. */
export class NotKnownYetError extends Error {
  override readonly name = 'NotKnownYetError';
}

type SecretAuthRef = Extract<VaultAuthRef, { method: 'token' | 'approle' }>;
type AccountAuthRef = Extract<VaultAuthRef, { method: 'kubernetes' }>;

export class VaultCredentials {
  readonly #store: KubeStore;
  readonly #environment: EnvironmentToken;
  /** For each Secret: the users of `VaultAccess` that log in with it. */
  readonly #users = new Map<ObjectKey, Set<VaultUser>>();

  constructor(store: KubeStore, environment: EnvironmentToken = () => undefined) {
    this.#store = store;
    this.#environment = environment;
  }

  /** Follows the credential `auth` for a user, and stops following `before`. `undefined`: no credential. */
  follow(user: VaultUser, auth: VaultAuthRef | undefined, before?: VaultAuthRef): void {
    const secrets = this.#secretsOf(auth);
    for (const secret of secrets) {
      const users = getOrCreate(this.#users, secret, () => {
        this.#store.follow(secret);
        return new Set();
      });
      users.add(user);
    }
    for (const secret of this.#secretsOf(before)) {
      const users = this.#users.get(secret);
      if (secrets.includes(secret) || users?.delete(user) !== true || users.size > 0) continue;
      this.#users.delete(secret);
      this.#store.unfollow(secret);
    }
  }

  /** The users that log in with this Secret. */
  usersOf(secret: ObjectKey): Iterable<VaultUser> {
    return this.#users.get(secret) ?? [];
  }

  /** The versions of a login's Secrets, as text; `undefined`: it has no Secret, or one is unknown or missing. */
  versionOf(auth: VaultAuthRef): string | undefined {
    if (!hasSecrets(auth)) return undefined;
    const views = secretsOf(auth).map((secret) => this.#viewOf(secret));
    return views.every((view) => view?.state === 'present') ? views.map(({ version }) => version).join(' ') : undefined;
  }

  /** The current credential of a login. @throws VaultAuthMissingError, NotKnownYetError, ApiError, ConnectionError */
  async identity(auth: VaultAuthRef, signal: AbortSignal): Promise<VaultIdentity> {
    if (auth.method === 'environment') return this.#environmentIdentity();
    if (auth.method === 'kubernetes') return this.#serviceAccount(auth);
    const contents = await Promise.all(secretsOf(auth).map(async (secret) => await this.#load(secret, auth, signal)));
    return identityFrom(auth, contents);
  }

  async #load(secret: ObjectRef, auth: SecretAuthRef, signal: AbortSignal): Promise<Content> {
    const key = this.#keyOf(secret);
    const view = this.#viewOf(secret);
    if (view?.state === 'unknown') throw new NotKnownYetError(`the Secret with the credential is not read yet: ${key}`);
    if (view?.state === 'missing') throw missingSecret(secret, auth);
    if (view?.state === 'failed') throw new VaultAuthMissingError(view.message, view.fault);
    const isFollowed = view !== undefined;
    const content = isFollowed ? await this.#store.load(key, signal) : (await this.#store.read(key, signal))?.content;
    if (content === undefined) throw missingSecret(secret, auth);
    return content;
  }

  #keyOf({ namespace, name }: ObjectRef): ObjectKey {
    return this.#store.key(namespace, name);
  }

  /** `undefined`: the Secret is not followed. */
  #viewOf(secret: ObjectRef): SourceView | undefined {
    const key = this.#keyOf(secret);
    return this.#users.has(key) ? this.#store.view(key) : undefined;
  }

  /** The Secrets of a login. */
  #secretsOf(auth: VaultAuthRef | undefined): readonly ObjectKey[] {
    return hasSecrets(auth) ? secretsOf(auth).map((secret) => this.#keyOf(secret)) : [];
  }

  #environmentIdentity(): VaultIdentity {
    const token = this.#environment();
    if (token === undefined) {
      throw new VaultAuthMissingError('neither $VAULT_TOKEN nor ~/.vault-token has a token', 'operator');
    }
    return { method: 'token', token };
  }

  #serviceAccount(auth: AccountAuthRef): VaultIdentity {
    const { mount, role, serviceAccount, audiences, apiTokens, loginNamespace } = auth;
    return {
      method: 'kubernetes',
      mount,
      role,
      subject: `${serviceAccount.namespace}/${serviceAccount.name} ${audiences.join(' ')}`,
      jwt: (signal) => serviceAccountToken(this.#store.api, serviceAccount, { audiences, apiTokens }, signal),
      loginNamespace,
    };
  }
}

function hasSecrets(auth: VaultAuthRef | undefined): auth is SecretAuthRef {
  return auth?.method === 'token' || auth?.method === 'approle';
}

/** The keys of Secrets that a login needs. */
function secretsOf(auth: SecretAuthRef): readonly VaultSecretKey[] {
  if (auth.method === 'token') return [auth.token];
  return 'text' in auth.roleId ? [auth.secretId] : [auth.roleId, auth.secretId];
}

function missingSecret({ namespace, name }: ObjectRef, { method }: SecretAuthRef): VaultAuthMissingError {
  const what = method === 'token' ? 'token' : 'approle login';
  return new VaultAuthMissingError(`secret ${namespace}/${name} for vault ${what} not found`, 'user');
}

/** @param contents the contents of the Secrets in `secretsOf(auth)`, in the same order */
function identityFrom(auth: SecretAuthRef, contents: readonly Content[]): VaultIdentity {
  const { loginNamespace } = auth;
  const values = new Map(secretsOf(auth).map((secret, index) => [secret, contents[index]?.values(SECRET)]));
  const pick = (what: string, secret: VaultSecretKey): SecretBytes => {
    const value = values.get(secret)?.get(secret.key);
    if (value !== undefined && value.length > 0) return value;
    const { namespace, name, key } = secret;
    throw new VaultAuthMissingError(`cannot find ${what} under secret ${namespace}/${name} and key ${key}`, 'user');
  };
  if (auth.method === 'token') return { method: 'token', token: pick('token', auth.token), loginNamespace };
  const { mount, roleId, secretId } = auth;
  return {
    method: 'approle',
    mount,
    roleId: 'text' in roleId ? SecretBytes.fromUtf8(roleId.text) : pick('roleID', roleId),
    secretId: pick('secretID', secretId),
    loginNamespace,
  };
}
