/**
 * The bytes of one secret value, which nothing prints.
 *
 * The bytes are behind a private field, and every way in which JavaScript turns an object into text (`String()`,
 * templates, `JSON.stringify`, `util.inspect`, `console`, structured loggers) gives only their number. A value leaves
 * through a method that says so in its name: `utf8`, `base64`, `bytes`.
 */
import { isUtf8 } from 'node:buffer';
import { timingSafeEqual } from 'node:crypto';
import { inspect } from 'node:util';

/** The value is not text: as bytes not valid UTF-8, or as a string with half a surrogate pair. Holds nothing of it. */
export class NotUtf8Error extends Error {
  override readonly name = 'NotUtf8Error';

  constructor() {
    super('the value is not valid UTF-8');
  }
}

/** The value is not canonical standard base64 (RFC 4648 §4, padded, no white space). Holds nothing of it. */
export class NotBase64Error extends Error {
  override readonly name = 'NotBase64Error';

  constructor() {
    super('the value is not standard base64');
  }
}

export class SecretBytes {
  #bytes: Buffer;
  #wiped = false;

  private constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** @throws NotUtf8Error if the string holds half a surrogate pair, which has no UTF-8 form */
  static fromUtf8(text: string): SecretBytes {
    if (!text.isWellFormed()) throw new NotUtf8Error();
    // Not from Buffer's shared pool: there one small value keeps 8 KiB alive, and `wipe` shares its page with others.
    const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
    bytes.write(text);
    return new SecretBytes(bytes);
  }

  /** @throws NotBase64Error unless `text` is exactly what an encoder would have written */
  static fromBase64(text: string): SecretBytes {
    const bytes = Buffer.from(text, 'base64');
    // Node's decoder skips what it does not know; only writing it again shows that nothing was skipped.
    if (bytes.toString('base64') !== text) throw new NotBase64Error();
    return SecretBytes.fromBytes(bytes);
  }

  /** Takes a copy. */
  static fromBytes(source: Uint8Array): SecretBytes {
    const bytes = Buffer.allocUnsafeSlow(source.byteLength);
    bytes.set(source);
    return new SecretBytes(bytes);
  }

  /** In bytes. 0 once wiped. */
  get length(): number {
    return this.#bytes.byteLength;
  }

  /** @throws NotUtf8Error */
  utf8(): string {
    const bytes = this.#readable();
    if (!isUtf8(bytes)) throw new NotUtf8Error();
    return bytes.toString('utf8');
  }

  /** Standard base64, padded. */
  base64(): string {
    return this.#readable().toString('base64');
  }

  /** A copy, so that nobody changes a value that others hold. */
  bytes(): Buffer {
    return Buffer.from(this.#readable());
  }

  /** Takes the same time wherever the first difference is (the lengths may be told apart). */
  equals(other: SecretBytes): boolean {
    const mine = this.#readable();
    const theirs = other.#readable();
    return mine.byteLength === theirs.byteLength && timingSafeEqual(mine, theirs);
  }

  /**
   * Overwrites the bytes. A later read throws, so that a wiped value is never taken for an empty one. What became a
   * string before stays in memory until the garbage collector has been there.
   */
  wipe(): void {
    this.#bytes.fill(0);
    this.#bytes = Buffer.alloc(0);
    this.#wiped = true;
  }

  toString(): string {
    return `[SecretBytes ${this.length} bytes]`;
  }

  toJSON(): string {
    return this.toString();
  }

  [Symbol.toPrimitive](): string {
    return this.toString();
  }

  [inspect.custom](): string {
    return this.toString();
  }

  #readable(): Buffer {
    if (this.#wiped) throw new Error('this SecretBytes was wiped');
    return this.#bytes;
  }
}
