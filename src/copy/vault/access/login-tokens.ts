/** Gets the token for a login to Vault: a new token of a ServiceAccount, or the token of the process. */
import { readFileSync } from 'node:fs';

import type { KubeApi } from '../../../kube/api.ts';
import { isObjectGone } from '../../../kube/errors.ts';
import { parseJson } from '../../../kube/json.ts';
import { SecretBytes } from '../../../runtime/secret-bytes.ts';
import { CredentialUnavailableError } from '../../../vault/errors.ts';
import { isPassing, type Fault } from '../../model/cause.ts';
import type { ObjectRef } from '../locations.ts';

interface TokenRequest {
  /** The audiences of the token. Empty: the audiences of the API server. */
  readonly audiences: readonly string[];
  /** Whether the API server may accept the token, too: only if the administrator trusts the Vault server. */
  readonly apiTokens: boolean;
}

/** The API server would accept the token, so the Vault server must not get it. */
export class ApiTokenRefusedError extends Error {
  override readonly name = 'ApiTokenRefusedError';

  constructor(audiences: readonly string[]) {
    const which = audiences.map((audience) => JSON.stringify(audience)).join(', ');
    super(
      `the API server accepts tokens for the audience ${which}, so they are only sent to servers in --vault-addresses: ` +
        'set serviceAccountRef.audiences and the audience of the Vault role to another one (for example vault)',
    );
  }
}

/** Lifetime of a token, seconds: an API server accepts no shorter one. */
const JWT_SECONDS = 600;

/**
 * Requests a token of a ServiceAccount for a login to Vault. The author of a rule chooses the Vault server that gets
 * the token. If the API server accepted this token, the author could act as any ServiceAccount of the namespace. So
 * such a token is refused, except if the administrator trusts the Vault server (`apiTokens`).
 *
 * To learn the audiences of the API server, Keyferry first requests a token without audiences, and sends it nowhere.
 * This needs no other permission than the login itself.
 * @throws VaultAuthMissingError if there is no ServiceAccount, ApiTokenRefusedError, CredentialUnavailableError if a
 *   retry may succeed, ApiError
 */
export async function serviceAccountToken(
  api: KubeApi,
  { namespace, name }: ObjectRef,
  { audiences, apiTokens }: TokenRequest,
  signal: AbortSignal,
): Promise<SecretBytes> {
  async function create(
    audiences: readonly string[],
  ): Promise<{ readonly token: string; readonly audiences: readonly string[] }> {
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`;
    const spec = { expirationSeconds: JWT_SECONDS, ...(audiences.length > 0 && { audiences }) };
    const request = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec };
    try {
      const { body } = await api.request({ method: 'POST', path, body: JSON.stringify(request), signal });
      const answer = parseJson(body, `the answer to POST ${path}`) as { status?: { token?: unknown } };
      const token = answer.status?.token;
      if (typeof token !== 'string') throw new TypeError('the API server returned no token');
      return { token, audiences: audiencesOf(token) };
    } catch (error) {
      if (!isObjectGone(error, name)) {
        if (!isPassing(error)) throw error;
        const why = error instanceof Error ? error.message : 'unknown';
        throw new CredentialUnavailableError(why, { cause: error });
      }
      const text = `serviceaccount ${namespace}/${name} for vault kubernetes login not found`;
      throw new VaultAuthMissingError(text, 'user', { cause: error });
    }
  }

  if (apiTokens) return SecretBytes.fromUtf8((await create(audiences)).token);
  // They are requested for each login: an API server may have other audiences after a restart. Logins are rare.
  const own = new Set((await create([])).audiences);
  const refused = audiences.length === 0 ? [...own] : audiences.filter((audience) => own.has(audience));
  if (refused.length > 0) throw new ApiTokenRefusedError(refused);
  const made = await create(audiences);
  // An admission webhook may have changed the audiences in the request, so those in the token count.
  const got = made.audiences.filter((audience) => own.has(audience));
  if (got.length > 0 || made.audiences.length === 0) throw new ApiTokenRefusedError(got);
  return SecretBytes.fromUtf8(made.token);
}

/** The audiences in a token (`aud`). @throws TypeError if it is not a JSON Web Token */
function audiencesOf(token: string): readonly string[] {
  let claims: unknown;
  try {
    claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'));
  } catch {
    // The error is dropped, because it would quote the token.
    throw new TypeError('the API server returned a token that is not a JSON Web Token');
  }
  const { aud } = (claims ?? {}) as { aud?: unknown };
  const list: readonly unknown[] = Array.isArray(aud) ? aud : [aud];
  return list.filter((audience): audience is string => typeof audience === 'string');
}

/** A login to Vault has no credential. Events and conditions show the message. */
export class VaultAuthMissingError extends Error {
  override readonly name = 'VaultAuthMissingError';
  readonly fault: Fault;

  constructor(message: string, fault: Fault, options?: ErrorOptions) {
    super(message, options);
    this.fault = fault;
  }
}

/** The `VaultAuthMissingError` in an error or its causes; `undefined`: the error has another reason. */
export function missingCredential(error: unknown): VaultAuthMissingError | undefined {
  return causedBy(error, VaultAuthMissingError);
}

/** The first error of the class `of` among an error and its causes. */
export function causedBy<E extends Error>(error: unknown, of: abstract new (...args: never[]) => E): E | undefined {
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof of) return cause;
  }
  return undefined;
}

/** Returns the token of the process; `undefined`: there is none. */
export type EnvironmentToken = () => SecretBytes | undefined;

interface TokenSource {
  /** $VAULT_TOKEN */
  readonly token: SecretBytes | undefined;
  /** `~/.vault-token` */
  readonly file: string | undefined;
}

/** The token in $VAULT_TOKEN, else in the file. The file is read at each call, so a new `vault login` works at once. */
export function environmentToken({ token, file }: TokenSource): EnvironmentToken {
  return () => {
    if (token !== undefined || file === undefined) return token;
    const bytes = readIfThere(file);
    return bytes === undefined || bytes.byteLength === 0 ? undefined : SecretBytes.fromBytes(bytes);
  };
}

function readIfThere(file: string): Buffer | undefined {
  try {
    return readFileSync(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
