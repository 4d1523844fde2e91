/**
 * A session is one identity at one Vault. It logs in once for all its users.
 * State machine of the session:
 * - `idle`: no token. The first call logs in (or looks up the configured token); other calls wait for the result.
 *   → `live` or `failed`.
 * - `live`: the token has not expired. It is renewed at two thirds of its life. If it cannot be renewed, or `max_ttl`
 *   cuts a renewal, a login replaces the token at two thirds of its remaining life. When the token expires or turns
 *   out to be invalid → `idle`.
 * - `failed`: the last login failed. Until `#retryAt` every call fails at once with the same error. Then → `idle`.
 * - `closed`: every call fails.
 *
 * Vault revokes a token's leases together with the token. So a session that is closed revokes its token only if it has
 * no leases. A token that a new login has replaced is left to expire, because its end was near. A configured token is
 * never revoked, and a session without users renews nothing.
 *
 * A 403 means that a policy forbids the call or that the token is invalid; `token-check.ts` finds out which.
 */
import { orAborted, throwIfAborted } from '../../runtime/abort.ts';
import type { Timer } from '../../runtime/clock.ts';
import type { VaultResponse } from '../client/answer.ts';
import type { VaultRequest } from '../client/client.ts';
import { isVaultError, VaultError } from '../errors.ts';
import { identityLabel } from './identity.ts';
import { lookUpConfiguredToken, logIn, tokenInvalid, LoginBackoff } from './login.ts';
import {
  isConfigured,
  revokeToken,
  type SessionContext,
  type SessionObserver,
  type SessionToken,
  type TokenEvent,
} from './token.ts';
import { TokenCheck } from './token-check.ts';

interface SessionOptions extends SessionContext {
  /** The namespace of Vault for all calls except logins and token calls, which use `namespace`. */
  readonly entryNamespace: string | undefined;
  readonly onEvent?: SessionObserver | undefined;
}

type SessionRequest = Omit<VaultRequest, 'token' | 'namespace'>;

export interface SessionResponse extends VaultResponse {
  /** Names the token that the call used. A lease in the answer ends together with this token. */
  readonly tokenId: string;
}

/** Sends calls with one identity. Code that reads and writes entries needs only this part of a session. */
export interface VaultCaller {
  /** Scheme, host and port of the Vault server. */
  readonly addr: string;
  request(request: SessionRequest): Promise<SessionResponse>;
  /** Called when a lease has ended, so that the session may revoke its token when it closes. */
  forgetLease(leaseId: string): void;
}

/** If a call fails because the last login failed, its error sets at least this wait before a retry, ms. */
const SHORTEST_RECALL_MS = 500;
/** Waits after a failed renewal, ms. Within these limits: a third of the token's rest. */
const RENEWAL_RETRY_MS = { shortest: 500, longest: 30_000 };
/** Number of former tokens that are remembered, because their leases end with them. */
const REMEMBERED = 100;

type SessionState = 'idle' | 'live' | 'failed' | 'closed';

