/** The tokens of a session: the life of a token, its revocation, and events for logs. */
import type { Clock } from '../../runtime/clock.ts';
import type { SecretBytes } from '../../runtime/secret-bytes.ts';
import type { VaultCalls } from '../client/client.ts';
import { isVaultError, type VaultError } from '../errors.ts';
import type { VaultIdentity } from './identity.ts';

/** The settings that all parts of a session share. */
export interface SessionContext {
  readonly identity: VaultIdentity;
  /** Sends the calls of this identity. */
  readonly client: VaultCalls;
  readonly namespace: string | undefined;
  readonly clock: Clock;
  /** The client's time limit of a call, ms. */
  readonly timeoutMs?: number | undefined;
}

/** Whether the token comes from the configuration, so that a login cannot replace it. */
export function isConfigured({ identity }: SessionContext): boolean {
  return identity.method === 'token';
}

interface TokenFacts {
  readonly token: SecretBytes;
  /** The token's accessor. A batch token has no accessor, so it gets a generated name. */
  readonly id: string;
  /** 0 or less: the token does not expire. */
  readonly ttlSeconds: number;
  readonly renewable: boolean;
  /** Whether Keyferry revokes the token after its last use: yes if the token is from a login and is no batch token. */
  readonly revocable: boolean;
  /** Whether Vault ends the token after a number of calls (`num_uses`). */
  readonly limitedUses: boolean;
}

/** Whether a policy allows the token to call `lookup-self`. The policy `default` does. */
type LookupSelf = 'unknown' | 'works' | 'forbidden';

/** If a renewal gives less than this share of the token's longest life, `max_ttl` has cut the life. */
const CAPPED_BELOW = 0.75;

/** A token with its life, and the leases that end with it. */
export class SessionToken {
  readonly token: SecretBytes;
  readonly id: string;
  revocable: boolean;
  readonly limitedUses: boolean;
  readonly leases = new Set<string>();
  lookupSelf: LookupSelf = 'unknown';
  /** When a call last proved that the token is valid, monotonic ms; `undefined`: no call did. */
  validAt: number | undefined;
  /** Whether a renewal would probably extend the token's life. */
  renewable: boolean;
  /** Time from the login or the last renewal to the token's end, ms. */
  lifeMs: number;
  /** When the token expires, monotonic ms; `Infinity`: never. */
  expiresAt: number;
  /** The longest life that the login or a renewal gave the token so far, ms. */
  #fullMs: number;

  /** @param now monotonic ms from before the login or lookup, so that the token's end is never assumed too late */
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

  /** Records Vault's answer to a renewal. @param now monotonic ms from before the call */
  renewed(ttlSeconds: number, renewable: boolean, now: number): void {
    this.lifeMs = ttlSeconds > 0 ? ttlSeconds * 1_000 : Infinity;
    this.expiresAt = now + this.lifeMs;
    this.renewable = renewable && this.lifeMs >= this.#fullMs * CAPPED_BELOW;
    this.#fullMs = Math.max(this.#fullMs, this.lifeMs);
    this.validAt = now;
  }

  /** Records Vault's answer to `lookup-self`. @param ttlSeconds 0: the known end of the token stays */
  observed(ttlSeconds: number, now: number): void {
    if (ttlSeconds > 0) this.expiresAt = now + ttlSeconds * 1_000;
    this.lookupSelf = 'works';
    this.validAt = now;
  }
}

const REVOKE_LIMIT_MS = 2_000;

/** Revokes a token from a login, except a batch token. Never rejects: a token that cannot be revoked expires. */
export async function revokeToken(
  { client, namespace, clock }: SessionContext,
  token: SessionToken,
  emit: (event: TokenEvent) => void,
): Promise<void> {
  if (!token.revocable || token.expiresAt <= clock.monotonic()) return;
  const call = { method: 'POST', path: 'auth/token/revoke-self', token: token.token, namespace } as const;
  try {
    await client.request({ ...call, timeoutMs: REVOKE_LIMIT_MS });
    emit({ type: 'revoked' });
  } catch (error) {
    if (isVaultError(error)) emit({ type: 'revokeFailed', error });
  }
}

interface SessionOf {
  readonly addr: string;
  /** The identity's name, for example `auth/approle`; see `identityLabel`. */
  readonly identity: string;
}

/** What happened to a token. */
export type TokenEvent =
  | { readonly type: 'login' | 'renewed' | 'revoked' }
  | { readonly type: 'loginFailed'; readonly error: VaultError; readonly retryAfterMs: number }
  | { readonly type: 'renewFailed' | 'revokeFailed'; readonly error: VaultError }
  /** Vault does not accept the token any more. */
  | { readonly type: 'tokenLost' }
  /** A configured token cannot be renewed (any more). `expiresAt`: ms since 1970. */
  | { readonly type: 'expiring'; readonly expiresAt: number };

/** An event of a session's tokens, for logs and metrics. The event does not contain the token. */
export type SessionEvent = SessionOf & TokenEvent;

export type SessionObserver = (event: SessionEvent) => void;
