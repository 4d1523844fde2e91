/**
 * Who may read the page's data. A code in the address of the page works once and for a short time; it is exchanged for a
 * token, which the page keeps. So the command line of the browser, which other users may see, holds a used code.
 *
 * Code: new → used, or replaced by `newCode`, or outdated. A token is valid until the server ends.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

/** How long a code is valid, ms. */
const CODE_MS = 10 * 60_000;
const BYTES = 16;

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

export class Sessions {
  readonly #now: () => number;
  #code: { readonly digest: Buffer; readonly until: number } | undefined;
  readonly #tokens: Buffer[] = [];

  /** @param now wall clock, ms */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** A new code. The one before is no longer valid. */
  newCode(): string {
    const code = randomBytes(BYTES).toString('base64url');
    this.#code = { digest: digest(code), until: this.#now() + CODE_MS };
    return code;
  }

  /** Exchanges a code for a token; `undefined`: the code is wrong, used or too old. */
  redeem(code: string): string | undefined {
    const known = this.#code;
    if (known === undefined || this.#now() >= known.until || !timingSafeEqual(known.digest, digest(code)))
      return undefined;
    this.#code = undefined;
    const token = randomBytes(BYTES).toString('base64url');
    this.#tokens.push(digest(token));
    return token;
  }

  knows(token: string): boolean {
    const given = digest(token);
    return this.#tokens.some((known) => timingSafeEqual(known, given));
  }
}
