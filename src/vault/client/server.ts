/** Checks the address and the TLS settings of a Vault server, and decides which servers may be called. */
import { createHash, X509Certificate } from 'node:crypto';
import { lookup, type LookupAddress } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { hostAndPort } from '../../http/exchange.ts';
import { VaultError } from '../errors.ts';
import type { AddressPattern } from '../../runtime/text/address-patterns.ts';

export interface VaultServerOptions {
  /** For example `https://vault.example:8200`, or with a path if a proxy serves Vault below that path. */
  readonly addr: string;
  /** Vault Enterprise's and OpenBao's namespace, sent as `X-Vault-Namespace`. */
  readonly namespace?: string | undefined;
  /** PEM certificates of the CAs to trust, instead of the CAs of the machine. */
  readonly caBundle?: string | undefined;
  /** The name for SNI and the check of the certificate, if it differs from the host in the address. */
  readonly tlsServerName?: string | undefined;
  readonly insecureSkipVerify?: boolean | undefined;
}

export interface VaultServer {
  /** The address as the user wrote it. */
  readonly addr: string;
  readonly url: URL;
  /** Scheme, host and port: the name of this Vault in messages and metrics. */
  readonly origin: string;
  readonly namespace: string | undefined;
  readonly caBundle: string | undefined;
  readonly tlsServerName: string | undefined;
  readonly insecureSkipVerify: boolean;
  /** Equal for the same server with the same TLS settings. Sessions with the same key share a client. */
  readonly connectionKey: string;
}

/** A setting of the server is not usable. */
export class VaultServerError extends VaultError {
  readonly field: 'addr' | 'namespace' | 'caBundle';
  /** The message without the name of the field. */
  readonly problem: string;

  constructor(field: VaultServerError['field'], problem: string, addr: string) {
    super(`${field} ${problem}`, { kind: 'invalidServer', addr });
    this.field = field;
    this.problem = problem;
  }
}

/** @throws VaultServerError with the name of the field, and with its value if that cannot contain a credential */
export function parseServer(options: VaultServerOptions): VaultServer {
  const { addr } = options;
  const url = parseAddress(addr);
  const namespace = trimSlashes(options.namespace);
  const caBundle = emptyToUndefined(options.caBundle);
  const tlsServerName = emptyToUndefined(options.tlsServerName);
  const insecureSkipVerify = options.insecureSkipVerify ?? false;
  // oxlint-disable-next-line no-control-regex
  if (namespace !== undefined && /[^\u0021-\u007E]/.test(namespace)) {
    const problem = `${JSON.stringify(namespace)} has a character that is not allowed in a header`;
    throw new VaultServerError('namespace', problem, url.origin);
  }
  if (caBundle !== undefined) checkBundle(url.origin, caBundle);
  const tls = [url.href, caBundle ?? '', tlsServerName ?? '', String(insecureSkipVerify)];
  const connectionKey = createHash('sha256').update(JSON.stringify(tls)).digest('hex');
  return { addr, url, origin: url.origin, namespace, caBundle, tlsServerName, insecureSkipVerify, connectionKey };
}

function parseAddress(addr: string): URL {
  const url = URL.parse(addr.trim());
  if (url === null || !['http:', 'https:'].includes(url.protocol)) {
    const shown = withoutUserInfo(addr);
    throw new VaultServerError('addr', `must be a URL that begins with http:// or https://, not ${shown}`, shown);
  }
  if (url.username !== '' || url.password !== '') {
    throw new VaultServerError('addr', 'must not hold a user name or password', url.origin);
  }
  if (url.search !== '' || url.hash !== '') {
    throw new VaultServerError('addr', 'must have no query and no fragment', url.origin);
  }
  // Some users write the address of the API, which ends in `/v1`.
  url.pathname = url.pathname.replace(/\/+$/, '').replace(/\/v1$/, '');
  return url;
}

