/**
 * Credentials made of parts (token, certificates, files, plugin) that may be renewed at run time. Invariant: while no
 * part changes, `headers()` and `tls()` return the same objects, so that callers notice a change by identity.
 */
import type { TlsMaterial } from '../../http/agent.ts';
import type { AuthHeaders, CredentialSource } from '../connection.ts';
import { codeOf, CredentialError } from '../errors.ts';
import type { ExecPlugin } from './exec-credential.ts';
import { readFile } from 'node:fs/promises';
import type { Clock } from '../../runtime/clock.ts';
import { SingleFlight } from '../../runtime/queue/single-flight.ts';

export interface CredentialParts {
  /** Headers besides the token: impersonation. */
  readonly headers?: AuthHeaders;
  readonly token?: string | undefined;
  /** Used instead of `token` if both are set, as in kubectl. */
  readonly tokenFile?: FileValue | undefined;
  readonly plugin?: ExecPlugin | undefined;
  readonly ca?: Buffer | FileValue | undefined;
  readonly cert?: Buffer | FileValue | undefined;
  readonly key?: Buffer | FileValue | undefined;
  readonly servername?: string | undefined;
  /** `true`: the server's certificate is not checked. */
  readonly insecure?: boolean;
}

export class RenewingCredentials implements CredentialSource {
  readonly #parts: CredentialParts;
  #headers: AuthHeaders | undefined;
  #token: string | undefined;
  #tls: TlsMaterial | undefined;

  constructor(parts: CredentialParts) {
    this.#parts = parts;
  }

  async headers(): Promise<AuthHeaders> {
    const { headers, tokenFile, plugin } = this.#parts;
    let { token } = this.#parts;
    if (tokenFile !== undefined) token = tokenOf(await tokenFile.get(), tokenFile.path);
    else token ??= (await plugin?.get())?.token;
    if (this.#headers === undefined || this.#token !== token) {
      this.#token = token;
      this.#headers = token === undefined ? { ...headers } : { ...headers, Authorization: `Bearer ${token}` };
    }
    return this.#headers;
  }

  async tls(): Promise<TlsMaterial> {
    const { plugin, token, servername, insecure, ...parts } = this.#parts;
    const given = token === undefined ? await plugin?.get() : undefined;
    const [ca, cert, key] = await Promise.all([
      contentOf(parts.ca),
      given?.cert ?? contentOf(parts.cert),
      given?.key ?? contentOf(parts.key),
    ]);
    const known = this.#tls;
    if (known !== undefined && known.ca === ca && known.cert === cert && known.key === key) return known;
    this.#tls = { ca, cert, key, servername, rejectUnauthorized: insecure !== true };
    return this.#tls;
  }

  invalidate(): void {
    const { tokenFile, plugin, ca, cert, key } = this.#parts;
    tokenFile?.invalidate();
    plugin?.invalidate();
    for (const part of [ca, cert, key]) if (part instanceof FileValue) part.invalidate();
  }
}

/** @throws CredentialError if the content cannot be sent as a token; the message does not quote the content */
function tokenOf(content: Buffer, path: string): string {
  const token = content.toString('utf8').trim();
  if (token === '') throw new CredentialError(`${path}: the token file is empty`);
  if (!/^[\x21-\x7e]+$/u.test(token)) throw new CredentialError(`${path}: the file does not hold a single token`);
  return token;
}

async function contentOf(part: Buffer | FileValue | undefined): Promise<Buffer | undefined> {
  return part instanceof FileValue ? await part.get() : part;
}

/** Time until a file is read again, ms, as in client-go. The kubelet renews files long before they expire. */
const MAX_AGE_MS = 60_000;
const RETRY_MS = 5_000;

/**
 * The content of a file that another program renews: a Pod's token, a rotated certificate.
 *
 * Invariants: if the file can be read, the returned content is at most `MAX_AGE_MS` old; only one read runs at a time;
 * the same bytes keep the same Buffer, so that callers notice a change by identity. While the file is missing, because
 * it is being replaced, the last content stays, and the file is read again after `RETRY_MS`.
 */
export class FileValue {
  readonly path: string;
  /** The field that names the file, for messages: `users[name=x].user.tokenFile`. */
  readonly #field: string;
  readonly #clock: Clock;
  #content: Buffer | undefined;
  #freshUntil = -Infinity;
  readonly #reads = new SingleFlight<Buffer>();

  constructor(path: string, field: string, clock: Clock) {
    this.path = path;
    this.#field = field;
    this.#clock = clock;
  }

  /** @throws CredentialError that names field and path, if the file could never be read */
  async get(): Promise<Buffer> {
    if (this.#content !== undefined && this.#clock.monotonic() < this.#freshUntil) return this.#content;
    return await this.#reads.run(this.path, () => this.#read());
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
      // The old content may still be valid. If it is not, the server answers 401.
      this.#freshUntil = this.#clock.monotonic() + RETRY_MS;
      return this.#content;
    }
  }
}
