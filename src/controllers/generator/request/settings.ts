/** The annotations of an ExternalSecret that the generator knows, and the random values that they describe. */
import { randomBytes, randomInt, randomUUID } from 'node:crypto';

import { SecretBytes } from '../../../runtime/secret-bytes.ts';

/** The annotation by which the author opts in. It has no prefix, as in the original. */
export const CREATE_ANNOTATION = 'create';
const FORMAT_ANNOTATION = 'keyferry.dev/generate-format';
const LENGTH_ANNOTATION = 'keyferry.dev/generate-length';
const SYMBOLS_ANNOTATION = 'keyferry.dev/generate-symbols';
const WHEN_DELETED_ANNOTATION = 'keyferry.dev/generate-when-deleted';
/**
 * The last result of the generator. Any change of an annotation makes ESO read again. So the text changes after each
 * write of a value, and never without an event.
 */
export const RESULT_ANNOTATION = 'keyferry.dev/generator';

const READ: ReadonlySet<string> = new Set([
  CREATE_ANNOTATION,
  FORMAT_ANNOTATION,
  LENGTH_ANNOTATION,
  SYMBOLS_ANNOTATION,
  WHEN_DELETED_ANNOTATION,
  RESULT_ANNOTATION,
]);

type Annotations = Readonly<Record<string, string>>;

/** Longest annotation that is kept, characters. Results and valid settings are shorter. */
const MAX_VALUE = 32_768;

const LEAST_LENGTH = 8;
const GREATEST_LENGTH = 4096;
const DEFAULT_LENGTH = 64;
/** Length of a UUID in text. */
const UUID_LENGTH = 36;
/** Symbols of a password. They need no escaping in a URL (RFC 3986, "unreserved"), of which many become a part. */
const DEFAULT_SYMBOLS = '-._~';

/** Whether the author wants values. `wrong`: the annotation has a value that means nothing. */
export type OptIn = 'yes' | 'no' | 'wrong';

/** @param all whether every ExternalSecret is served that does not opt out with `create: "false"` */
export function optInOf(annotations: Annotations, all: boolean): OptIn {
  const value = annotations[CREATE_ANNOTATION];
  if (value === 'true' || (value === undefined && all)) return 'yes';
  if (value === undefined || (value === 'false' && all)) return 'no';
  return 'wrong';
}

/** The part of an object's annotations that is kept: those that the generator reads, cut at `MAX_VALUE`. */
export function keptAnnotations(annotations: Annotations | undefined): Annotations {
  const kept = Object.entries(annotations ?? {}).filter(([name]) => READ.has(name));
  return Object.fromEntries(kept.map(([name, value]) => [name, value.slice(0, MAX_VALUE)]));
}

/** An annotation has a value that cannot be used. The message names the annotation and the allowed values. */
export class SettingError extends Error {
  override readonly name = 'SettingError';
}

export const FORMATS = ['hex', 'base64url', 'alphanumeric', 'uuid', 'password'] as const;
export type Format = (typeof FORMATS)[number];

/** How to make the values of an ExternalSecret, from its annotations. */
export interface Settings {
  readonly format: Format;
  /** Length of a value, characters. */
  readonly length: number;
  /** The symbols that a password may contain. */
  readonly symbols: string;
  /** Whether to make a value if the latest version of the entry is deleted or destroyed. */
  readonly whenDeleted: boolean;
}

/** ESO's `decodingStrategy`: how ESO decodes the text in Vault into the value of the Secret. */
export const DECODINGS = ['None', 'Base64', 'Base64URL', 'Auto'] as const;
export type Decoding = (typeof DECODINGS)[number];

/** Reads the settings. @throws SettingError */
export function settingsOf(annotations: Annotations): Settings {
  const format = formatOf(annotations[FORMAT_ANNOTATION]);
  return {
    format,
    length: lengthOf(annotations[LENGTH_ANNOTATION], format),
    symbols: symbolsOf(annotations[SYMBOLS_ANNOTATION], format),
    whenDeleted: whenDeletedOf(annotations[WHEN_DELETED_ANNOTATION]),
  };
}

