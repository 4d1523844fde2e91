/**
 * The content of a Secret or ConfigMap, ready to be written: its data as JSON, in `SecretBytes`.
 *
 * All copies of a source send the same bytes, so the JSON is made one time. Single values are extracted for Vault
 * alone.
 */
import { createHash } from 'node:crypto';
import { SecretBytes } from '../../runtime/secret-bytes.ts';
import type { Kind } from './kind.ts';

export interface ContentPiece {
  readonly field: string;
  /** A JSON object from keys to values, in base64 or as text. */
  readonly json: SecretBytes;
}

/** Memory that a content takes besides its bytes: objects, buffers, digest and cache entry. Measured: 850. */
const OVERHEAD_BYTES = 1024;

/** What stays in memory when the values of a content are dropped. It is enough to compare two contents. */
export interface Fingerprint {
  /** Two contents with equal data have the same digest, whatever their types are. It never leaves the process. */
  readonly digest: string;
  /** The data keys, as text (`joinKeys`). */
  readonly keys: string;
  /** '' if the kind has no types. */
  readonly type: string;
}

export class Content {
  /** The version of the source that had this content. */
  readonly version: string;
  /** '' if the kind has no types. */
  readonly type: string;
  /** The fields with data, in the order of `Kind.fields`. The first field is always here, even if it is empty. */
  readonly pieces: readonly ContentPiece[];
  /** All copies of a source share this object. */
  readonly fingerprint: Fingerprint;
  /** Memory that this content takes, bytes. Most Secrets are much smaller than the objects around their bytes. */
  readonly weight: number;

  private constructor(version: string, type: string, pieces: readonly ContentPiece[], keys: string) {
    this.version = version;
    this.type = type;
    this.pieces = pieces;
    const hash = createHash('sha256');
    let bytes = 0;
    for (const { field, json } of pieces) {
      hash.update(`${field}:${json.length}:`).update(json.bytes());
      bytes += json.length;
    }
    this.fingerprint = { digest: hash.digest('base64'), keys, type };
    this.weight = bytes + OVERHEAD_BYTES;
  }

  /**
   * Extracts the content of an object. The caller should drop the object afterwards.
   * @param version see `contentVersion`
   */
  static ofObject(kind: Kind, object: Readonly<Record<string, unknown>>, version: string): Content {
    const fields: Record<string, Readonly<Record<string, string>>> = {};
    for (const { name } of kind.fields) {
      const value = object[name];
      if (isStringMap(value)) fields[name] = value;
    }
    if (kind.overlay !== undefined) {
      const [{ name }] = kind.fields;
      const overlay = object[kind.overlay];
      fields[name] = merged(fields[name] ?? {}, isStringMap(overlay) ? overlay : {});
    }
    return Content.ofFields(kind, fields, typeOf(kind, object), version);
  }

  /** Makes content from the maps in the JSON of an object: for each field, the values by key, in base64 or as text. */
  static ofFields(
    kind: Kind,
    fields: Readonly<Record<string, Readonly<Record<string, string>>>>,
    type: string,
    version: string,
  ): Content {
    const pieces: ContentPiece[] = [];
    const keys: string[] = [];
    for (const [index, { name }] of kind.fields.entries()) {
      const values = fields[name] ?? {};
      const names = Object.keys(values).sort();
      if (names.length === 0 && index > 0) continue;
      keys.push(...names);
      // The object has no prototype, so that a key named `__proto__` is stored like any other.
      const sorted: Record<string, string> = Object.create(null) as Record<string, string>;
      for (const key of names) sorted[key] = values[key] ?? '';
      pieces.push({ field: name, json: SecretBytes.fromUtf8(JSON.stringify(sorted)) });
    }
    return new Content(version, type, pieces, joinKeys(keys));
  }

  /** The content with the values of these keys alone, which get the names `to`. Keys that are absent are left out. */
  pick(chosen: readonly { readonly from: string; readonly to: string }[]): Content {
    const keys: string[] = [];
    const pieces = this.pieces.flatMap(({ field, json }, index): ContentPiece[] => {
      const values = JSON.parse(json.utf8()) as Record<string, string>;
      const found = chosen.filter(({ from }) => Object.hasOwn(values, from)).sort(byName);
      if (found.length === 0 && index > 0) return [];
      keys.push(...found.map(({ to }) => to));
      // `fromEntries` treats `__proto__` as an ordinary key.
      const picked = Object.fromEntries(found.map(({ from, to }) => [to, values[from] ?? '']));
      return [{ field, json: SecretBytes.fromUtf8(JSON.stringify(picked)) }];
    });
    return new Content(this.version, this.type, pieces, joinKeys(keys));
  }

