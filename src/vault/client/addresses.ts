/**
 * Decides which Vault servers may be called. The author of a SecretMirror names the server that gets credentials and values.
 *
 * - `--vault-addresses` names servers by patterns; where it is given, no other is called.
 * - Link-local addresses and the metadata services of clouds hand out the machine's identity. They are called only where a pattern
 *   without `*` names the host. That holds for an address in each of its forms, and for the addresses that a name resolves to
 *   at the moment of connecting.
 * - Loopback is like any other server: a Vault Agent may listen there.
 */
import { lookup, type LookupAddress } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';

import { hostAndPort } from '../../http/exchange.ts';
import type { AddressPattern } from '../../runtime/text/address-patterns.ts';

/** A name that resolves only to addresses which may not be called. */
export class ForbiddenAddressError extends Error {
  override readonly name = 'ForbiddenAddressError';
}

/** BlockList finds IPv4 addresses that are mapped into IPv6 (`::ffff:…`); the other forms are listed here. */
const FORBIDDEN = new BlockList();
FORBIDDEN.addSubnet('169.254.0.0', 16, 'ipv4');
FORBIDDEN.addSubnet('fe80::', 10, 'ipv6');
// ::169.254.0.0, NAT64 and 6to4.
FORBIDDEN.addSubnet('::a9fe:0', 112, 'ipv6');
FORBIDDEN.addSubnet('64:ff9b::a9fe:0', 112, 'ipv6');
FORBIDDEN.addSubnet('2002:a9fe::', 32, 'ipv6');
// AWS, Google, Alibaba, Oracle, Azure.
FORBIDDEN.addAddress('fd00:ec2::254', 'ipv6');
FORBIDDEN.addAddress('fd20:ce::254', 'ipv6');
FORBIDDEN.addAddress('100.100.100.200', 'ipv4');
FORBIDDEN.addAddress('192.0.0.192', 'ipv4');
FORBIDDEN.addAddress('168.63.129.16', 'ipv4');

export class VaultAddresses {
  readonly #patterns: readonly AddressPattern[];

  /** @param patterns none: every server may be called that is not forbidden */
  constructor(patterns: readonly AddressPattern[] = []) {
    this.#patterns = patterns;
  }

  /** Whether a pattern names the server: only then it may get tokens that the API server accepts. */
  isNamed(url: URL): boolean {
    return this.#patterns.some((pattern) => pattern.matches(url));
  }

  /** As `isNamed`, for the address as a user wrote it. */
  isNamedAddress(addr: string): boolean {
    const url = URL.parse(addr.trim());
    return url !== null && this.isNamed(url);
  }

  /** Why the server may not be called; does not resolve names. */
  problem(url: URL): string | undefined {
    if (this.#patterns.length > 0 && !this.isNamed(url)) {
      return `${url.origin} is not in --vault-addresses`;
    }
    return isForbidden(hostAndPort(url).host) && !this.#isNamedExactly(url) ? forbidden(url.hostname) : undefined;
  }

  /** Resolves the server's name to the addresses that may be called, for its connections. */
  lookupFor(url: URL): LookupFunction {
    if (this.#isNamedExactly(url)) return lookup;
    return (hostname, options, done) => {
      lookup(hostname, { ...options, all: true }, (error, found: readonly LookupAddress[]) => {
        const allowed = error === null ? found.filter(({ address }) => !isForbidden(address)) : [];
        const [first] = allowed;
        if (error !== null) done(error, []);
        else if (first === undefined) {
          const to = found.map(({ address }) => address).join(', ');
          done(new ForbiddenAddressError(`${hostname} resolves to ${forbidden(to)}`), []);
        } else if (options.all === true) done(null, allowed);
        else done(null, first.address, first.family);
      });
    };
  }

  #isNamedExactly(url: URL): boolean {
    return this.#patterns.some((pattern) => pattern.isLiteral && pattern.matches(url));
  }
}

function isForbidden(address: string): boolean {
  const family = isIP(address);
  return family !== 0 && FORBIDDEN.check(address, family === 4 ? 'ipv4' : 'ipv6');
}

function forbidden(address: string): string {
  return `${address}, a link-local or metadata address, which is called only if --vault-addresses names the host`;
}
