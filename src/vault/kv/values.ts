/**
 * Converts Vault's JSON values to the bytes of a Secret and back, without guessing an encoding.
 *
 * From Vault:
 * - a string becomes its UTF-8 bytes; with `encoding: base64` it must be strict standard base64, which is decoded;
 * - any other value becomes its JSON text, without white space and with sorted keys: `42`, `true`, `{"a":1}`. Numbers
 *   keep the digits that Vault sent (KV version 2 itself keeps numbers as 64-bit floats). `encoding` does not apply.
 *
 * To Vault: always a string, namely the text, or with `encoding: base64` the standard base64 of the bytes. Bytes that
 * are not UTF-8 have no plain form: without `base64` they are an error.
 */
import { someOf } from '../../runtime/text/texts.ts';
import { inspect } from 'node:util';

import { isDataKey } from '../../runtime/text/dns-names.ts';
import { NotBase64Error, NotUtf8Error, SecretBytes } from '../../runtime/secret-bytes.ts';
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '../json.ts';

/** `plain`: strings in Vault are the text itself. `base64`: every string in Vault is the base64 of the bytes. */
export type ValueEncoding = 'plain' | 'base64';

/** If the original writes an entry to KV 1, this is the only key of the entry, and all pairs are below it. */
const NESTED_KEY = 'data';
/** Largest number of keys that an error's message names. */
const NAMED_KEYS = 5;

/** The first keys as text for a message, each cut to 100 characters, because users may choose keys of any length. */
export function keyList(keys: readonly string[]): string {
  return someOf(
    keys.map((key) => JSON.stringify(key.slice(0, 100))),
    NAMED_KEYS,
  );
}

/** Some values of an entry cannot be converted. The message names their keys, never a value. */
export class ValueConversionError extends Error {
  override readonly name = 'ValueConversionError';
  readonly keys: readonly string[];

  constructor(reason: string, keys: readonly string[]) {
    super(`${reason}: ${keyList(keys)}`);
    this.keys = keys;
  }
}

/** The values of one entry in Vault. If the object is printed, only the number of its keys appears. */
export class VaultValues {
  readonly #values: ReadonlyMap<string, JsonValue>;

  constructor(values: Iterable<readonly [string, JsonValue]>) {
    this.#values = new Map(values);
  }

  static fromJson(object: JsonObject): VaultValues {
    return new VaultValues(Object.entries(object));
  }

  get size(): number {
    return this.#values.size;
  }

  keys(): IterableIterator<string> {
    return this.#values.keys();
  }

  get(key: string): JsonValue | undefined {
    return this.#values.get(key);
  }

  entries(): IterableIterator<[string, JsonValue]> {
    return this.#values.entries();
  }

  /** The pairs below the key `data` if it is the only key, as the original writes KV 1; else the values unchanged. */
  unnested(): VaultValues {
    const inner = this.size === 1 ? this.get(NESTED_KEY) : undefined;
    return isJsonObject(inner) ? VaultValues.fromJson(inner) : this;
  }

  /** The same pairs below one key `data`, as the original writes KV 1. */
  nested(): VaultValues {
    return new VaultValues([[NESTED_KEY, Object.fromEntries(this.#values)]]);
  }

  equals(other: VaultValues): boolean {
    if (this.size !== other.size) return false;
    for (const [key, value] of this.#values) {
      const theirs = other.#values.get(key);
      if (theirs === undefined || (theirs !== value && canonicalJson(theirs) !== canonicalJson(value))) return false;
    }
    return true;
  }

  /** The secret values as one JSON object. */
  toCanonicalJson(): string {
    return canonicalJson(Object.fromEntries(this.#values));
  }

  /** All values as texts, so that they can be removed from error messages. */
  texts(): readonly string[] {
    return [...this.#values.values()].map((value) => (typeof value === 'string' ? value : canonicalJson(value)));
  }

  toString(): string {
    return `[VaultValues ${this.size} keys]`;
  }

  toJSON(): string {
    return this.toString();
  }

  [inspect.custom](): string {
    return this.toString();
  }
}

/** @throws ValueConversionError naming the keys whose string is not strict base64 (or has half a surrogate pair) */
export function toSecretData(values: VaultValues, encoding: ValueEncoding = 'plain'): Map<string, SecretBytes> {
  const wanted = encoding === 'base64' ? 'strict standard base64' : 'well-formed text';
  return new Map(converted(values.entries(), (value) => toSecretBytes(value, encoding), `not ${wanted} in vault`));
}

/** @throws ValueConversionError naming the keys whose bytes are not UTF-8 (never with `base64`) */
export function toVaultValues(data: ReadonlyMap<string, SecretBytes>, encoding: ValueEncoding = 'plain'): VaultValues {
  const convert = (secret: SecretBytes): string => (encoding === 'base64' ? secret.base64() : secret.utf8());
  return new VaultValues(converted(data, convert, 'not valid UTF-8; set `encoding: base64`'));
}

/** @throws ValueConversionError with `problem`, naming all keys whose value cannot be converted */
function converted<T, U>(
  values: Iterable<readonly [string, T]>,
  convert: (value: T) => U,
  problem: string,
): (readonly [string, U])[] {
  const done: (readonly [string, U])[] = [];
  const bad: string[] = [];
  for (const [key, value] of values) {
    try {
      done.push([key, convert(value)]);
    } catch (error) {
      if (!(error instanceof NotBase64Error || error instanceof NotUtf8Error)) throw error;
      bad.push(key);
    }
  }
  if (bad.length > 0) throw new ValueConversionError(problem, bad);
  return done;
}

/** Converts one value. @throws NotBase64Error, NotUtf8Error */
function toSecretBytes(value: JsonValue, encoding: ValueEncoding = 'plain'): SecretBytes {
  if (typeof value !== 'string') return SecretBytes.fromUtf8(canonicalJson(value));
  return encoding === 'base64' ? SecretBytes.fromBase64(value) : SecretBytes.fromUtf8(value);
}

/** Returns the keys that Kubernetes does not allow in a Secret. */
export function invalidSecretKeys(keys: Iterable<string>): readonly string[] {
  return [...keys].filter((key) => !isDataKey(key));
}
