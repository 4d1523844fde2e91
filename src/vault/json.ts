/**
 * Reads and writes Vault's JSON without losing digits of numbers.
 * KV version 1 keeps a number exactly as a user wrote it, for example `9007199254740993` or `1.10`. A JavaScript number
 * would change these digits, so a `JsonNumber` keeps the text. All other numbers are JavaScript numbers.
 */
import { randomUUID } from 'node:crypto';

/** A number whose text would change if it were parsed as a JavaScript number and written again, such as `1.10`. */
export class JsonNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

export type JsonValue =
  | string
  | number
  | boolean
  | null
  | JsonNumber
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

export interface JsonObject {
  readonly [key: string]: JsonValue;
}

/** The JSON has more values or levels than any entry of Vault. The message names the limit, and quotes no JSON. */
export class JsonLimitError extends Error {
  override readonly name = 'JsonLimitError';
}

/**
 * Largest number of values in one JSON text: numbers, strings, literals, arrays and objects. Entries have a few dozen.
 * The limit bounds time and memory for a hostile text such as `[[],[],…`.
 */
const MAX_JSON_VALUES = 50_000;
/** Deepest nesting of arrays and objects. Vault itself accepts 300 levels. */
const MAX_JSON_DEPTH = 300;

/** Matches the tokens of JSON except commas. Of a string it matches only the opening quote. */
const TOKEN = /[:[\]{}"]|[^\s,:[\]{}"]+/g;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
/** Prefix of the strings that stand for exact numbers while `JSON.parse` runs. It is random, so no input has it. */
const EXACT = `${randomUUID()} `;
const BACKSLASH = 0x5c;

/**
 * Parses JSON and keeps the digits of each number. First, one walk over the tokens checks the limits, and puts strings
 * in the place of the numbers that would change. Then `JSON.parse` reads the text. A reviver of `JSON.parse` would take
 * seconds for a large text.
 * @throws SyntaxError, whose message may quote the text and must not be shown; JsonLimitError for too many values or
 *   levels
 */
export function parseJson(text: string): JsonValue {
  let exact = '';
  let from = 0;
  let values = 0;
  let depth = 0;
  TOKEN.lastIndex = 0;
  for (let found = TOKEN.exec(text); found !== null; found = TOKEN.exec(text)) {
    const [token] = found;
    if (token === ':') {
      // The string before this colon is a key, so it does not count as a value.
      values--;
      continue;
    }
    if (token === ']' || token === '}') {
      depth--;
      continue;
    }
    // One value too many is allowed here, because the last string may turn out to be a key.
    if (++values > MAX_JSON_VALUES + 1) break;
    if (token === '"') TOKEN.lastIndex = endOfString(text, found.index);
    else if (token === '[' || token === '{') {
      if (++depth > MAX_JSON_DEPTH) throw new JsonLimitError(`it is nested deeper than ${MAX_JSON_DEPTH} levels`);
    } else if (NUMBER.test(token) && String(Number(token)) !== token) {
      exact += `${text.slice(from, found.index)}${JSON.stringify(EXACT + token)}`;
      from = TOKEN.lastIndex;
    }
  }
  if (values > MAX_JSON_VALUES) throw new JsonLimitError(`it holds more than ${MAX_JSON_VALUES} values`);
  const value = JSON.parse(from === 0 ? text : exact + text.slice(from)) as JsonValue;
  return from === 0 ? value : withNumbers(value);
}

/** The index after the closing quote of the string; the end of the text if no quote closes it. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let first = end;
    while (text.charCodeAt(first - 1) === BACKSLASH) first--;
    if ((end - first) % 2 === 0) return end + 1;
  }
  return text.length;
}

/** Replaces each string that stands for an exact number by its `JsonNumber`. */
function withNumbers(value: JsonValue): JsonValue {
  if (typeof value === 'string') return value.startsWith(EXACT) ? new JsonNumber(value.slice(EXACT.length)) : value;
  if (value === null || typeof value !== 'object') return value;
  const members = value as Record<string, JsonValue>;
  for (const [key, member] of Object.entries(members)) {
    if (key.startsWith(EXACT)) throw new SyntaxError('a key is a number');
    const read = withNumbers(member);
    // An assignment to the key `__proto__` would set the prototype of the object instead.
    if (read !== member) Object.defineProperty(members, key, { value: read });
  }
  return value;
}

/** JSON without white space and with sorted keys: equal values have equal texts. */
export function canonicalJson(value: JsonValue): string {
  if (value instanceof JsonNumber) return value.text;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  const members = Object.entries(value as JsonObject)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, member]) => `${JSON.stringify(key)}:${canonicalJson(member)}`);
  return `{${members.join(',')}}`;
}

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof JsonNumber);
}

/** The member `key` if it is a string, otherwise `undefined`. A member that the object inherits does not count. */
export function stringMember(object: JsonObject | undefined, key: string): string | undefined {
  const value = member(object, key);
  return typeof value === 'string' ? value : undefined;
}

export function numberMember(object: JsonObject | undefined, key: string): number | undefined {
  const value = member(object, key);
  return typeof value === 'number' ? value : undefined;
}

export function booleanMember(object: JsonObject | undefined, key: string): boolean | undefined {
  const value = member(object, key);
  return typeof value === 'boolean' ? value : undefined;
}

export function objectMember(object: JsonObject | undefined, key: string): JsonObject | undefined {
  const value = member(object, key);
  return isJsonObject(value) ? value : undefined;
}

/** The elements of the array `key` that are strings; empty if the member is no array. */
export function stringsMember(object: JsonObject | undefined, key: string): readonly string[] {
  const value = member(object, key);
  return Array.isArray(value) ? value.filter((item): item is string => typeof item === 'string') : [];
}

function member(object: JsonObject | undefined, key: string): JsonValue | undefined {
  return object !== undefined && Object.hasOwn(object, key) ? object[key] : undefined;
}
