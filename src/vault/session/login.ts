/** Gets a session's token, by a login or from the configuration, and decides when a failed login may be tried again. */
import { SecretBytes } from '../../runtime/secret-bytes.ts';
import { isVaultError, VaultError } from '../errors.ts';
import { identityLabel, type LoginIdentity, loginRequest, withoutLineEnd, type VaultIdentity } from './identity.ts';
import { booleanMember, type JsonObject, numberMember, stringMember } from '../json.ts';
import { type SessionContext, SessionToken } from './token.ts';
import { Backoff } from '../../runtime/queue/backoff.ts';

/** Status codes with which Vault refuses a credential. Vault ≤ 1.13 answers a wrong secret id with 500. */
const REFUSING_STATUS = new Set([400, 403, 404, 500]);

/**
 * Sends one login.
 * @param name the token's id if it has no accessor
 * @throws VaultError: `authFailed` with Vault's message if Vault refused the login
 */
export async function logIn(context: SessionContext, identity: LoginIdentity, name: string): Promise<SessionToken> {
  const { client, clock, namespace, timeoutMs } = context;
  // No caller can abort a login: Vault may already have made a token, which nobody would then revoke.
  const request = await loginRequest(client.server, identity, AbortSignal.timeout(timeoutMs ?? 10_000));
  const now = clock.monotonic();
  try {
    const { auth } = await client.request({ method: 'POST', ...request, namespace });
    if (auth === undefined || auth.clientToken === '') {
      const reason = 'the login returned no token (second factors and wrapped answers are not supported)';
      const { path } = request;
      throw new VaultError(reason, {
        kind: 'authFailed',
        addr: client.server.origin,
        method: 'POST',
        path,
        isLogin: true,
      });
    }
    const token = SecretBytes.fromUtf8(auth.clientToken);
    const revocable = !auth.batch;
    const made = new SessionToken({ ...auth, token, id: auth.accessor ?? name, revocable }, now);
    made.validAt = now;
    return made;
  } catch (error) {
    if (!isVaultError(error) || !REFUSING_STATUS.has(error.status ?? 0)) throw error;
    if (error.status === 500 && !/invalid|secret|role/i.test(error.reason)) {
      throw error.reworded(error.reason, { isLogin: true });
    }
    // Without such a mount (`invalidPath`) Vault cannot lock an AppRole, so the kind stays: its wait is shorter.
    const kind = error.kind === 'invalidPath' ? 'invalidPath' : 'authFailed';
    const reason = isWrapped(identity) ? WRAPPED : error.reason;
    throw error.reworded(`login at ${identityLabel(identity)} refused: ${reason}`, { kind, isLogin: true });
  } finally {
    request.body.fill(0);
  }
}

const WRAPPED = 'the secret id is a wrapping token: store what `vault unwrap -field=secret_id` prints for it';

/** Whether the secret id has the form of a token, of Vault (`hvs.…`) or OpenBao and Vault before 1.10 (`s.…`). */
function isWrapped(identity: LoginIdentity): boolean {
  return identity.method === 'approle' && /^(?:hvs|s)\.[\w.-]{20,}\s*$/.test(identity.secretId.utf8());
}

/**
 * Looks up a configured token. If its policies forbid `lookup-self`, the token is used as if it never expired.
 * @param known whether the lookup has worked before: if so, a 403 means that the token is invalid
 * @throws VaultError: `tokenInvalid`; any other error of the lookup except a 403
 */
export async function lookUpConfiguredToken(
  context: SessionContext,
  given: SecretBytes,
  name: string,
  known: boolean,
): Promise<SessionToken> {
  const { client, clock, namespace } = context;
  const token = withoutLineEnd(given);
  const now = clock.monotonic();
  try {
    const { data } = await client.request({ method: 'GET', path: 'auth/token/lookup-self', token, namespace });
    const facts = {
      id: stringMember(data, 'accessor') || name,
      ttlSeconds: ttlOf(data),
      renewable: booleanMember(data, 'renewable') ?? false,
      limitedUses: (numberMember(data, 'num_uses') ?? 0) > 0,
    };
    const adopted = new SessionToken({ ...facts, token, revocable: false }, now);
    adopted.observed(0, now);
    return adopted;
  } catch (error) {
    if (!isVaultError(error, 'permissionDenied')) throw error;
    if (known) throw tokenInvalid(error);
    const unknown = { ttlSeconds: 0, renewable: false, limitedUses: false };
    const adopted = new SessionToken({ ...unknown, token, id: name, revocable: false }, now);
    adopted.lookupSelf = 'forbidden';
    return adopted;
  }
}

/** The rest of the token's life, s; 0: it does not expire. Vault rounds `ttl` down, so it is 0 in the last second. */
function ttlOf(data: JsonObject | undefined): number {
  return stringMember(data, 'expire_time') === undefined ? 0 : Math.max(1, numberMember(data, 'ttl') ?? 0);
}

/** The error for a token that Vault does not accept (any more). */
export function tokenInvalid(cause: VaultError): VaultError {
  return cause.reworded(`the token is not valid (any more): ${cause.reason}`, { kind: 'tokenInvalid' });
}

/** Waits after the first, second, … refused AppRole login, ms. The last value holds for all further logins. */
const REFUSED_DELAYS_MS = [30_000, 120_000, 480_000, 960_000];

/**
 * When a login may be tried again.
 *
 * Vault ≥ 1.13 and OpenBao lock an AppRole for 15 minutes after five refused logins. They forget refused logins after
 * 15 minutes without another (`user_lockout`). A wrong secret id must not lock the role for its other users. So a
 * refused AppRole login is tried at most four times in any 15 minutes, then every 16 minutes. After other failures (no
 * answer, another auth method, no such mount) the wait grows exponentially. A changed credential gets a new session,
 * which logs in without a wait.
 */
export class LoginBackoff {
  readonly #unanswered = new Backoff({ baseMs: 1_000, maxMs: 5_000 });
  readonly #refused = new Backoff({ baseMs: 5_000, maxMs: 300_000 });
  #refusals = 0;

  /** Counts a failed login. @returns ms to wait */
  next(method: VaultIdentity['method'], error: VaultError): number {
    if (error.transient) return this.#unanswered.next(error);
    if (method !== 'approle' || error.kind !== 'authFailed') return this.#refused.next(error);
    const delay = REFUSED_DELAYS_MS[this.#refusals++] ?? REFUSED_DELAYS_MS.at(-1) ?? 0;
    // The random part only lengthens the wait: a shorter wait would allow a fifth refused login within 15 minutes.
    return delay * (1 + 0.1 * Math.random());
  }

  reset(): void {
    this.#refusals = 0;
    this.#unanswered.reset();
    this.#refused.reset();
  }
}