export class VaultSession implements VaultCaller {
  readonly #options: SessionOptions;
  readonly #emit = (event: TokenEvent): void =>
    this.#options.onEvent?.({ ...event, addr: this.addr, identity: this.identity });
  readonly #backoff: LoginBackoff;
  readonly #check: TokenCheck;
  /** When each of the last tokens before the current one expires, by its id, monotonic ms; `-Infinity`: it is lost. */
  readonly #former = new Map<string, number>();
  #current: SessionToken | undefined;
  /** Renews or replaces the current token; not set while the session has no users. */
  #renewal: Timer | undefined;
  #obtaining: Promise<SessionToken> | undefined;
  #failure: VaultError | undefined;
  #retryAt = 0;
  #closed = false;
  #count = 0;
  /** Whether `lookup-self` ever worked with the configured token. If so, a 403 for it means an invalid token. */
  #verified = false;
  #unused = false;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#backoff = new LoginBackoff();
    this.#check = new TokenCheck(options);
  }

  get addr(): string {
    return this.#options.client.server.origin;
  }

  /** The identity's name in logs, for example `auth/approle`. */
  get identity(): string {
    return identityLabel(this.#options.identity);
  }

  get state(): SessionState {
    if (this.#closed) return 'closed';
    const now = this.#monotonic();
    if (this.#current !== undefined && now < this.#current.expiresAt) return 'live';
    return this.#failure !== undefined && now < this.#retryAt ? 'failed' : 'idle';
  }

  /**
   * When the token and its leases end, ms since 1970; 0: they have ended. `Infinity`: not while this session is open.
   * `undefined`: this session does not know the token (for example, Vault created it before a restart of Keyferry), so
   * the session neither renews the token nor knows its end.
   */
  tokenDeadline(tokenId: string): number | undefined {
    const token = this.#current;
    if (token?.id === tokenId && token.renewable && !this.#unused) return Infinity;
    return this.#endOf(tokenId);
  }

  /**
   * When the token and its leases end if this session stops renewing the token, ms since 1970. `undefined`: the session
   * does not know the token or lost it, the token does not expire, or it is a configured token, which the next session
   * uses too.
   */
  tokenEndWithoutRenewal(tokenId: string): number | undefined {
    const end = isConfigured(this.#options) ? undefined : this.#endOf(tokenId);
    return end === Infinity || end === 0 ? undefined : end;
  }

  /**
   * Sends one call with this identity's token. If the token turns out to be invalid, logs in and sends the call again.
   * If the answer has a lease, the session does not revoke the token before `forgetLease`.
   * @throws VaultError: the error of the call; `authFailed` if Vault refused the login; `tokenInvalid` if the
   *   configured token is invalid; `closed` after `close`. AbortedError.
   */
  async request(request: SessionRequest): Promise<SessionResponse> {
    const first = await this.#token(request.signal);
    try {
      return await this.#use(first, request);
    } catch (error) {
      if (!isVaultError(error, 'permissionDenied')) throw error;
      if (await this.#isValid(first, error, request.signal)) throw error;
      const second = await this.#token(request.signal);
      if (second === first) throw error;
      return await this.#use(second, request).catch((again: unknown) => {
        if (isVaultError(again, 'permissionDenied')) this.#check.notHelpful();
        throw again;
      });
    }
  }

  forgetLease(leaseId: string): void {
    this.#current?.leases.delete(leaseId);
  }

  /** Called when nobody follows a lease any more that may be valid. Its token is then left to expire. */
  abandonLease(leaseId: string): void {
    if (this.#current?.leases.delete(leaseId) === true) this.#current.revocable = false;
  }

  /** Records whether the session has no users. While it has none, its token is neither renewed nor replaced. */
  setUnused(unused: boolean): void {
    if (unused === this.#unused) return;
    this.#unused = unused;
    this.#renewal?.cancel();
    if (this.#current !== undefined) this.#keep(this.#current);
  }

  /**
   * Ends the session. Within 2 s it revokes its token, if this comes from a login and has no leases. A token that cannot
   * be revoked expires. Never rejects.
   */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#renewal?.cancel();
    // If a login runs, its token will be in #current; an error of the login goes to the calls that wait for it.
    await this.#obtaining?.catch(() => undefined);
    const token = this.#current;
    this.#current = undefined;
    if (token?.leases.size === 0) await revokeToken(this.#options, token, this.#emit);
  }

  async #use(token: SessionToken, request: SessionRequest): Promise<SessionResponse> {
    const { client, entryNamespace: namespace } = this.#options;
    const response = await client.request({ ...request, token: token.token, namespace });
    token.validAt = this.#monotonic();
    // If the answer has data, this call created the lease. A renewal has no data; its lease may be another token's.
    if (response.leaseId !== '' && response.data !== undefined) token.leases.add(response.leaseId);
    return { ...response, tokenId: token.id };
  }

  async #token(signal: AbortSignal | undefined): Promise<SessionToken> {
    const what = `logging in to vault ${this.addr}`;
    throwIfAborted(signal, what);
    if (this.#closed) throw this.#closedError();
    const now = this.#monotonic();
    if (this.#current !== undefined && now < this.#current.expiresAt) return this.#current;
    // If Vault did not answer the last login, or its lane refused it, calls fail at once while the next login runs.
    const hangs = this.#obtaining !== undefined && isVaultError(this.#failure, 'timeout', 'circuitOpen');
    const early = this.#obtaining === undefined && now < this.#retryAt;
    if (this.#failure !== undefined && (hangs || early)) throw this.#repeatedFailure(now);
    return await orAborted(this.#obtain(), signal, what);
  }

  /** Logs in. If a login runs already, waits for its result instead. */
  #obtain(): Promise<SessionToken> {
    this.#obtaining ??= this.#obtainOnce().finally(() => {
      this.#obtaining = undefined;
    });
    return this.#obtaining;
  }

  async #obtainOnce(): Promise<SessionToken> {
    const { identity } = this.#options;
    const name = `${identityLabel(identity)}#${++this.#count}`;
    try {
      const token =
        identity.method === 'token'
          ? await lookUpConfiguredToken(this.#options, identity.token, name, this.#verified)
          : await logIn(this.#options, identity, name);
      if (token.lookupSelf === 'works') this.#verified = true;
      this.#backoff.reset();
      this.#failure = undefined;
      if (this.#current !== undefined) this.#remember(this.#current.id, this.#current.expiresAt);
      this.#current = token;
      this.#emit({ type: 'login' });
      this.#keep(token);
      return token;
    } catch (error) {
      if (isVaultError(error)) this.#failed(error);
      throw error;
    }
  }

  #isKept(token: SessionToken): boolean {
    return token === this.#current && !this.#closed && !this.#unused;
  }

  /** From now on renews this token. */
  #keep(token: SessionToken): void {
    if (!this.#isKept(token) || !Number.isFinite(token.expiresAt) || this.#isEnding(token)) return;
    const left = token.expiresAt - this.#monotonic();
    // At two thirds of the token's life; a little earlier at random, so that many tokens are not renewed at once.
    this.#renewIn(left - (token.lifeMs / 3) * (1 + 0.1 * Math.random()), token);
  }

  #renewIn(ms: number, token: SessionToken): void {
    this.#renewal?.cancel();
    const run = (): void => void this.#renewOrReplace(token);
    this.#renewal = this.#options.clock.setTimeout(run, Math.max(0, ms), { unref: true });
  }

  /** Tries again after a failure, until the token expires. Never rejects. */
  async #renewOrReplace(token: SessionToken): Promise<void> {
    try {
      await (token.renewable ? this.#renew(token) : this.#obtain());
    } catch (error) {
      if (isVaultError(error)) this.#emit({ type: 'renewFailed', error });
      const now = this.#monotonic();
      const left = token.expiresAt - now;
      if (!this.#isKept(token) || left <= 0 || (!token.renewable && isConfigured(this.#options))) return;
      const wait = Math.min(Math.max(left / 3, RENEWAL_RETRY_MS.shortest), RENEWAL_RETRY_MS.longest);
      this.#renewIn(token.renewable ? wait : Math.max(wait, this.#retryAt - now), token);
    }
  }

  async #renew(token: SessionToken): Promise<void> {
    const { client, namespace } = this.#options;
    const now = this.#monotonic();
    const call = { method: 'POST', path: 'auth/token/renew-self', token: token.token, namespace } as const;
    try {
      const { auth } = await client.request({ ...call, body: Buffer.from('{}') });
      token.renewed(auth?.ttlSeconds ?? 0, auth?.renewable ?? false, now);
      if (this.#isKept(token)) this.#emit({ type: 'renewed' });
      this.#keep(token);
    } catch (error) {
      if (isVaultError(error, 'permissionDenied')) await this.#isValid(token, error, undefined);
      if (isVaultError(error, 'permissionDenied', 'badRequest', 'leaseGone')) {
        token.renewable = false;
        if (this.#isKept(token)) this.#isEnding(token);
      }
      throw error;
    }
  }

  /** Whether the token is a configured one that cannot be renewed (any more). Then reports when it expires. */
  #isEnding(token: SessionToken): boolean {
    const isEnding = !token.renewable && isConfigured(this.#options);
    if (isEnding) this.#emit({ type: 'expiring', expiresAt: this.#endOf(token.id) ?? 0 });
    return isEnding;
  }

  #failed(error: VaultError): void {
    const retryAfterMs = this.#backoff.next(this.#options.identity.method, error);
    this.#failure = error;
    this.#retryAt = this.#monotonic() + retryAfterMs;
    this.#emit({ type: 'loginFailed', error, retryAfterMs });
  }

  /** The error of the last login again. Its `retryAfterMs` is the time until the next login. */
  #repeatedFailure(now: number): VaultError {
    const cause = this.#failure ?? this.#closedError();
    return cause.reworded(cause.reason, { retryAfterMs: Math.max(this.#retryAt - now, SHORTEST_RECALL_MS) });
  }

  /** Whether the token is valid after a 403. Drops an invalid token. @throws VaultError if that token is configured */
  async #isValid(token: SessionToken, error: VaultError, signal: AbortSignal | undefined): Promise<boolean> {
    if (token !== this.#current) return false;
    const isValid = await this.#check.isValid(token, signal);
    if (isValid || token !== this.#current) return isValid;
    this.#current = undefined;
    this.#renewal?.cancel();
    this.#remember(token.id, -Infinity);
    this.#emit({ type: 'tokenLost' });
    if (!isConfigured(this.#options)) return false;
    const invalid = tokenInvalid(error);
    this.#failed(invalid);
    throw invalid;
  }

  #remember(tokenId: string, end: number): void {
    this.#former.set(tokenId, end);
    const [oldest] = this.#former.keys();
    if (this.#former.size > REMEMBERED && oldest !== undefined) this.#former.delete(oldest);
  }

  /** When the token expires, ms since 1970; `Infinity`: never. `undefined`: this session does not know the token. */
  #endOf(tokenId: string): number | undefined {
    const end = this.#current?.id === tokenId ? this.#current.expiresAt : this.#former.get(tokenId);
    if (end === undefined) return undefined;
    return Math.max(0, this.#options.clock.now() + (end - this.#monotonic()));
  }

  #closedError(): VaultError {
    return new VaultError('the session was stopped', { kind: 'closed', addr: this.addr });
  }

  #monotonic(): number {
    return this.#options.clock.monotonic();
  }
}
