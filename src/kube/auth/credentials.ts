/**
 * Credentials composed of parts that may be renewed at run time.
 *
 * Invariant: while no part changes, `headers()` and `tls()` return the same objects, and without a promise if all parts are fresh.
 */
import type { TlsMaterial } from '../../http/agent.ts';
import type { AuthHeaders, CredentialSource } from '../connection.ts';
import { codeOf, CredentialError } from '../errors.ts';
import type { ExecPlugin, PluginCredential } from './exec-credential.ts';
import { readFile } from 'node:fs/promises';
import type { Clock } from '../../runtime/clock.ts';

export interface CredentialParts {
  /** Headers beside the token: basic auth, impersonation. */
  readonly headers?: AuthHeaders;
  readonly token?: string | undefined;
  /** Wins over `token`, as in kubectl. */
  readonly tokenFile?: FileValue | undefined;
  readonly plugin?: ExecPlugin | undefined;
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

/** Kubelet renews tokens and certificates long before they expire; client-go keeps them for a minute too. */
const MAX_AGE_MS = 60_000;
const RETRY_MS = 5_000;

/**
 * The content of a file that another program renews: a Pod's token, a rotated certificate.
 *
 * Invariants: a content is at most `MAX_AGE_MS` old when it is handed out (as long as the file can be read); one read at a time; the
 * same bytes keep the same Buffer, so that users can compare by identity. While a file is missing (because it is being
 * replaced), the last content stays, and the file is read again soon.
 */
export class FileValue {
  readonly path: string;
  /** The field that names the file, for messages: `users[name=x].user.tokenFile`. */
  readonly #field: string;
  readonly #clock: Clock;
  #content: Buffer | undefined;
  #freshUntil = -Infinity;
  #reading: Promise<Buffer> | undefined;

  constructor(path: string, field: string, clock: Clock) {
    this.path = path;
    this.#field = field;
    this.#clock = clock;
  }

  /** @throws CredentialError naming field and path, if there never was a content */
  get(): Buffer | Promise<Buffer> {
    if (this.#content !== undefined && this.#clock.monotonic() < this.#freshUntil) return this.#content;
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  /** The next `get` reads the file. */
  invalidate(): void {
    this.#freshUntil = -Infinity;
  }

  async #read(): Promise<Buffer> {
    try {
      const content = await readFile(this.path);
      this.#freshUntil = this.#clock.monotonic() + MAX_AGE_MS;
      if (this.#content === undefined || !this.#content.equals(content)) this.#content = content;
      return this.#content;
    } catch (error) {
      if (this.#content === undefined) {
        throw new CredentialError(`${this.#field}: cannot read ${this.path}: ${codeOf(error) ?? String(error)}`, {
          cause: error,
        });
      }
      // The old content may still be valid; if it is not, the server refuses it.
      this.#freshUntil = this.#clock.monotonic() + RETRY_MS;
      return this.#content;
    }
  }
}
