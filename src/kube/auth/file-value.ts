/**
 * The content of a file that another program renews: a Pod's token, a rotated certificate.
 *
 * Invariants: a content is at most `maxAgeMs` old when it is handed out (as long as the file can be read); one read at a time; the
 * same bytes keep the same Buffer, so that users can compare by identity. While a file is missing (because it is being
 * replaced), the last content stays, and the file is read again soon.
 */
import { readFile } from 'node:fs/promises';
import { type Clock } from '../../runtime/clock.ts';
import { CredentialError } from '../errors.ts';

/** Kubelet renews tokens and certificates long before they expire; client-go keeps them for a minute too. */
const MAX_AGE_MS = 60_000;
const RETRY_MS = 5_000;

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
        const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
        throw new CredentialError(`${this.#field}: cannot read ${this.path}: ${code}`, { cause: error });
      }
      // The old content may still be valid; if it is not, the server refuses it.
      this.#freshUntil = this.#clock.monotonic() + RETRY_MS;
      return this.#content;
    }
  }
}
