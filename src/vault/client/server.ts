/** Address and TLS settings of a Vault server, validated once. */
import { createHash, X509Certificate } from 'node:crypto';

import { VaultError } from '../errors.ts';

export interface VaultServerOptions {
  /** `https://vault.example:8200`, with a path where a proxy needs one. */
  readonly addr: string;
  /** Vault Enterprise's and OpenBao's namespace, sent as `X-Vault-Namespace`. */
  readonly namespace?: string | undefined;
  /** PEM; replaces the machine's roots. */
  readonly caBundle?: string | undefined;
  /** Server name for SNI and the certificate, where it is not the address's host. */
  readonly tlsServerName?: string | undefined;
  readonly insecureSkipVerify?: boolean | undefined;
}

export interface VaultServer {
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

/** An option that is not usable. */
export class VaultServerError extends VaultError {
  readonly field: 'addr' | 'namespace' | 'caBundle';
  /** The message without the field. */
  readonly problem: string;

  constructor(field: VaultServerError['field'], problem: string, addr: string) {
    super(`${field} ${problem}`, { kind: 'invalidServer', addr });
    this.field = field;
    this.problem = problem;
  }
}

/** @throws VaultServerError naming the field and, where it cannot hold a credential, the value */
export function parseServer(options: VaultServerOptions): VaultServer {
  const url = parseAddress(options.addr);
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
  return { url, origin: url.origin, namespace, caBundle, tlsServerName, insecureSkipVerify, connectionKey };
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
  // Users copy the address of an API call.
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
    // The caller names the certificate; OpenSSL's message is about bytes.
    return false;
  }
}

/** A malformed address may still begin with `user:password@`. */
function withoutUserInfo(addr: string): string {
  return JSON.stringify(addr.slice(addr.lastIndexOf('@') + 1).slice(0, 200));
}

function emptyToUndefined(text: string | undefined): string | undefined {
  return text === undefined || text.trim() === '' ? undefined : text;
}

function trimSlashes(text: string | undefined): string | undefined {
  return emptyToUndefined(text?.trim().replace(/^\/+|\/+$/g, ''));
}
