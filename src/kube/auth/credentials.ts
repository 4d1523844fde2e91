/**
 * Credentials put together from their parts, each of which may be renewed while we run.
 *
 * Invariant: while no part changed, `headers()` and `tls()` give the same objects again, and at once where all parts are fresh.
 */
import { orAborted } from '../../runtime/abort.ts';
import type { AuthHeaders, CredentialSource, TlsMaterial } from '../connection.ts';
import { CredentialError } from '../errors.ts';
import type { FileValue } from './file-value.ts';

/** What an exec plugin gave us. */
export interface PluginCredential {
  readonly token?: string;
  /** PEM; both or none. */
  readonly cert?: string;
  readonly key?: string;
}

/** Something that makes credentials on demand (exec-credential.ts). Same object = same credentials. */
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

  headers(signal?: AbortSignal): AuthHeaders | Promise<AuthHeaders> {
    const { tokenFile, token, plugin } = this.#parts;
    if (tokenFile !== undefined) {
      const content = tokenFile.get();
      if (!(content instanceof Promise)) return this.#headersWith(tokenOf(content, tokenFile.path));
      const made = content.then((bytes) => this.#headersWith(tokenOf(bytes, tokenFile.path)));
      return orAborted(made, signal, `reading ${tokenFile.path}`);
    }
    if (token !== undefined || plugin === undefined) return this.#headersWith(token);
    const credential = plugin.get();
    if (!(credential instanceof Promise)) return this.#headersWith(credential.token);
    const made = credential.then((given) => this.#headersWith(given.token));
    return orAborted(made, signal, 'getting credentials from the exec plugin');
  }

  tls(signal?: AbortSignal): TlsMaterial | Promise<TlsMaterial> {
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
    const made = Promise.all([...all, given]).then(([ca, cert, key, given]) =>
      this.#tlsWith(ca, given.cert ?? cert, given.key ?? key),
    );
    return orAborted(made, signal, 'reading certificates');
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
  if (!/^[\x21-\x7e]+$/u.test(token))
    throw new CredentialError(`${path}: the file holds something else than one token`);
  return token;
}

function isBytes(value: Buffer | FileValue): value is Buffer {
  return Buffer.isBuffer(value);
}
