/**
 * Which requests the server answers, who gets the data, and the headers of every answer.
 *
 * A code in the address of the page works once and for a short time; it is exchanged for a token, which the page keeps. So
 * the command line of the browser, which other users may see, holds a used code.
 *
 * Code: new → used, or replaced by `newCode`, or outdated. The token is valid until the server ends.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/** The page runs no code but its own, loads nothing from elsewhere, and makes no HTML from text. */
const POLICY =
  "default-src 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

export const HEADERS = {
  'content-security-policy': `${POLICY}; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; frame-ancestors 'none'`,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
} as const;

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
const hashOf = (text: string): string => `'sha256-${digest(text).toString('base64')}'`;

/** The policy of a page in a file: it has its script and style inside. */
export function filePolicy(script: string, style: string): string {
  return `${POLICY}; script-src ${hashOf(script)}; style-src ${hashOf(style)}`;
}

/**
 * Why a request is refused; `undefined`: it is not. Other programs on this machine have other ports, and a page in the
 * browser may have a name that leads to 127.0.0.1, so `Host` and `Origin` are compared as a whole.
 */
export function refusalOf(headers: IncomingHttpHeaders, port: number): string | undefined {
  const hosts = [`127.0.0.1:${port}`, `localhost:${port}`, `[::1]:${port}`];
  const { host = '', origin, 'sec-fetch-site': site } = headers;
  if (!hosts.includes(host)) return 'unknown host';
  if (origin !== undefined && origin !== `http://${host}`) return 'another origin';
  // `same-site` is another port of this machine.
  if (site !== undefined && site !== 'same-origin' && site !== 'none') return 'from another site';
  return undefined;
}

/** How long a code is valid, ms. */
const CODE_MS = 10 * 60_000;

const random = (): string => randomBytes(16).toString('base64url');
const isSame = (a: string, b: string): boolean => timingSafeEqual(digest(a), digest(b));

export class Sessions {
  readonly #now: () => number;
  readonly #token = random();
  #code = '';
  #until = 0;

  /** @param now wall clock, ms */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** A new code. The one before is no longer valid. */
  newCode(): string {
    this.#until = this.#now() + CODE_MS;
    this.#code = random();
    return this.#code;
  }

  /** Exchanges a code for the token; `undefined`: the code is wrong, used or too old. */
  redeem(code: string): string | undefined {
    if (this.#now() >= this.#until || !isSame(code, this.#code)) return undefined;
    this.#until = 0;
    return this.#token;
  }

  knows(token: string): boolean {
    return isSame(token, this.#token);
  }
}
