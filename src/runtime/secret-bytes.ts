/**
 * The bytes of one secret value, in an object that cannot be printed.
 *
 * The bytes are in a private field, and every way in which JavaScript turns an object into text (`String()`, templates,
 * `JSON.stringify`, `util.inspect`, `console`, structured loggers) gives only the number of bytes. Only `utf8`,
 * `base64` and `bytes` return the value.
 */
import { isUtf8 } from 'node:buffer';
import { inspect } from 'node:util';

/** The bytes are not valid UTF-8, or the string has a lone surrogate. The error contains no part of the value. */
export class NotUtf8Error extends Error {
  override readonly name = 'NotUtf8Error';

  constructor() {
    super('the value is not valid UTF-8');
  }
}

/** The value is not standard base64 (RFC 4648 §4, padded, no white space). The error contains no part of the value. */
export class NotBase64Error extends Error {
  override readonly name = 'NotBase64Error';

  constructor() {
    super('the value is not standard base64');
  }
}

export class SecretBytes {
  readonly #bytes: Buffer;

  private constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** @throws NotUtf8Error if the string has a lone surrogate, which has no UTF-8 form */
  static fromUtf8(text: string): SecretBytes {
    if (!text.isWellFormed()) throw new NotUtf8Error();
    // `allocUnsafeSlow` does not use Buffer's shared pool, in which one small value keeps 8 KiB in memory.
    const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
    bytes.write(text);
    return new SecretBytes(bytes);
  }

  /** @throws NotBase64Error if `text` differs from the standard base64 of its bytes, for example by white space */
  static fromBase64(text: string): SecretBytes {
    const bytes = Buffer.from(text, 'base64');
    // Node's decoder skips invalid characters. In that case the base64 of the bytes differs from `text`.
    if (bytes.toString('base64') !== text) throw new NotBase64Error();
    return SecretBytes.fromBytes(bytes);
  }

  /** Copies the bytes. */
  static fromBytes(source: Uint8Array): SecretBytes {
    const bytes = Buffer.allocUnsafeSlow(source.byteLength);
    bytes.set(source);
    return new SecretBytes(bytes);
  }

  /** Number of bytes. */
  get length(): number {
    return this.#bytes.byteLength;
  }

  /** @throws NotUtf8Error */
  utf8(): string {
    if (!isUtf8(this.#bytes)) throw new NotUtf8Error();
    return this.#bytes.toString('utf8');
  }

  /** Standard base64, padded. */
  base64(): string {
    return this.#bytes.toString('base64');
  }

  /** A copy of the bytes. */
  bytes(): Buffer {
    return Buffer.from(this.#bytes);
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
}
