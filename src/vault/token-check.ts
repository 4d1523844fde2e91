/**
 * Tells a dead token from a policy that forbids: Vault answers 403 to both.
 *
 * One `lookup-self` for all who wonder at the same time; a token seen alive within the last second is not asked about
 * again. A token without the policy `default` may not look at itself: for such ones a login is tried now and then.
 */
import { SingleFlight } from '../runtime/single-flight.ts';
import { isVaultError } from './errors.ts';
import { numberMember } from './json.ts';
import type { LoginContext } from './login.ts';
import type { SessionToken } from './token.ts';

const ALIVE_FOR_MS = 1_000;
/** How often a 403 is taken for a dead token where tokens may not look at themselves. */
const BLIND_GUESS_MS = 300_000;

export class TokenCheck {
  readonly #context: LoginContext;
  /** The token was given, so that taking it for dead brings no other. */
  readonly #given: boolean;
  readonly #lookups = new SingleFlight<boolean>();
  #guessedAt = -Infinity;

  constructor(context: LoginContext, given: boolean) {
    this.#context = context;
    this.#given = given;
  }

  /** After a 403 of `token`. @throws AbortedError */
  async isAlive(token: SessionToken, signal: AbortSignal | undefined): Promise<boolean> {
    const seenAt = token.lookupSelf === 'forbidden' ? undefined : token.aliveAt;
    if (seenAt !== undefined && this.#context.clock.monotonic() < seenAt + ALIVE_FOR_MS) return true;
    return await this.#lookups.run(token.id, () => this.#lookUp(token), signal);
  }

  async #lookUp(token: SessionToken): Promise<boolean> {
    const { client, namespace, timeoutMs, clock } = this.#context;
    const now = clock.monotonic();
    const call = { method: 'GET', path: 'auth/token/lookup-self', token: token.token, namespace, timeoutMs } as const;
    try {
      const { data } = await client.request(call);
      token.observed(numberMember(data, 'ttl') ?? 0, now);
      return true;
    } catch (error) {
      // Any other answer says nothing about the token; the 403 that made us ask goes to the caller.
      if (!isVaultError(error, 'permissionDenied')) return true;
    }
    if (token.lookupSelf === 'works') return false;
    token.lookupSelf = 'forbidden';
    if (this.#given) return token.aliveAt !== undefined;
    if (now - this.#guessedAt < BLIND_GUESS_MS) return true;
    this.#guessedAt = now;
    return false;
  }
}
