/**
 * The environment variables of Vault's own client, which Deployments of the originals set. Names and meaning are those
 * of github.com/hashicorp/vault/api v1.9 (Vault 1.13). The fields of a `vault` block win over them.
 */
import { X509Certificate } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { createSecureContext } from 'node:tls';

import { parseBool } from '../runtime/text/go-bool.ts';
import { SecretBytes } from '../runtime/secret-bytes.ts';
import type { ProcessInfo } from './flags/flags.ts';
import { quoted, UsageError } from './usage-error.ts';
import { parseCount, parseDuration } from './flags/values.ts';

/** The values of the variables; `undefined`: not set. */
export type VaultEnvironment = Readonly<ReturnType<typeof vaultEnvironment>>;

/** Both are PEM. */
interface VaultClientCertificate {
  readonly certificate: string;
  readonly key: SecretBytes;
}

/** Reads the variables and the files that they name. @throws UsageError, with the variable */
export function vaultEnvironment(env: ProcessInfo['env']) {
  const { HOME: home } = env;
  return {
    address: env['VAULT_ADDR'] || undefined,
    token: read(env, 'VAULT_TOKEN', (text) => SecretBytes.fromUtf8(text)),
    /** The file into which `vault login` writes a token. */
    tokenFile: home ? path.join(home, '.vault-token') : undefined,
    /** CA certificates, PEM. */
    caBundle: caBundle(env),
    insecureSkipVerify: read(env, 'VAULT_SKIP_VERIFY', parseBool) ?? false,
    tlsServerName: env['VAULT_TLS_SERVER_NAME'] || undefined,
    namespace: read(env, 'VAULT_NAMESPACE', parseNamespace),
    client: clientCertificate(env),
    /** URL of an HTTP proxy. As in Vault's client, VAULT_PROXY_ADDR wins. */
    proxy: read(env, 'VAULT_PROXY_ADDR', parseProxy) ?? read(env, 'VAULT_HTTP_PROXY', parseProxy),
    timeoutMs: read(env, 'VAULT_CLIENT_TIMEOUT', parseTimeout),
  };
}

function read<T>(env: ProcessInfo['env'], name: string, parse: (text: string) => T): T | undefined {
  const text = env[name] || undefined;
  if (text === undefined) return undefined;
  try {
    return parse(text);
  } catch (error) {
    const problem = error instanceof Error ? error.message : 'unknown';
    // The error does not show a token or the URL of a proxy, which may contain a password.
    const value = /PROXY|TOKEN/.test(name) ? '' : ` ${quoted(text)}`;
    throw new UsageError(`$${name}: bad value${value}: ${problem}`, { cause: error });
  }
}

function caBundle(env: ProcessInfo['env']): string | undefined {
  return (
    read(env, 'VAULT_CACERT', (file) => certificates(readFileSync(file, 'utf8'))) ??
    read(env, 'VAULT_CACERT_BYTES', certificates) ??
    read(env, 'VAULT_CAPATH', (folder) => {
      const files = readdirSync(folder)
        .map((name) => path.join(folder, name))
        .filter((file) => statSync(file).isFile());
      return certificates(files.map((file) => readFileSync(file, 'utf8')).join('\n'));
    })
  );
}

function certificates(text: string): string {
  const found = text.match(/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g) ?? [];
  if (found.length === 0) throw new RangeError('contains no PEM certificate');
  for (const certificate of found)
    if (new X509Certificate(certificate).subject === undefined)
      throw new RangeError('contains a certificate without a subject');
  return `${found.join('\n')}\n`;
}

function clientCertificate(env: ProcessInfo['env']): VaultClientCertificate | undefined {
  const certificate = read(env, 'VAULT_CLIENT_CERT', (file) => readFileSync(file, 'utf8'));
  const key = read(env, 'VAULT_CLIENT_KEY', (file) => SecretBytes.fromBytes(readFileSync(file)));
  if (certificate === undefined && key === undefined) return undefined;
  if (certificate === undefined || key === undefined) {
    throw new UsageError('$VAULT_CLIENT_CERT and $VAULT_CLIENT_KEY must be set together');
  }
  try {
    createSecureContext({ cert: certificate, key: key.utf8() });
  } catch (cause) {
    throw new UsageError('$VAULT_CLIENT_CERT and $VAULT_CLIENT_KEY: not a PEM certificate and its key', { cause });
  }
  return { certificate, key };
}

function parseNamespace(text: string): string {
  if (/[^\u0021-\u007E]/.test(text)) throw new RangeError('contains a character that is not allowed in an HTTP header');
  return text;
}

function parseProxy(text: string): string {
  const url = URL.parse(text);
  if (url === null || !['http:', 'https:'].includes(url.protocol)) throw new RangeError('must be an http or https URL');
  return text;
}

/** Parses seconds, or a duration with a unit, to ms. */
function parseTimeout(text: string): number {
  const ms = /^\d+$/.test(text) ? parseCount(text, 0, 1_000_000) * 1000 : parseDuration(text);
  if (ms < 0) throw new RangeError('must not be negative');
  if (ms > 0 && ms < 1) throw new RangeError('must be at least 1ms');
  return ms;
}

export const NO_VAULT_ENVIRONMENT = vaultEnvironment({});
