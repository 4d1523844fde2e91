/**
 * Credentials composed of parts that may be renewed at run time.
 *
 * Invariant: while no part changes, `headers()` and `tls()` return the same objects, and without a promise if all parts are fresh.
 */
import type { AuthHeaders, CredentialSource, TlsMaterial } from '../connection.ts';
import { CredentialError } from '../errors.ts';
import type { FileValue } from './file-value.ts';

/** The credentials of an exec plugin. */
export interface PluginCredential {
  readonly token?: string;
  /** PEM; both or none. */
  readonly cert?: string;
  readonly key?: string;
}

/** Creates credentials on demand (exec-credential.ts). The same object means the same credentials. */
export interface CredentialPlugin {
  get(): PluginCredential | Promise<PluginCredential>;
  invalidate(): void;
}

export interface CredentialParts {
  /** Headers beside the token: basic auth, impersonation. */
  readonly headers?: AuthHeaders;
  readonly token?: string;
  /** Wins over `token`, as in kubectl. */
  readonly tokenFile?: FileValue;
  readonly plugin?: CredentialPlugin;
  readonly ca?: Buffer | FileValue;
  readonly cert?: Buffer | FileValue;
  readonly key?: Buffer | FileValue;
  readonly servername?: string;
  /** The server's certificate is not checked. */
  readonly insecure?: boolean;
}

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
      const content = tokenFile.get();
      if (!(content instanceof Promise)) return this.#headersWith(tokenOf(content, tokenFile.path));
      return content.then((bytes) => this.#headersWith(tokenOf(bytes, tokenFile.path)));
    }
    if (token !== undefined || plugin === undefined) return this.#headersWith(token);
    const credential = plugin.get();
    if (!(credential instanceof Promise)) return this.#headersWith(credential.token);
    return credential.then((given) => this.#headersWith(given.token));
  }

  tls(): TlsMaterial | Promise<TlsMaterial> {
    const { ca, cert, key, plugin, token } = this.#parts;
    const all = [
      ca === undefined || isBytes(ca) ? ca : ca.get(),
      cert === undefined || isBytes(cert) ? cert : cert.get(),
      key === undefined || isBytes(key) ? key : key.get(),
    ] as const;
    const given = plugin === undefined || token !== undefined ? NO_PLUGIN : plugin.get();
    if (
      !(all[0] instanceof Promise || all[1] instanceof Promise || all[2] instanceof Promise || given instanceof Promise)
    ) {
      return this.#tlsWith(all[0], given.cert ?? all[1], given.key ?? all[2]);
    }
    return Promise.all([...all, given]).then(([ca, cert, key, given]) =>
      this.#tlsWith(ca, given.cert ?? cert, given.key ?? key),
    );
  }

  invalidate(): void {
    const { tokenFile, plugin, ca, cert, key } = this.#parts;
    tokenFile?.invalidate();
    plugin?.invalidate();
    for (const part of [ca, cert, key]) if (part !== undefined && !isBytes(part)) part.invalidate();
  }

  #headersWith(token: string | undefined): AuthHeaders {
    if (this.#headers === undefined || this.#token !== token) {
      this.#token = token;
      this.#headers =
        token === undefined ? { ...this.#parts.headers } : { ...this.#parts.headers, Authorization: `Bearer ${token}` };
    }
    return this.#headers;
  }

  #tlsWith(ca: Buffer | undefined, cert: Buffer | string | undefined, key: Buffer | string | undefined): TlsMaterial {
    const known = this.#tls;
    if (known !== undefined && known.ca === ca && known.cert === cert && known.key === key) return known;
    const { servername, insecure } = this.#parts;
    this.#tls = {
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
      ...(servername === undefined ? {} : { servername }),
      rejectUnauthorized: insecure !== true,
    };
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

function isBytes(value: Buffer | FileValue): value is Buffer {
  return Buffer.isBuffer(value);
}
