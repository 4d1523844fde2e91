/**
 * JSON to and from Vault without losing digits.
 *
 * KV version 1 keeps numbers exactly as they were written (`9007199254740993`, `1.10`); a JavaScript number does not.
 * Such a number is kept as its source text in a `JsonNumber`; every other one is a plain number.
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

/** The third argument of a reviver, which the type library does not know yet. */
interface ReviverContext {
  readonly source?: string;
}

/** @throws SyntaxError, whose message may quote the text: do not pass it on */
export function parseJson(text: string): JsonValue {
  const revive = (_key: string, value: JsonValue, context?: ReviverContext): JsonValue => {
    if (typeof value !== 'number' || context?.source === undefined) return value;
    return String(value) === context.source ? value : new JsonNumber(context.source);
  };
  return JSON.parse(text, revive) as JsonValue;
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
