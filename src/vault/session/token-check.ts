/**
 * Decides after a 403 whether the token is invalid (expired or revoked) or a policy forbids the call.
 *
 * Calls that fail at the same time share one `lookup-self`. A token that was valid within the last second is not looked
 * up again. A refused `lookup-self` has one of two causes: the token is invalid, or no policy allows it `lookup-self`
 * (the policy `default` does). If `lookup-self` worked with the token before, the token is invalid. Otherwise the
 * session logs in and repeats the call with the new token. If the call then works, the old token was invalid. If Vault
 * refuses the call again, no such login follows for ten minutes.
 */
import { SingleFlight } from '../../runtime/queue/single-flight.ts';
import { isVaultError } from '../errors.ts';
import { numberMember } from '../json.ts';
import { isConfigured, type SessionContext, type SessionToken } from './token.ts';

const VALID_FOR_MS = 1_000;
/** Wait after a login whose token got a 403 for the same call, ms. Each login gives up the old token and its leases. */
const NOT_HELPFUL_MS = 600_000;

export class TokenCheck {
  readonly #context: SessionContext;
  readonly #lookups = new SingleFlight<boolean>();
  /** Before this time (monotonic ms) no login is tried to find out whether a token is invalid. */
  #noTrialBefore = -Infinity;

  constructor(context: SessionContext) {
    this.#context = context;
  }

  /** Whether the token is still valid after Vault answered a call with 403. @throws AbortedError */
  async isValid(token: SessionToken, signal: AbortSignal | undefined): Promise<boolean> {
    const { validAt, lookupSelf, limitedUses } = token;
    // If Vault limits the number of calls with the token, the last answered call may have been the last allowed call.
    const seen = lookupSelf !== 'forbidden' && !limitedUses && validAt !== undefined;
    if (seen && this.#context.clock.monotonic() < validAt + VALID_FOR_MS) return true;
    return await this.#lookups.run(token.id, () => this.#lookUp(token), signal);
  }

  /** Called when Vault has refused a call again with the token of a new login. */
  notHelpful(): void {
    this.#noTrialBefore = this.#context.clock.monotonic() + NOT_HELPFUL_MS;
  }

  async #lookUp(token: SessionToken): Promise<boolean> {
    const { client, namespace, clock } = this.#context;
    const now = clock.monotonic();
    const call = { method: 'GET', path: 'auth/token/lookup-self', token: token.token, namespace } as const;
    try {
      const { data } = await client.request(call);
      token.observed(numberMember(data, 'ttl') ?? 0, now);
      return true;
    } catch (error) {
      // Any other failure does not show whether the token is valid. The token stays, and the caller gets the first 403.
      if (!isVaultError(error, 'permissionDenied')) return true;
    }
    if (token.lookupSelf === 'works') return false;
    token.lookupSelf = 'forbidden';
    return isConfigured(this.#context) ? token.validAt !== undefined : now < this.#noTrialBefore;
  }
}
