/**
 * Tokens of ServiceAccounts, for logins to Vault. The author of a rule names the server that gets such a token. So it must be worth
 * nothing at the API server, unless the administrator said that the server may be trusted with it: else the author
 * could become every ServiceAccount of the namespace.
 *
 * Which audiences the API server takes for its own is found out by asking for a token without any: that one has them all. It needs
 * no other right than the login itself, and the token goes nowhere.
 */
import type { KubeApi } from '../../kube/api.ts';
import { isObjectGone } from '../../kube/errors.ts';
import { parseJson } from '../../kube/json.ts';
import { SecretBytes } from '../../runtime/secret-bytes.ts';
import { CredentialUnavailableError } from '../../vault/errors.ts';
import { isPassing } from '../model/failure.ts';
import { VaultAuthMissingError } from './auth-missing.ts';
import type { SecretSpot } from './locations.ts';

export interface TokenWish {
  /** Empty: the API server's own. */
  readonly audiences: readonly string[];
  /** The token may be one that the API server accepts. */
  readonly apiTokens: boolean;
}

/** The token would be accepted by the API server, and goes to a server that may not get such a token. */
export class ApiTokenRefusedError extends Error {
  override readonly name = 'ApiTokenRefusedError';

  constructor(audiences: readonly string[]) {
    const which = audiences.map((audience) => JSON.stringify(audience)).join(', ');
    super(
      `the API server accepts tokens for the audience ${which}, and such a token goes only to servers that --vault-addresses names: ` +
        'set serviceAccountRef.audiences, and the audience of the Vault role, to another one (vault, say)',
    );
  }
}

/** Seconds that a token is asked for: the least that an API server gives. */
const JWT_SECONDS = 600;

export class ServiceAccountTokens {
  readonly #api: KubeApi;

  constructor(api: KubeApi) {
    this.#api = api;
  }

  /**
   * A token that is valid now.
   * @throws VaultAuthMissingError without the ServiceAccount, ApiTokenRefusedError, CredentialUnavailableError where trying again may
   *   help, what the API server answers
   */
  async request(account: SecretSpot, { audiences, apiTokens }: TokenWish, signal: AbortSignal): Promise<SecretBytes> {
    if (apiTokens) return SecretBytes.fromUtf8((await this.#ask(account, audiences, signal)).token);
    // Asked for each time, as a login is rare: the audiences of an API server change when it is started anew.
    const own = new Set((await this.#ask(account, [], signal)).audiences);
    const refused = audiences.length === 0 ? [...own] : audiences.filter((audience) => own.has(audience));
    if (refused.length > 0) throw new ApiTokenRefusedError(refused);
    const made = await this.#ask(account, audiences, signal);
    // What was asked for may have been changed on its way (an admission webhook).
    const got = made.audiences.filter((audience) => own.has(audience));
    if (got.length > 0 || made.audiences.length === 0) throw new ApiTokenRefusedError(got);
    return SecretBytes.fromUtf8(made.token);
  }

  async #ask(
    { namespace, name }: SecretSpot,
    audiences: readonly string[],
    signal: AbortSignal,
  ): Promise<{ readonly token: string; readonly audiences: readonly string[] }> {
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`;
    const spec = { expirationSeconds: JWT_SECONDS, ...(audiences.length > 0 && { audiences }) };
    const request = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec };
    try {
      const { body } = await this.#api.request({ method: 'POST', path, body: JSON.stringify(request), signal });
      const answer = parseJson(body, `the answer to POST ${path}`) as { status?: { token?: unknown } };
      const token = answer.status?.token;
      if (typeof token !== 'string') throw new TypeError('the API server gave no token');
      return { token, audiences: audiencesOf(token) };
    } catch (error) {
      if (!isObjectGone(error, name)) {
        if (!isPassing(error)) throw error;
        const why = error instanceof Error ? error.message : 'unknown';
        throw new CredentialUnavailableError(why, { cause: error });
      }
      const text = `serviceaccount ${namespace}/${name} for vault kubernetes login not found`;
      throw new VaultAuthMissingError(text, { cause: error });
    }
  }
}

/** The audiences that stand in the token itself: those are what counts. @throws TypeError where it is no JSON Web Token */
function audiencesOf(token: string): readonly string[] {
  let claims: unknown;
  try {
    claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'));
  } catch {
    // The error would quote the token.
    throw new TypeError('the API server gave a token that is no JSON Web Token');
  }
  const { aud } = (claims ?? {}) as { aud?: unknown };
  const list: readonly unknown[] = Array.isArray(aud) ? aud : [aud];
  return list.filter((audience): audience is string => typeof audience === 'string');
}
