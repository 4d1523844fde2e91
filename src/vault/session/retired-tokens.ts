/**
 * Tokens of a session that were replaced but may not be revoked yet: a call is under way with them, or a lease hangs on
 * them, which Vault would revoke too. One that is done is revoked at once; the others end with their time.
 */
import { isVaultError } from '../errors.ts';
import type { LoginContext } from './login.ts';
import type { DistributiveOmit, SessionEvent } from './session-events.ts';
import type { SessionToken } from './token.ts';

const REVOKE_LIMIT_MS = 2_000;
/** How many ended tokens are remembered, for leases that name one of them. */
const REMEMBERED = 100;

export class RetiredTokens {
  readonly #context: LoginContext;
  readonly #emit: (event: DistributiveOmit<SessionEvent, 'addr' | 'identity'>) => void;
  readonly #tokens = new Set<SessionToken>();
  readonly #ended = new Set<string>();

  constructor(context: LoginContext, emit: (event: DistributiveOmit<SessionEvent, 'addr' | 'identity'>) => void) {
    this.#context = context;
    this.#emit = emit;
  }

  get all(): readonly SessionToken[] {
    this.#sweep();
    return [...this.#tokens];
  }

  /** A token that is known to be dead, with all its leases. */
  hasEnded(tokenId: string): boolean {
    this.#sweep();
    return this.#ended.has(tokenId);
  }

  add(token: SessionToken): void {
    this.#tokens.add(token);
    this.revokeIfDone(token);
  }

  /** The token is dead already. */
  ended(token: SessionToken): void {
    this.#tokens.delete(token);
    this.#ended.add(token.id);
    const [oldest] = this.#ended;
    if (this.#ended.size > REMEMBERED && oldest !== undefined) this.#ended.delete(oldest);
  }

  /** To be called whenever the token has one call or lease less. */
  revokeIfDone(token: SessionToken): void {
    if (token.inFlight > 0 || token.leases.size > 0 || !this.#tokens.delete(token)) return;
    void this.revoke(token);
  }

  /** Never rejects: a token that cannot be revoked expires. A given token, or a batch token, is left alone. */
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
