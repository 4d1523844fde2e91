/**
 * One token of a session: how long it lives, who uses it, and which leases die with it.
 */
import type { SecretBytes } from '../../runtime/secret-bytes.ts';

export interface TokenFacts {
  readonly token: SecretBytes;
  /** The accessor; for a token without one (batch) a name of our own. */
  readonly id: string;
  readonly policies: readonly string[];
  /** 0 or less: does not expire. */
  readonly ttlSeconds: number;
  readonly renewable: boolean;
  /** Vault lets it be revoked, and it is ours: the outcome of a login, and not a batch token. */
  readonly revocable: boolean;
  /** Vault ends it after a number of calls. */
  readonly limitedUses: boolean;
}

/** Whether the token may ask Vault about itself; a token without the policy `default` may not. */
export type LookupSelf = 'unknown' | 'works' | 'forbidden';

/** A renewal that gives less than this share of the first life was cut by `max_ttl`. */
const CAPPED_BELOW = 0.75;

export class SessionToken {
  readonly token: SecretBytes;
  readonly id: string;
  readonly policies: readonly string[];
  readonly revocable: boolean;
  readonly limitedUses: boolean;
  readonly leases = new Set<string>();
  inFlight = 0;
  lookupSelf: LookupSelf = 'unknown';
  /** Monotonic ms of the last proof that it is alive. */
  aliveAt: number | undefined;
  #renewable: boolean;
  #fullMs: number;
  #lifeMs: number;
  #expiresAt: number;

  /** @param now monotonic ms, taken before Vault was asked, so that we never think it lives longer than it does */
  constructor(facts: TokenFacts, now: number) {
    this.token = facts.token;
    this.id = facts.id;
    this.policies = facts.policies;
    this.revocable = facts.revocable;
    this.limitedUses = facts.limitedUses;
    this.#renewable = facts.renewable;
    this.#lifeMs = facts.ttlSeconds > 0 ? facts.ttlSeconds * 1_000 : Infinity;
    this.#fullMs = this.#lifeMs;
    this.#expiresAt = now + this.#lifeMs;
  }

  /** Monotonic ms; `Infinity`: never. */
  get expiresAt(): number {
    return this.#expiresAt;
  }

  /** Whether a renewal would make it live longer, as far as we know. */
  get renewable(): boolean {
    return this.#renewable;
  }

  /** Of its present life, ms. */
  get lifeMs(): number {
    return this.#lifeMs;
  }

  /** Vault renewed it. */
  renewed(ttlSeconds: number, renewable: boolean, now: number): void {
    this.#lifeMs = ttlSeconds > 0 ? ttlSeconds * 1_000 : Infinity;
    this.#expiresAt = now + this.#lifeMs;
    this.#renewable = renewable && this.#lifeMs >= this.#fullMs * CAPPED_BELOW;
    this.#fullMs = Math.max(this.#fullMs, this.#lifeMs);
    this.aliveAt = now;
  }

  /** What `lookup-self` says about the rest of its life. */
  observed(ttlSeconds: number, now: number): void {
    if (ttlSeconds > 0) this.#expiresAt = now + ttlSeconds * 1_000;
    this.lookupSelf = 'works';
    this.aliveAt = now;
  }

  notRenewable(): void {
    this.#renewable = false;
  }
}
