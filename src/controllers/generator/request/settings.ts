/** Reads the annotations of an ExternalSecret for the generator, and makes the random values that they describe. */
import { randomBytes, randomInt, randomUUID } from 'node:crypto';

import { SecretBytes } from '../../../runtime/secret-bytes.ts';

/** With `create: "true"` the author requests values (opts in). The annotation has no prefix, as in the original. */
export const CREATE_ANNOTATION = 'create';
const FORMAT_ANNOTATION = 'keyferry.dev/generate-format';
const LENGTH_ANNOTATION = 'keyferry.dev/generate-length';
const SYMBOLS_ANNOTATION = 'keyferry.dev/generate-symbols';
const WHEN_DELETED_ANNOTATION = 'keyferry.dev/generate-when-deleted';
/**
 * The last result of the generator. When any annotation changes, ESO reads Vault again. So the text must change after
 * each write of a value, and must not change if nothing happened.
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

/** Maximum length of a stored annotation, characters. Valid settings are shorter, and so is a result (`run/result.ts`). */
const MAX_VALUE = 131_072;

const LEAST_LENGTH = 8;
const GREATEST_LENGTH = 4096;
const DEFAULT_LENGTH = 64;
/** Length of a UUID as text, characters. */
const UUID_LENGTH = 36;
/** Symbols of a password. Many passwords are put into URLs, where these need no escaping (RFC 3986, "unreserved"). */
const DEFAULT_SYMBOLS = '-._~';

/** Whether the author requests values. `wrong`: the value of the annotation `create` is not allowed. */
export type OptIn = 'yes' | 'no' | 'wrong';

/** @param all whether to serve every ExternalSecret that does not opt out with `create: "false"` */
export function optInOf(annotations: Annotations, all: boolean): OptIn {
  const value = annotations[CREATE_ANNOTATION];
  if (value === 'true' || (value === undefined && all)) return 'yes';
  if (value === undefined || (value === 'false' && all)) return 'no';
  return 'wrong';
}

/** The annotations of an object that the generator reads. Longer values are cut at `MAX_VALUE`. */
export function keptAnnotations(annotations: Annotations | undefined): Annotations {
  const kept = Object.entries(annotations ?? {}).filter(([name]) => READ.has(name));
  return Object.fromEntries(kept.map(([name, value]) => [name, value.slice(0, MAX_VALUE)]));
}

/** The value of an annotation is not allowed. The message names the annotation and the allowed values. */
export class SettingError extends Error {
  override readonly name = 'SettingError';
}

export const FORMATS = ['hex', 'uuid', 'password'] as const;
export type Format = (typeof FORMATS)[number];

/** How to make the values of an ExternalSecret. Its annotations set this. */
export interface Settings {
  readonly format: Format;
  /** Length of a value, characters. */
  readonly length: number;
  /** The symbols that a value of the format `password` may contain. */
  readonly symbols: string;
  /** Whether to make values if the latest version of the entry in Vault is deleted or destroyed. */
  readonly whenDeleted: boolean;
}

/** ESO's `decodingStrategy`: how ESO decodes the text in Vault into the value of the Secret. */
export const DECODINGS = ['None', 'Base64', 'Base64URL', 'Auto'] as const;
export type Decoding = (typeof DECODINGS)[number];

/** Reads the settings; a missing annotation: the default. @throws SettingError */
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

/** Makes a random value with `node:crypto`. All allowed texts have the same probability. */
export function generateValue({ format, length, symbols }: Settings): SecretBytes {
  return SecretBytes.fromUtf8(MAKERS[format](length, symbols));
}

/** One function for each format. hex draws more random bytes than needed, and cuts the text. */
const MAKERS: Readonly<Record<Format, (length: number, symbols: string) => string>> = {
  hex: (length) => randomBytes(length).toString('hex').slice(0, length),
  uuid: () => randomUUID(),
  password: (length, symbols) => password(symbols, length),
};

/** The text for Vault, which ESO decodes to the value. Base64 for `Auto`, too: ESO decodes all that looks like it. */
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
 * Common policies require a lower-case letter, a capital, a digit and a symbol. If a password lacks one of them, a
 * whole new password is drawn. So all allowed passwords have the same probability.
 */
function password(symbols: string, length: number): string {
  const classes = [LOWER, UPPER, DIGITS, symbols];
  for (;;) {
    const text = draw(classes.join(''), length);
    if (classes.every((characters) => Array.from(text).some((one) => characters.includes(one)))) return text;
  }
}
