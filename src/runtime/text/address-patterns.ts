/**
 * Patterns that name servers, as `[scheme://]host[:port]`: `https://vault.example:8200`, `vault.example`,
 * `*.vault.svc`. Without a scheme, http and https match; without a port, all ports. `*` in a host or as a port stands
 * for any characters of this part, dots included.
 */

const PATTERN = /^(?:(https?):\/\/)?(\[[0-9a-f:.]+\]|[-\w.*]+)(?::(\d{1,5}|\*))?\/?$/i;

export interface AddressPattern {
  readonly matches: (url: URL) => boolean;
  /** Whether the host has no `*`. */
  readonly isLiteral: boolean;
}

/** @throws RangeError that describes the format */
export function parseAddressPattern(text: string): AddressPattern {
  const [, scheme, host = '', port = '*'] = PATTERN.exec(text) ?? [];
  if (host === '')
    throw new RangeError('must be a server as [scheme://]host[:port], with * for any characters of the host');
  const isLiteral = !host.includes('*');
  const wanted = isLiteral ? hostOf(`http://${host}`) : host.toLowerCase();
  if (wanted === undefined) throw new RangeError(`${JSON.stringify(host)} is not a host`);
  const pattern = new RegExp(`^${wanted.split(/\*+/).map(escaped).join('.*')}$`);
  const matches = (url: URL): boolean =>
    (scheme === undefined || url.protocol === `${scheme.toLowerCase()}:`) &&
    (port === '*' || Number(port) === portOf(url)) &&
    pattern.test(withoutDot(url.hostname));
  return { matches, isLiteral };
}

/** The host as URLs write it: IPv4 as four numbers, IPv6 shortened; `undefined`: the text is no URL with a host. */
function hostOf(text: string): string | undefined {
  const url = URL.parse(text);
  return url === null || url.hostname === '' ? undefined : withoutDot(url.hostname);
}

/** `vault.example.` is the same name as `vault.example`. */
function withoutDot(host: string): string {
  return host.endsWith('.') ? host.slice(0, -1) : host;
}

function portOf({ port, protocol }: URL): number {
  if (port !== '') return Number(port);
  return protocol === 'https:' ? 443 : 80;
}

function escaped(text: string): string {
  return text.replace(/[\\^$.+?()[\]{}|]/g, String.raw`\$&`);
}