function formatOf(value: string | undefined): Format {
  if (value === undefined) return 'hex';
  const format = FORMATS.find((one) => one === value);
  if (format === undefined) throw wrong(FORMAT_ANNOTATION, value, `one of ${FORMATS.join(', ')}`);
  return format;
}

function lengthOf(value: string | undefined, format: Format): number {
  if (format === 'uuid') {
    if (value === undefined) return UUID_LENGTH;
    throw new SettingError(`the annotation ${LENGTH_ANNOTATION} has no meaning for the format uuid`);
  }
  if (value === undefined) return DEFAULT_LENGTH;
  const length = /^\d{1,6}$/.test(value) ? Number(value) : Number.NaN;
  if (!(length >= LEAST_LENGTH && length <= GREATEST_LENGTH)) {
    throw wrong(LENGTH_ANNOTATION, value, `a number of characters from ${LEAST_LENGTH} to ${GREATEST_LENGTH}`);
  }
  return length;
}

function symbolsOf(value: string | undefined, format: Format): string {
  if (value === undefined) return DEFAULT_SYMBOLS;
  if (format !== 'password') {
    throw new SettingError(`the annotation ${SYMBOLS_ANNOTATION} has a meaning only for the format password`);
  }
  const isUsable = /^[\u0021-\u007E]{1,64}$/.test(value) && !/[a-zA-Z0-9]/.test(value);
  if (!isUsable || new Set(value).size !== value.length) {
    throw wrong(
      SYMBOLS_ANNOTATION,
      value,
      'printable ASCII characters that are no letters, digits or spaces, each once',
    );
  }
  return value;
}

function whenDeletedOf(value: string | undefined): boolean {
  if (value === undefined || value === 'false') return false;
  if (value === 'true') return true;
  throw wrong(WHEN_DELETED_ANNOTATION, value, '"true" or "false"');
}

function wrong(annotation: string, value: string, allowed: string): SettingError {
  return new SettingError(`the annotation ${annotation} must be ${allowed}, not ${JSON.stringify(value.slice(0, 64))}`);
}

const LOWER = 'abcdefghijklmnopqrstuvwxyz';
const UPPER = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';
const DIGITS = '0123456789';

/** Makes a value. The random source is `node:crypto`, and all allowed texts have the same probability. */
export function generateValue({ format, length, symbols }: Settings): SecretBytes {
  return SecretBytes.fromUtf8(MAKERS[format](length, symbols));
}

/** hex and base64url: more random bytes than needed, of which the rest is cut off. */
const MAKERS: Readonly<Record<Format, (length: number, symbols: string) => string>> = {
  hex: (length) => randomBytes(length).toString('hex').slice(0, length),
  base64url: (length) => randomBytes(length).toString('base64url').slice(0, length),
  alphanumeric: (length) => draw(LOWER + UPPER + DIGITS, length),
  uuid: () => randomUUID(),
  password: (length, symbols) => password(symbols, length),
};

/** The text for Vault, which ESO decodes to the value. `Auto` decodes all that looks like base64, as most values do. */
export function encodedFor(decoding: Decoding, value: SecretBytes): string {
  if (decoding === 'None') return value.utf8();
  if (decoding !== 'Base64URL') return value.base64();
  // Go's `base64.URLEncoding` requires the padding.
  return value.base64().replaceAll('+', '-').replaceAll('/', '_');
}

function draw(alphabet: string, length: number): string {
  return Array.from({ length }, () => alphabet.charAt(randomInt(alphabet.length))).join('');
}

/**
 * Common rules require a lower-case letter, a capital, a digit and a symbol. A password without one of them is drawn
 * again as a whole. So all allowed passwords have the same probability, unlike with a fixed place for each class.
 */
function password(symbols: string, length: number): string {
  const classes = [LOWER, UPPER, DIGITS, symbols];
  for (;;) {
    const text = draw(classes.join(''), length);
    if (classes.every((characters) => Array.from(text).some((one) => characters.includes(one)))) return text;
  }
}
