/**
 * Tells a dead token from a policy that forbids: Vault answers 403 to both.
 *
 * One `lookup-self` for all who wonder at the same time; a token seen alive within the last second is not asked about again. If it is
 * refused, the token is dead, or its policies do not let it look at itself (it has not the policy `default`). Where this
 * token could do it before, it is dead for sure. Else that is a guess: a login is tried, and its token shows whether the guess was
 * right. As long as guesses are right there is no limit to them; a wrong one is not repeated for a while.
 */
import { KeyedBackoff } from '../../runtime/backoff.ts';
import { SingleFlight } from '../../runtime/single-flight.ts';
import { isVaultError } from '../errors.ts';
import { numberMember } from '../json.ts';
import type { LoginContext } from './login.ts';
import type { SessionToken } from './token.ts';

const ALIVE_FOR_MS = 1_000;
/** How long after a wrong guess no other is made, ms: each costs a login, and the leases of the token. */
const WRONG_GUESS = { baseMs: 60_000, maxMs: 960_000 };
const KEY = 'guess';

export type TokenVerdict = 'alive' | 'dead' | 'guessedDead';

export class TokenCheck {
  readonly #context: LoginContext;
  /** The token was given, so that taking it for dead brings no other. */
  readonly #given: boolean;
  readonly #lookups = new SingleFlight<TokenVerdict>();
  readonly #wrong = new KeyedBackoff(WRONG_GUESS);
  /** Monotonic ms. */
  #noGuessBefore = -Infinity;

  constructor(context: LoginContext, given: boolean) {
    this.#context = context;
    this.#given = given;
  }

  /** After a 403 of `token`. @throws AbortedError */
  async verdict(token: SessionToken, signal: AbortSignal | undefined): Promise<TokenVerdict> {
    const { aliveAt, lookupSelf, limitedUses } = token;
    // The use that was seen may have been its last.
    const seen = lookupSelf !== 'forbidden' && !limitedUses && aliveAt !== undefined;
    if (seen && this.#context.clock.monotonic() < aliveAt + ALIVE_FOR_MS) return 'alive';
    return await this.#lookups.run(token.id, () => this.#lookUp(token), signal);
  }

  /** A guess gave a fresh token, and with it the call that was refused was answered. */
  wasRight(): void {
    this.#wrong.reset(KEY);
  }

  /**
   * A guess gave the fresh token `token`, and Vault refuses the call all the same. The guess was wrong if this token, which is alive,
   * may not look at itself. @throws AbortedError
   */
  async reconsider(token: SessionToken, signal: AbortSignal | undefined): Promise<void> {
    if (token.lookupSelf !== 'unknown') return;
    const verdict = await this.#lookups.run(`fresh ${token.id}`, () => this.#lookUp(token), signal);
    if (verdict === 'guessedDead') this.#noGuessBefore = this.#context.clock.monotonic() + this.#wrong.next(KEY);
  }

  async #lookUp(token: SessionToken): Promise<TokenVerdict> {
    const { client, namespace, timeoutMs, clock } = this.#context;
    const now = clock.monotonic();
    const call = { method: 'GET', path: 'auth/token/lookup-self', token: token.token, namespace, timeoutMs } as const;
    try {
      const { data } = await client.request(call);
      token.observed(numberMember(data, 'ttl') ?? 0, now);
      return 'alive';
    } catch (error) {
      // Any other answer says nothing about the token; the 403 that made us ask goes to the caller.
      if (!isVaultError(error, 'permissionDenied')) return 'alive';
    }
    if (token.lookupSelf === 'works') return 'dead';
    token.lookupSelf = 'forbidden';
    if (this.#given) return token.aliveAt === undefined ? 'dead' : 'alive';
    return now < this.#noGuessBefore ? 'alive' : 'guessedDead';
  }
}
