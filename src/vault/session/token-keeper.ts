/**
 * Renews a session's current token at two thirds of its life. If a renewal would not help (the token is not renewable,
 * or `max_ttl` cuts its life), a login replaces the token. If a renewal fails, it is tried again until the token
 * expires; then the session's next call logs in.
 */
import type { Timer } from '../../runtime/clock.ts';
import { isVaultError, type VaultError } from '../errors.ts';
import { isConfigured, type SessionContext, type SessionToken, type TokenEvent } from './token.ts';

interface KeeperOptions {
  readonly context: SessionContext;
  readonly random: () => number;
  /** Logs in again; the session then calls `keep` for the new token. */
  readonly replace: () => Promise<unknown>;
  /** Returns the time (monotonic ms) before which `replace` would only throw its last error again. */
  readonly replaceNotBefore: () => number;
  /** Called when Vault answered a renewal with 403: the token may be invalid. */
  readonly onRefused: (token: SessionToken, error: VaultError) => Promise<unknown>;
  readonly emit: (event: TokenEvent) => void;
}

const SHORTEST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 30_000;

export class TokenKeeper {
  readonly #options: KeeperOptions;
  #token: SessionToken | undefined;
  #timer: Timer | undefined;

  constructor(options: KeeperOptions) {
    this.#options = options;
  }

  /** From now on renews this token instead of the previous token. */
  keep(token: SessionToken): void {
    this.stop();
    this.#token = token;
    if (!Number.isFinite(token.expiresAt)) return;
    if (this.#isEnding(token)) return;
    const left = token.expiresAt - this.#now();
    // At two thirds of the token's life; a little earlier at random, so that many tokens are not renewed at once.
    this.#arm(token, left - (token.lifeMs / 3) * (1 + 0.1 * this.#options.random()));
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#token = undefined;
  }

  #arm(token: SessionToken, ms: number): void {
    this.#timer?.cancel();
    const run = (): void => {
      void this.#work(token);
    };
    this.#timer = this.#options.context.clock.setTimeout(run, Math.max(0, ms), { unref: true });
  }

  /** Renews or replaces the token, and tries again after a failure. Never rejects. */
  async #work(token: SessionToken): Promise<void> {
    try {
      await (token.renewable ? this.#renew(token) : this.#options.replace());
    } catch (error) {
      if (isVaultError(error)) this.#options.emit({ type: 'renewFailed', error });
      if (token === this.#token) this.#retry(token);
    }
  }

  async #renew(token: SessionToken): Promise<void> {
    const { client, namespace, clock } = this.#options.context;
    const now = clock.monotonic();
    const call = { method: 'POST', path: 'auth/token/renew-self', token: token.token, namespace } as const;
    try {
      const { auth } = await client.request({ ...call, body: Buffer.from('{}') });
      token.renewed(auth?.ttlSeconds ?? 0, auth?.renewable ?? false, now);
      if (token !== this.#token) return;
      this.#options.emit({ type: 'renewed' });
      this.keep(token);
    } catch (error) {
      if (isVaultError(error, 'permissionDenied')) await this.#options.onRefused(token, error);
      if (isVaultError(error, 'permissionDenied', 'badRequest', 'leaseGone')) {
        token.renewable = false;
        if (token === this.#token) this.#isEnding(token);
      }
      throw error;
    }
  }

  #retry(token: SessionToken): void {
    const { context, replaceNotBefore } = this.#options;
    const now = this.#now();
    const left = token.expiresAt - now;
    if (left <= 0 || (!token.renewable && isConfigured(context))) return;
    const wait = Math.min(Math.max(left / 3, SHORTEST_RETRY_MS), LONGEST_RETRY_MS);
    this.#arm(token, token.renewable ? wait : Math.max(wait, replaceNotBefore() - now));
  }

  /** Whether the token is a configured one that cannot be renewed (any more). Then reports when it expires. */
  #isEnding(token: SessionToken): boolean {
    const { context, emit } = this.#options;
    const isEnding = !token.renewable && isConfigured(context);
    if (isEnding) emit({ type: 'expiring', expiresAt: context.clock.now() + token.expiresAt - this.#now() });
    return isEnding;
  }

  #now(): number {
    return this.#options.context.clock.monotonic();
  }
}
