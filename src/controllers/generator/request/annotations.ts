/** The annotations of an ExternalSecret that the generator reads and writes. */
import { FORMATS, type Format, type Settings } from './format.ts';

/** Opt-in, as in the original: without a prefix. */
export const CREATE_ANNOTATION = 'create';
const FORMAT_ANNOTATION = 'keyferry.dev/generate-format';
const LENGTH_ANNOTATION = 'keyferry.dev/generate-length';
const SYMBOLS_ANNOTATION = 'keyferry.dev/generate-symbols';
const WHEN_DELETED_ANNOTATION = 'keyferry.dev/generate-when-deleted';
/**
 * What the generator did last. Any change of an annotation makes ESO read again, so the text changes when a value was written, and never
 * by itself.
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

/** Longest value of an annotation that is kept, characters. Ours is shorter, and no valid setting is longer. */
const MAX_VALUE = 32_768;

const LEAST_LENGTH = 8;
const GREATEST_LENGTH = 4096;
const DEFAULT_LENGTH = 64;
/** Length of a UUID in text. */
const UUID_LENGTH = 36;
/** Of a password. The only symbols that need no escaping anywhere in a URL (RFC 3986, "unreserved"): many values become a part of one. */
const DEFAULT_SYMBOLS = '-._~';

/** Whether the author wants values. `wrong`: the annotation has a value that is not accepted. */
export type OptIn = 'yes' | 'no' | 'wrong';

/** @param all every ExternalSecret is served that does not opt out with `create: "false"` */
export function optInOf(annotations: Annotations, all: boolean): OptIn {
  const value = annotations[CREATE_ANNOTATION];
  if (value === 'true' || (value === undefined && all)) return 'yes';
  if (value === undefined || (value === 'false' && all)) return 'no';
  return 'wrong';
}

/** The annotations that are kept of an ExternalSecret. */
export function keptAnnotations(annotations: Annotations | undefined): Annotations {
  const kept = Object.entries(annotations ?? {}).filter(([name]) => READ.has(name));
  return Object.fromEntries(kept.map(([name, value]) => [name, value.slice(0, MAX_VALUE)]));
}

/** A setting that cannot be used. The message names the annotation and what it may be. */
export class SettingError extends Error {
  override readonly name = 'SettingError';
}

/** How values are made. @throws SettingError */
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
