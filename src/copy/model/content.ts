/**
 * The content of a Secret or ConfigMap, ready to be written: its data as the JSON that goes onto the wire, as `SecretBytes`.
 *
 * Fifty copies of one source send the same bytes, so the JSON is made once. The values themselves are only taken apart
 * where somebody asks for single values (Vault).
 */
import { createHash } from 'node:crypto';
import { SecretBytes } from '../../runtime/secret-bytes.ts';
import type { Kind } from './kind.ts';
import { joinKeys } from './observed.ts';

export interface ContentPiece {
  readonly field: string;
  /** A JSON object: key → base64 or text. */
  readonly json: SecretBytes;
}

/** What a content takes besides its bytes: objects, buffers, digest, the cache's own entry. Measured: 850. */
const OVERHEAD_BYTES = 1024;

export class Content {
  /** The version of the source that this is the content of. */
  readonly version: string;
  /** '' for a kind without types. */
  readonly type: string;
  /** Fields that hold something, in the kind's order; its first field always. */
  readonly pieces: readonly ContentPiece[];
  /** Equal digests: equal data (the type does not count). Never leaves the process. */
  readonly digest: string;
  /** As `Observed.ownKeys`. */
  readonly keys: string;
  readonly keyCount: number;
  /** What it takes to keep it: most Secrets are much smaller than what is around them. */
  readonly weight: number;

  private constructor(version: string, type: string, pieces: readonly ContentPiece[], keys: readonly string[]) {
    this.version = version;
    this.type = type;
    this.pieces = pieces;
    this.keys = joinKeys(keys);
    this.keyCount = keys.length;
    const hash = createHash('sha256');
    let bytes = 0;
    for (const { field, json } of pieces) {
      hash.update(`${field}:${json.length}:`).update(json.bytes());
      bytes += json.length;
    }
    this.digest = hash.digest('base64');
    this.weight = bytes + OVERHEAD_BYTES;
  }

  /** Takes the content out of an object as the API server sent it. The object itself should be dropped by the caller. */
  static ofObject(kind: Kind, object: Readonly<Record<string, unknown>>, version: string): Content {
    const fields: Record<string, Readonly<Record<string, string>>> = {};
    for (const { name } of kind.fields) {
      const value = object[name];
      if (isStringMap(value)) fields[name] = value;
    }
    const type = kind.typed && typeof object['type'] === 'string' ? object['type'] : '';
    return Content.ofFields(kind, fields, type, version);
  }

  /** Makes content from maps as they stand in the object's JSON: for each field, key → base64 or text. */
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
      // A null prototype, so that a key named `__proto__` is a key.
      const sorted: Record<string, string> = Object.create(null) as Record<string, string>;
      for (const key of names) sorted[key] = values[key] ?? '';
      pieces.push({ field: name, json: SecretBytes.fromUtf8(JSON.stringify(sorted)) });
    }
    return new Content(version, type, pieces, keys);
  }

  /** The same content as of another version, and of another type where one is given. */
  withVersion(version: string, type = this.type): Content {
    return new Content(version, type, this.pieces, this.keys === '' ? [] : this.keys.split(','));
  }

  /** The single values. Made anew at each call; not for the path of many copies. */
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

function isStringMap(value: unknown): value is Record<string, string> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
