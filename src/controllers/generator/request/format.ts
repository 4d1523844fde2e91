/** Makes random values. Each comes from `node:crypto`, and each allowed text has the same probability. */
import { randomBytes, randomInt, randomUUID } from 'node:crypto';

import { SecretBytes } from '../../../runtime/secret-bytes.ts';

export const FORMATS = ['hex', 'base64url', 'alphanumeric', 'uuid', 'password'] as const;
export type Format = (typeof FORMATS)[number];

/** What the annotations of an ExternalSecret ask for. */
export interface Settings {
  readonly format: Format;
  /** Characters. */
  readonly length: number;
  /** Of a password. */
  readonly symbols: string;
  /** A value is also made where the present version of the entry is deleted or destroyed. */
  readonly whenDeleted: boolean;
}

/** ESO's `decodingStrategy`: how it decodes the text in Vault before it writes the Secret. */
export const DECODINGS = ['None', 'Base64', 'Base64URL', 'Auto'] as const;
export type Decoding = (typeof DECODINGS)[number];

const LOWER = 'abcdefghijklmnopqrstuvwxyz';
const UPPER = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';
const DIGITS = '0123456789';

/** A new value, as an application gets it. */
export function generateValue({ format, length, symbols }: Settings): SecretBytes {
  return SecretBytes.fromUtf8(MAKERS[format](length, symbols));
}

const MAKERS: Readonly<Record<Format, (length: number, symbols: string) => string>> = {
  hex: (length) =>
    randomBytes(Math.ceil(length / 2))
      .toString('hex')
      .slice(0, length),
  base64url: (length) =>
    randomBytes(Math.ceil((length * 3) / 4))
      .toString('base64url')
      .slice(0, length),
  alphanumeric: (length) => draw(LOWER + UPPER + DIGITS, length),
  uuid: () => randomUUID(),
  password: (length, symbols) => password(symbols, length),
};

/** The text for Vault, which ESO decodes to the value. `Auto` decodes everything that looks like base64, as most values do. */
export function encodedFor(decoding: Decoding, value: SecretBytes): string {
  if (decoding === 'None') return value.utf8();
  if (decoding !== 'Base64URL') return value.base64();
  // Go's base64.URLEncoding needs the padding.
  return value.base64().replaceAll('+', '-').replaceAll('/', '_');
}

function draw(alphabet: string, length: number): string {
  return Array.from({ length }, () => alphabet.charAt(randomInt(alphabet.length))).join('');
}

/**
 * Rules for passwords ask for a lower-case letter, a capital, a digit and a symbol. Drawing again until all are there keeps the remaining
 * passwords equally probable; putting one of each at a fixed place would not.
 */
function password(symbols: string, length: number): string {
  const classes = [LOWER, UPPER, DIGITS, symbols];
  for (;;) {
    const text = draw(classes.join(''), length);
    if (classes.every((characters) => Array.from(text).some((one) => characters.includes(one)))) return text;
  }
}
