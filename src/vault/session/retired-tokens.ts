/**
 * Tokens of a session that were replaced but may not be revoked yet, because of a running call or of leases, which Vault would
 * revoke too. A token without either is revoked at once; the others expire.
 */
import { isVaultError } from '../errors.ts';
import type { LoginContext } from './login.ts';
import type { EmitSessionEvent } from './session-events.ts';
import type { SessionToken } from './token.ts';

const REVOKE_LIMIT_MS = 2_000;
/** Number of ended tokens whose ids are kept, for leases that name one of them. */
const REMEMBERED = 100;

export class RetiredTokens {
  readonly #context: LoginContext;
  readonly #emit: EmitSessionEvent;
  readonly #tokens = new Set<SessionToken>();
  readonly #ended = new Set<string>();

  constructor(context: LoginContext, emit: EmitSessionEvent) {
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

  /** The token is invalid. */
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
