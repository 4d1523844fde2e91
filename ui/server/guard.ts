/** Which requests the server answers at all, and the headers of every answer. Pure. */
import type { IncomingHttpHeaders } from 'node:http';

/** The page runs no code but its own, loads nothing from elsewhere, and makes no HTML from text. */
const POLICY = [
  "default-src 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

export const HEADERS = {
  'content-security-policy': `${POLICY}; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; frame-ancestors 'none'`,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
} as const;

/** The policy of a page in a file: it has its script and style inside. @param hashes as in `'sha256-…'` */
export function filePolicy(hashes: { readonly script: string; readonly style: string }): string {
  return `${POLICY}; script-src '${hashes.script}'; style-src '${hashes.style}'`;
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