function checkBundle(origin: string, pem: string): void {
  const certificates = pem.match(/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g) ?? [];
  if (certificates.length === 0) throw new VaultServerError('caBundle', 'holds no PEM certificate', origin);
  for (const [index, certificate] of certificates.entries()) {
    if (isCertificate(certificate)) continue;
    throw new VaultServerError('caBundle', `holds a certificate that cannot be read: number ${index + 1}`, origin);
  }
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).subject !== undefined;
  } catch {
    // The caller's error names the certificate by its number. OpenSSL's message is about bytes and helps no user.
    return false;
  }
}

/** Quotes a malformed address without `user:password@`, with which it may begin. */
function withoutUserInfo(addr: string): string {
  return JSON.stringify(addr.slice(addr.lastIndexOf('@') + 1).slice(0, 200));
}

function emptyToUndefined(text: string | undefined): string | undefined {
  return text === undefined || text.trim() === '' ? undefined : text;
}

function trimSlashes(text: string | undefined): string | undefined {
  return emptyToUndefined(text?.trim().replace(/^\/+|\/+$/g, ''));
}

/** A host name resolves only to addresses that must not be called. */
class ForbiddenAddressError extends Error {
  override readonly name = 'ForbiddenAddressError';
}

/** Addresses of services that give a machine its credentials. `BlockList` also finds their IPv6 forms `::ffff:…`. */
const FORBIDDEN = new BlockList();
FORBIDDEN.addSubnet('169.254.0.0', 16, 'ipv4');
FORBIDDEN.addSubnet('fe80::', 10, 'ipv6');
// The other IPv6 forms of 169.254.0.0/16: `::169.254.0.0`, NAT64 and 6to4.
FORBIDDEN.addSubnet('::a9fe:0', 112, 'ipv6');
FORBIDDEN.addSubnet('64:ff9b::a9fe:0', 112, 'ipv6');
FORBIDDEN.addSubnet('2002:a9fe::', 32, 'ipv6');
// Metadata services of AWS, Google, Alibaba, Oracle, Azure.
FORBIDDEN.addAddress('fd00:ec2::254', 'ipv6');
FORBIDDEN.addAddress('fd20:ce::254', 'ipv6');
FORBIDDEN.addAddress('100.100.100.200', 'ipv4');
FORBIDDEN.addAddress('192.0.0.192', 'ipv4');
FORBIDDEN.addAddress('168.63.129.16', 'ipv4');

/**
 * Decides which Vault servers may be called. The limit is needed because the author of a SecretMirror chooses the
 * server that gets credentials and values.
 * - `--vault-addresses` names servers by patterns. If it is set, no other server is called.
 * - Link-local addresses and the metadata services of clouds give the machine its credentials. They are called only if
 *   a pattern without `*` names the host. The check covers all notations of an address, and, when a connection is
 *   opened, each address to which the host name resolves.
 * - Loopback is like any other server: a Vault Agent may listen there.
 */
export class VaultAddresses {
  readonly #patterns: readonly AddressPattern[];

  /** @param patterns if empty, every server may be called except link-local and metadata addresses */
  constructor(patterns: readonly AddressPattern[] = []) {
    this.#patterns = patterns;
  }

  /** Whether a pattern matches the server. Only such a server may get tokens that the Kubernetes API server accepts. */
  isNamed(url: URL): boolean {
    return this.#patterns.some((pattern) => pattern.matches(url));
  }

  /** As `isNamed`, for an address as a user wrote it. `false` if the address is malformed. */
  isNamedAddress(addr: string): boolean {
    const url = URL.parse(addr.trim());
    return url !== null && this.isNamed(url);
  }

  /** Why the server must not be called; `undefined`: it may be called. Does not resolve host names. */
  problem(url: URL): string | undefined {
    if (this.#patterns.length > 0 && !this.isNamed(url)) {
      return `${url.origin} is not in --vault-addresses`;
    }
    return isForbidden(hostAndPort(url).host) && !this.#isNamedExactly(url) ? forbidden(url.hostname) : undefined;
  }

  /** Returns the DNS lookup for connections to the server. It finds only addresses that may be called. */
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
