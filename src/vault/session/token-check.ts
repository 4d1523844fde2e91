/**
 * Decides after a 403 whether the token is invalid (expired or revoked) or a policy forbids the call: Vault answers 403 to both.
 *
 * Calls that fail at the same time share one `lookup-self`, and a token that was proven valid within the last second is not looked
 * up again. If `lookup-self` is refused, the token is invalid, or its policies do not allow `lookup-self` (it lacks the policy
 * `default`). A token that could do it before is invalid. Else "invalid" is a guess: the session logs in, and the new token shows
 * whether the guess was right. Right guesses are not limited; after a wrong one there is no guess for a while.
 */
import { Backoff } from '../../runtime/queue/backoff.ts';
import { SingleFlight } from '../../runtime/queue/single-flight.ts';
import { isVaultError } from '../errors.ts';
import { numberMember } from '../json.ts';
import { isConfigured, type LoginContext } from './login.ts';
import type { SessionToken } from './token.ts';

const VALID_FOR_MS = 1_000;
/** Wait after a wrong guess, ms: each costs a login, and the leases of the token. */
const WRONG_GUESS = { baseMs: 60_000, maxMs: 960_000 };

export type TokenVerdict = 'valid' | 'invalid' | 'presumedInvalid';

export class TokenCheck {
  readonly #context: LoginContext;
  readonly #lookups = new SingleFlight<TokenVerdict>();
  readonly #wrong = new Backoff(WRONG_GUESS);
  /** Monotonic ms. */
  #noGuessBefore = -Infinity;

  constructor(context: LoginContext) {
    this.#context = context;
  }

  /** After a 403 of `token`. @throws AbortedError */
  async verdict(token: SessionToken, signal: AbortSignal | undefined): Promise<TokenVerdict> {
    const { validAt, lookupSelf, limitedUses } = token;
    // The use that was seen may have been the last one allowed.
    const seen = lookupSelf !== 'forbidden' && !limitedUses && validAt !== undefined;
    if (seen && this.#context.clock.monotonic() < validAt + VALID_FOR_MS) return 'valid';
    return await this.#lookups.run(token.id, () => this.#lookUp(token), signal);
  }

  /** The login after a guess gave a token with which the refused call was answered. */
  recordRightGuess(): void {
    this.#wrong.reset();
  }

  /**
   * Vault refuses the call with the fresh `token` as well. The guess was wrong if this token, which is valid, is not allowed to
   * look itself up either. @throws AbortedError
   */
  async checkGuess(token: SessionToken, signal: AbortSignal | undefined): Promise<void> {
    if (token.lookupSelf !== 'unknown') return;
    const verdict = await this.#lookups.run(`fresh ${token.id}`, () => this.#lookUp(token), signal);
    if (verdict === 'presumedInvalid') this.#noGuessBefore = this.#context.clock.monotonic() + this.#wrong.next();
  }

  async #lookUp(token: SessionToken): Promise<TokenVerdict> {
    const { client, namespace, clock } = this.#context;
    const now = clock.monotonic();
    const call = { method: 'GET', path: 'auth/token/lookup-self', token: token.token, namespace } as const;
    try {
      const { data } = await client.request(call);
      token.observed(numberMember(data, 'ttl') ?? 0, now);
      return 'valid';
    } catch (error) {
      // Any other answer does not show whether the token is valid. The caller gets the first 403.
      if (!isVaultError(error, 'permissionDenied')) return 'valid';
    }
    if (token.lookupSelf === 'works') return 'invalid';
    token.lookupSelf = 'forbidden';
    if (isConfigured(this.#context)) return token.validAt === undefined ? 'invalid' : 'valid';
    return now < this.#noGuessBefore ? 'valid' : 'presumedInvalid';
  }
}
