/** The tokens of a session: the current one, those that were replaced, and their events. */
import type { SecretBytes } from '../../runtime/secret-bytes.ts';
import { isVaultError, type VaultError } from '../errors.ts';
import type { LoginContext } from './login.ts';

export interface TokenFacts {
  readonly token: SecretBytes;
  /** The accessor; for a token without one (batch) a generated name. */
  readonly id: string;
  /** 0 or less: does not expire. */
  readonly ttlSeconds: number;
  readonly renewable: boolean;
  /** Keyferry revokes the token after its last use, because it comes from a login of Keyferry and is no batch token. */
  readonly revocable: boolean;
  /** Whether Vault ends the token after a number of calls (`num_uses`). */
  readonly limitedUses: boolean;
}

/** Whether the token may look itself up; a token without the policy `default` may not. */
export type LookupSelf = 'unknown' | 'works' | 'forbidden';

/** A renewal that gives less than this share of the token's longest life was cut by `max_ttl`. */
const CAPPED_BELOW = 0.75;

/** A token with its life, the number of calls that use it, and the leases that end with it. */
export class SessionToken {
  readonly token: SecretBytes;
  readonly id: string;
  readonly revocable: boolean;
  readonly limitedUses: boolean;
  readonly leases = new Set<string>();
  inFlight = 0;
  lookupSelf: LookupSelf = 'unknown';
  /** Monotonic ms of the last proof that it is valid. */
  validAt: number | undefined;
  /** Whether a renewal would extend its life, as far as is known. */
  renewable: boolean;
  /** From the login or the last renewal to its end, ms. */
  lifeMs: number;
  /** Monotonic ms; `Infinity`: never. */
  expiresAt: number;
  /** The longest life that a login or renewal gave, ms. */
  #fullMs: number;

  /** @param now monotonic ms, from before the call, so that its end is never assumed too late */
  constructor(facts: TokenFacts, now: number) {
    this.token = facts.token;
    this.id = facts.id;
    this.revocable = facts.revocable;
    this.limitedUses = facts.limitedUses;
    this.renewable = facts.renewable;
    this.lifeMs = facts.ttlSeconds > 0 ? facts.ttlSeconds * 1_000 : Infinity;
    this.#fullMs = this.lifeMs;
    this.expiresAt = now + this.lifeMs;
  }

  /** Records Vault's answer to a renewal. @param now monotonic ms, from before the call */
  renewed(ttlSeconds: number, renewable: boolean, now: number): void {
    this.lifeMs = ttlSeconds > 0 ? ttlSeconds * 1_000 : Infinity;
    this.expiresAt = now + this.lifeMs;
    this.renewable = renewable && this.lifeMs >= this.#fullMs * CAPPED_BELOW;
    this.#fullMs = Math.max(this.#fullMs, this.lifeMs);
    this.validAt = now;
  }

  /** Records Vault's answer to `lookup-self`. @param ttlSeconds 0: does not expire */
  observed(ttlSeconds: number, now: number): void {
    if (ttlSeconds > 0) this.expiresAt = now + ttlSeconds * 1_000;
    this.lookupSelf = 'works';
    this.validAt = now;
  }
}

const REVOKE_LIMIT_MS = 2_000;
/** Number of ended tokens whose ids are kept, for leases that name one of them. */
const REMEMBERED = 100;

/**
 * Tokens of a session that were replaced but may not be revoked yet: a call still uses them, or they have leases, which
 * Vault would revoke with them. When the last call and lease of a token has ended, the token is revoked.
 */
export class RetiredTokens {
  readonly #context: LoginContext;
  readonly #emit: (event: TokenEvent) => void;
  readonly #tokens = new Set<SessionToken>();
  readonly #ended = new Set<string>();

  constructor(context: LoginContext, emit: (event: TokenEvent) => void) {
    this.#context = context;
    this.#emit = emit;
  }

  get all(): readonly SessionToken[] {
    this.#sweep();
    return [...this.#tokens];
  }

  /** Whether the token is known to be invalid, with its leases. */
  hasEnded(tokenId: string): boolean {
    this.#sweep();
    return this.#ended.has(tokenId);
  }

  add(token: SessionToken): void {
    this.#tokens.add(token);
    this.revokeIfDone(token);
  }

  /** Records that the token is invalid. */
  ended(token: SessionToken): void {
    this.#tokens.delete(token);
    this.#ended.add(token.id);
    const [oldest] = this.#ended;
    if (this.#ended.size > REMEMBERED && oldest !== undefined) this.#ended.delete(oldest);
  }

  /** Called when a call or lease of the token has ended. */
  revokeIfDone(token: SessionToken): void {
    if (token.inFlight > 0 || token.leases.size > 0 || !this.#tokens.delete(token)) return;
    void this.revoke(token);
  }

  /** Never rejects: a token that cannot be revoked expires. Does nothing for a configured token or a batch token. */
  async revoke(token: SessionToken): Promise<void> {
    const { client, namespace, clock } = this.#context;
    if (!token.revocable || token.expiresAt <= clock.monotonic()) return;
    const call = { method: 'POST', path: 'auth/token/revoke-self', token: token.token, namespace } as const;
    try {
      await client.request({ ...call, timeoutMs: REVOKE_LIMIT_MS });
      this.#emit({ type: 'revoked' });
    } catch (error) {
      if (isVaultError(error)) this.#emit({ type: 'revokeFailed', error });
    } finally {
      this.ended(token);
    }
  }

  #sweep(): void {
    const now = this.#context.clock.monotonic();
    for (const token of this.#tokens) if (token.expiresAt <= now && token.inFlight === 0) this.ended(token);
  }
}

interface SessionOf {
  readonly addr: string;
  /** `token`, `auth/approle`, … */
  readonly identity: string;
}

/** What happened to a token. */
export type TokenEvent =
  | { readonly type: 'login' | 'renewed' | 'revoked' }
  | { readonly type: 'loginFailed'; readonly error: VaultError; readonly retryAfterMs: number }
  | { readonly type: 'renewFailed' | 'revokeFailed'; readonly error: VaultError }
  /** Vault does not accept the token any more. */
  | { readonly type: 'tokenLost' }
  /** A configured token that cannot be renewed (further). `expiresAt`: ms since 1970. */
  | { readonly type: 'expiring'; readonly expiresAt: number };

/** Events of a session's tokens, for logs and metrics. Holds no token. */
export type SessionEvent = SessionOf & TokenEvent;

export type SessionObserver = (event: SessionEvent) => void;
