/**
 * JSON to and from Vault without losing digits.
 *
 * KV version 1 keeps numbers exactly as they were written (`9007199254740993`, `1.10`); a JavaScript number does not.
 * Such a number is kept as its source text in a `JsonNumber`; all others are plain numbers.
 */

/** A number whose text would change if it went through a JavaScript number. */
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

/** The text is larger than any entry. The message names the limit, and holds nothing of the text. */
export class JsonLimitError extends Error {
  override readonly name = 'JsonLimitError';
}

/**
 * Values in one text: numbers, strings, literals, arrays and objects. A Secret of 1 MiB whose values are JSON has fewer; the
 * metadata of an entry with 5,000 versions has half of it. It bounds the time and memory for a text that is all `[[],[],…`.
 */
export const MAX_JSON_VALUES = 50_000;
/** Arrays and objects inside each other. Vault itself takes 300. */
export const MAX_JSON_DEPTH = 300;

/**
 * Reads JSON and keeps the digits of each number. A parser of our own, because `JSON.parse` gives the source text of numbers only to a
 * reviver, and a reviver costs seconds for a large text.
 * @throws SyntaxError, whose message may quote the text and must not be shown; JsonLimitError for too many values or levels
 */
export function parseJson(text: string): JsonValue {
  return new JsonReader(text).read();
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const SPACE = /[ \t\n\r]*/y;
const LITERALS = new Map<string, readonly [string, boolean | null]>([
  ['t', ['true', true]],
  ['f', ['false', false]],
  ['n', ['null', null]],
]);

/** For `__proto__`, which an assignment would not make a member. */
const OWN = { configurable: true, enumerable: true, writable: true };
const BACKSLASH = 0x5c;

class JsonReader {
  readonly #text: string;
  #at = 0;
  #values = 0;

  constructor(text: string) {
    this.#text = text;
  }

  read(): JsonValue {
    const value = this.#value(0);
    if (this.#peek() !== '') throw this.#unexpected();
    return value;
  }

  #value(depth: number): JsonValue {
    if (++this.#values > MAX_JSON_VALUES) throw new JsonLimitError(`it holds more than ${MAX_JSON_VALUES} values`);
    if (depth > MAX_JSON_DEPTH) throw new JsonLimitError(`it is nested deeper than ${MAX_JSON_DEPTH} levels`);
    const next = this.#peek();
    if (next === '"') return this.#string();
    if (next === '{') return this.#object(depth + 1);
    if (next === '[') return this.#array(depth + 1);
    const literal = LITERALS.get(next);
    if (literal === undefined) return this.#number();
    const [word, value] = literal;
    if (!this.#text.startsWith(word, this.#at)) throw this.#unexpected();
    this.#at += word.length;
    return value;
  }

  #object(depth: number): JsonObject {
    const object: Record<string, JsonValue> = {};
    this.#at++;
    if (this.#skips('}')) return object;
    do {
      if (this.#peek() !== '"') throw this.#unexpected();
      const key = this.#string();
      if (!this.#skips(':')) throw this.#unexpected();
      const value = this.#value(depth);
      if (key === '__proto__') Object.defineProperty(object, key, { value, ...OWN });
      else object[key] = value;
    } while (this.#skips(','));
    if (!this.#skips('}')) throw this.#unexpected();
    return object;
  }

  #array(depth: number): JsonValue[] {
    const items: JsonValue[] = [];
    this.#at++;
    if (this.#skips(']')) return items;
    do items.push(this.#value(depth));
    while (this.#skips(','));
    if (!this.#skips(']')) throw this.#unexpected();
    return items;
  }

  #string(): string {
    const start = this.#at;
    let end = start;
    do {
      end = this.#text.indexOf('"', end + 1);
      if (end < 0) throw this.#unexpected();
    } while (this.#isEscaped(end));
    this.#at = end + 1;
    // It checks and resolves the escapes, and makes a copy: a piece of the text would keep all of the text in memory.
    return JSON.parse(this.#text.slice(start, end + 1)) as string;
  }

  #isEscaped(at: number): boolean {
    let first = at;
    while (this.#text.charCodeAt(first - 1) === BACKSLASH) first--;
    return (at - first) % 2 === 1;
  }

  #number(): number | JsonNumber {
    NUMBER.lastIndex = this.#at;
    const source = NUMBER.exec(this.#text)?.[0];
    if (source === undefined) throw this.#unexpected();
    this.#at += source.length;
    const value = Number(source);
    return String(value) === source ? value : new JsonNumber(source);
  }

  /** The next character after white space; empty at the end. */
  #peek(): string {
    const next = this.#text[this.#at] ?? '';
    // Vault writes no white space.
    if (next > ' ') return next;
    SPACE.lastIndex = this.#at;
    this.#at += SPACE.exec(this.#text)?.[0].length ?? 0;
    return this.#text[this.#at] ?? '';
  }

  #skips(character: string): boolean {
    if (this.#peek() !== character) return false;
    this.#at++;
    return true;
  }

  #unexpected(): SyntaxError {
    return new SyntaxError(`no JSON at position ${this.#at}`);
  }
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

/** The member as a string, or `undefined` where it is something else or an inherited one. */
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

/** The strings in an array of anything; empty where there is no array. */
export function stringsMember(object: JsonObject | undefined, key: string): readonly string[] {
  const value = member(object, key);
  return Array.isArray(value) ? value.filter((item): item is string => typeof item === 'string') : [];
}

function member(object: JsonObject | undefined, key: string): JsonValue | undefined {
  return object !== undefined && Object.hasOwn(object, key) ? object[key] : undefined;
}
