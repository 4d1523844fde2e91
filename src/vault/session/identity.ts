/** The identities with which Keyferry calls Vault: a configured token, or a login by AppRole or Kubernetes. */
import { createHash } from 'node:crypto';

import { SecretBytes } from '../../runtime/secret-bytes.ts';
import { CredentialUnavailableError, VaultError } from '../errors.ts';
import { callPath } from '../path.ts';
import type { VaultServer } from '../client/server.ts';

interface InNamespace {
  /** The namespace of Vault in which Keyferry logs in, or which has the token. Default: the server's namespace. */
  readonly loginNamespace?: string | undefined;
}

interface TokenIdentity extends InNamespace {
  readonly method: 'token';
  readonly token: SecretBytes;
}

export interface AppRoleIdentity extends InNamespace {
  readonly method: 'approle';
  /** Path of the auth method's mount, below `auth/`. Default `approle`. */
  readonly mount?: string | undefined;
  readonly roleId: SecretBytes;
  readonly secretId: SecretBytes;
}

interface KubernetesIdentity extends InNamespace {
  readonly method: 'kubernetes';
  /** Path of the auth method's mount, below `auth/`. Default `kubernetes`. */
  readonly mount?: string | undefined;
  readonly role: string;
  /** Names the service account and the audience of its token. Identities that differ only in `jwt` share a session. */
  readonly subject: string;
  /** Gets a valid service account token for each login. @throws CredentialUnavailableError if a retry may help */
  readonly jwt: (signal: AbortSignal) => Promise<SecretBytes>;
}

export type LoginIdentity = AppRoleIdentity | KubernetesIdentity;
export type VaultIdentity = TokenIdentity | LoginIdentity;

interface LoginRequest {
  readonly path: string;
  readonly body: Buffer;
  readonly redact: () => readonly string[];
}

/** Identities with equal keys share a session. The key is a hash, so it does not show the credential. */
export function sessionKey(server: VaultServer, identity: VaultIdentity): string {
  const hash = createHash('sha256');
  const add = (part: string | SecretBytes): void => {
    const bytes = typeof part === 'string' ? Buffer.from(part) : part.bytes();
    hash.update(`${bytes.byteLength}:`).update(bytes);
  };
  const { loginNamespace = server.namespace ?? '' } = identity;
  [server.connectionKey, server.namespace ?? '', loginNamespace, identity.method].forEach(add);
  switch (identity.method) {
    case 'token':
      add(withoutLineEnd(identity.token));
      break;
    case 'approle':
      add(identity.mount ?? '');
      add(withoutLineEnd(identity.roleId));
      add(withoutLineEnd(identity.secretId));
      break;
    case 'kubernetes':
      [identity.mount ?? '', identity.role, identity.subject].forEach(add);
      break;
  }
  return hash.digest('hex');
}

/** The identity's name in logs: method and mount. It contains no part of the credential. */
export function identityLabel(identity: VaultIdentity): string {
  return identity.method === 'token' ? 'token' : `auth/${identity.mount ?? identity.method}`;
}

/**
 * Makes the request of a login, with the credential in its body.
 * @throws VaultError `invalidPath` for a malformed mount; `authFailed` if the credential is absent or is not text;
 *   `unavailable` if the credential cannot be read at the moment
 */
export async function loginRequest(
  server: VaultServer,
  identity: LoginIdentity,
  signal: AbortSignal,
): Promise<LoginRequest> {
  const fields = await loginFields(server, identity, signal);
  const secrets = Object.values(fields);
  const mount = callPath(identity.mount ?? identity.method, server.origin, 'the mount of the login: ');
  return {
    path: `auth/${mount}/login`,
    body: Buffer.from(JSON.stringify(fields)),
    redact: () => secrets,
  };
}

async function loginFields(
  server: VaultServer,
  identity: LoginIdentity,
  signal: AbortSignal,
): Promise<Record<string, string>> {
  try {
    if (identity.method === 'approle') {
      return { role_id: textOf(identity.roleId), secret_id: textOf(identity.secretId) };
    }
    return { role: identity.role, jwt: textOf(await identity.jwt(signal)) };
  } catch (cause) {
    const name = identity.method === 'approle' ? 'role id or secret id' : 'service account token';
    throw new VaultError(`cannot log in: no ${name}: ${cause instanceof Error ? cause.message : 'unknown'}`, {
      kind: cause instanceof CredentialUnavailableError ? 'unavailable' : 'authFailed',
      addr: server.origin,
      cause,
    });
  }
}

function textOf(secret: SecretBytes): string {
  return withoutLineEnd(secret).utf8();
}

/**
 * The credential without a final line end. Editors and `echo` add one, and `kubectl create secret --from-file` keeps
 * it. No token, role id, secret id or JWT ends in one.
 */
export function withoutLineEnd(secret: SecretBytes): SecretBytes {
  const bytes = secret.bytes();
  let end = bytes.byteLength;
  if (bytes[end - 1] === 0x0a) end--;
  if (bytes[end - 1] === 0x0d) end--;
  return end === bytes.byteLength ? secret : SecretBytes.fromBytes(bytes.subarray(0, end));
}