  /**
   * The content of an object that shares its data: `lower`, and `upper` where both have a key. A key stands in one field.
   * @param type that of the object
   */
  static merged(kind: Kind, lower: Content, upper: Content, type: string): Content {
    const fields: Record<string, Record<string, string>> = {};
    const above = upper.names;
    for (const { pieces } of [lower.without(above), upper])
      for (const { field, json } of pieces)
        fields[field] = { ...fields[field], ...(JSON.parse(json.utf8()) as Record<string, string>) };
    return Content.ofFields(kind, fields, type, upper.version);
  }

  /** The content without these keys. */
  without(keys: ReadonlySet<string>): Content {
    const rest = [...this.names].filter((key) => !keys.has(key));
    return this.pick(rest.map((key) => ({ from: key, to: key })));
  }

  /** The digest of these keys alone. */
  digestOf(keys: readonly string[]): string {
    return this.pick(keys.map((key) => ({ from: key, to: key }))).fingerprint.digest;
  }

  /** The keys. Each call parses the JSON again. */
  get names(): ReadonlySet<string> {
    return new Set(this.pieces.flatMap(({ json }) => Object.keys(JSON.parse(json.utf8()) as object)));
  }

  /** The same content with another version and type. */
  withVersion(version: string, type = this.type): Content {
    return new Content(version, type, this.pieces, this.fingerprint.keys);
  }

  /** The single values by key. Each call parses the JSON again, so it must not be called for each of many copies. */
  values(kind: Kind): Map<string, SecretBytes> {
    const values = new Map<string, SecretBytes>();
    for (const { field, json } of this.pieces) {
      const encoding = kind.fields.find(({ name }) => name === field)?.encoding;
      for (const [key, text] of Object.entries(JSON.parse(json.utf8()) as Record<string, string>)) {
        values.set(key, encoding === 'base64' ? SecretBytes.fromBase64(text) : SecretBytes.fromUtf8(text));
      }
    }
    return values;
  }
}

/** Longest text of the data keys of an object, characters; a longer text is replaced by its digest. */
const MAX_KEYS = 16 * 1024;

/** A key that the API server accepts in Secrets and ConfigMaps. */
const USUAL_KEY = /^[-._a-zA-Z0-9]+$/;

/** The text of data keys for `Observed.ownKeys`; a long text becomes a digest. A custom resource may have any key. */
export function joinKeys(keys: Iterable<string>): string {
  const sorted = [...keys].sort();
  const joined = sorted.every((key) => USUAL_KEY.test(key)) ? sorted.join(',') : JSON.stringify(sorted);
  return joined.length <= MAX_KEYS ? joined : createHash('sha256').update(joined).digest('base64');
}

/** The keys in a text of `joinKeys`; `undefined`: it is a digest. Only for kinds whose keys are `USUAL_KEY`. */
export function splitKeys(text: string): readonly string[] | undefined {
  if (text.endsWith('=')) return undefined;
  return text === '' ? [] : text.split(',');
}

function byName({ to: a }: { readonly to: string }, { to: b }: { readonly to: string }): number {
  return a < b ? -1 : Number(a > b);
}

/** The type of an object; '' if its kind has no types. */
function typeOf({ typed, defaultType = '' }: Kind, { type }: Readonly<Record<string, unknown>>): string {
  return typed && typeof type === 'string' && type !== '' ? type : defaultType;
}

/**
 * Merges base64 values with texts that replace some of them, as the API server merges `data` and `stringData` of a
 * Secret. A custom resource keeps base64 as the user wrote it, even with line breaks. So the bytes are encoded again,
 * and equal bytes give equal texts.
 */
function merged(
  base64: Readonly<Record<string, string>>,
  overlay: Readonly<Record<string, string>>,
): Record<string, string> {
  // The object has no prototype, so that a key named `__proto__` is stored like any other.
  const values: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const [key, value] of Object.entries(base64)) values[key] = Buffer.from(value, 'base64').toString('base64');
  for (const [key, text] of Object.entries(overlay)) values[key] = Buffer.from(text).toString('base64');
  return values;
}

function isStringMap(value: unknown): value is Record<string, string> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
