/**
 * Credentials composed of parts that may be renewed at run time.
 *
 * Invariant: while no part changes, `headers()` and `tls()` return the same objects, and without a promise if all parts are fresh.
 */
import type { AuthHeaders, CredentialSource, TlsMaterial } from '../connection.ts';
import { CredentialError } from '../errors.ts';
import { FileValue } from './file-value.ts';

/** The credentials of an exec plugin. */
export interface PluginCredential {
  readonly token?: string | undefined;
  /** PEM; both or none. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

/** Creates credentials on demand (exec-credential.ts). The same object means the same credentials. */
export interface CredentialPlugin {
  get(): PluginCredential | Promise<PluginCredential>;
  invalidate(): void;
}

export interface CredentialParts {
  /** Headers beside the token: basic auth, impersonation. */
  readonly headers?: AuthHeaders;
  readonly token?: string | undefined;
  /** Wins over `token`, as in kubectl. */
  readonly tokenFile?: FileValue | undefined;
  readonly plugin?: CredentialPlugin | undefined;
  readonly ca?: Buffer | FileValue | undefined;
  readonly cert?: Buffer | FileValue | undefined;
  readonly key?: Buffer | FileValue | undefined;
  readonly servername?: string | undefined;
  /** The server's certificate is not checked. */
  readonly insecure?: boolean;
}

type Content = Buffer | undefined;
type TlsParts = readonly [ca: Content, cert: Content, key: Content, given: PluginCredential];

const NO_PLUGIN: PluginCredential = {};

export class RenewingCredentials implements CredentialSource {
  readonly #parts: CredentialParts;
  #headers: AuthHeaders | undefined;
  #token: string | undefined;
  #tls: TlsMaterial | undefined;

  constructor(parts: CredentialParts) {
    this.#parts = parts;
  }

  headers(): AuthHeaders | Promise<AuthHeaders> {
    const { tokenFile, token, plugin } = this.#parts;
    if (tokenFile !== undefined) {
      return whenRead(tokenFile.get(), (content) => this.#headersWith(tokenOf(content, tokenFile.path)));
    }
    if (token !== undefined || plugin === undefined) return this.#headersWith(token);
    return whenRead(plugin.get(), (given) => this.#headersWith(given.token));
  }

  tls(): TlsMaterial | Promise<TlsMaterial> {
    const { ca, cert, key, plugin, token } = this.#parts;
    const given = plugin === undefined || token !== undefined ? NO_PLUGIN : plugin.get();
    const files = [contentOf(ca), contentOf(cert), contentOf(key)] as const;
    const parts = [...files, given] as const;
    const combine = ([ca, cert, key, given]: TlsParts): TlsMaterial =>
      this.#tlsWith(ca, given.cert ?? cert, given.key ?? key);
    const isPending = parts.some((part) => part instanceof Promise);
    return isPending ? Promise.all([...files, given]).then(combine) : combine(parts as TlsParts);
  }

  invalidate(): void {
    const { tokenFile, plugin, ca, cert, key } = this.#parts;
    tokenFile?.invalidate();
    plugin?.invalidate();
    for (const part of [ca, cert, key]) if (part instanceof FileValue) part.invalidate();
  }

  #headersWith(token: string | undefined): AuthHeaders {
    if (this.#headers === undefined || this.#token !== token) {
      this.#token = token;
      this.#headers =
        token === undefined ? { ...this.#parts.headers } : { ...this.#parts.headers, Authorization: `Bearer ${token}` };
    }
    return this.#headers;
  }

  #tlsWith(ca: Content, cert: Content | string, key: Content | string): TlsMaterial {
    const known = this.#tls;
    if (known !== undefined && known.ca === ca && known.cert === cert && known.key === key) return known;
    const { servername, insecure } = this.#parts;
    this.#tls = { ca, cert, key, servername, rejectUnauthorized: insecure !== true };
    return this.#tls;
  }
}

/** `Basic` header's value. */
export function basicAuth(username: string, password: string): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
}

/** @throws CredentialError if it could not be put in a header; the token itself is not shown */
function tokenOf(content: Buffer, path: string): string {
  const token = content.toString('utf8').trim();
  if (token === '') throw new CredentialError(`${path}: the token file is empty`);
  if (!/^[\x21-\x7e]+$/u.test(token)) throw new CredentialError(`${path}: the file does not hold a single token`);
  return token;
}

/** Without a promise where the value is there already. */
function whenRead<T, R>(value: T | Promise<T>, use: (value: T) => R): R | Promise<R> {
  return value instanceof Promise ? value.then(use) : use(value);
}

function contentOf(part: Buffer | FileValue | undefined): Content | Promise<Buffer> {
  return part instanceof FileValue ? part.get() : part;
}
