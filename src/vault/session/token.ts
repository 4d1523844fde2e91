/** One token of a session: its life, the calls that use it, and the leases that end with it. */
import type { SecretBytes } from '../../runtime/secret-bytes.ts';

export interface TokenFacts {
  readonly token: SecretBytes;
  /** The accessor; for a token without one (batch) a generated name. */
  readonly id: string;
  /** 0 or less: does not expire. */
  readonly ttlSeconds: number;
  readonly renewable: boolean;
  /** Keyferry revokes it after its last use: it comes from a login of Keyferry, and is no batch token. */
  readonly revocable: boolean;
  /** Vault ends it after a number of calls. */
  readonly limitedUses: boolean;
}

/** Whether the token may look itself up; a token without the policy `default` may not. */
export type LookupSelf = 'unknown' | 'works' | 'forbidden';

/** A renewal that gives less than this share of the first life was cut by `max_ttl`. */
const CAPPED_BELOW = 0.75;

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
  #renewable: boolean;
  #fullMs: number;
  #lifeMs: number;
  #expiresAt: number;

  /** @param now monotonic ms, from before the call, so that its end is never assumed too late */
  constructor(facts: TokenFacts, now: number) {
    this.token = facts.token;
    this.id = facts.id;
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

  /** Whether a renewal would extend its life, as far as is known. */
  get renewable(): boolean {
    return this.#renewable;
  }

  /** From the login or the last renewal to its end, ms. */
  get lifeMs(): number {
    return this.#lifeMs;
  }

  /** Vault renewed it. */
  renewed(ttlSeconds: number, renewable: boolean, now: number): void {
    this.#lifeMs = ttlSeconds > 0 ? ttlSeconds * 1_000 : Infinity;
    this.#expiresAt = now + this.#lifeMs;
    this.#renewable = renewable && this.#lifeMs >= this.#fullMs * CAPPED_BELOW;
    this.#fullMs = Math.max(this.#fullMs, this.#lifeMs);
    this.validAt = now;
  }

  /** `lookup-self` was answered. @param ttlSeconds 0: does not expire */
  observed(ttlSeconds: number, now: number): void {
    if (ttlSeconds > 0) this.#expiresAt = now + ttlSeconds * 1_000;
    this.lookupSelf = 'works';
    this.validAt = now;
  }

  notRenewable(): void {
    this.#renewable = false;
  }
}
