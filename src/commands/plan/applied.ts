/** The object after `kubectl apply` of a manifest. Pure. */
import type { RuleCollection } from '../../controllers/common/snapshot/reader.ts';
import type { Kind } from '../../copy/model/kind.ts';
import { SECRET } from '../../copy/model/kind.ts';
import { LAST_APPLIED } from '../../copy/model/observed.ts';
import { isMap, type Manifest, ManifestError, stringsOf } from './manifests.ts';

type Fields = Readonly<Record<string, unknown>>;

/**
 * The three-way merge of `kubectl apply`: sets the fields of the manifest, and removes those that are empty in it, or that the
 * last manifest had and this one does not have.
 */
export function merged(there: Fields, last: Fields, given: Fields): Record<string, unknown> {
  const result: Record<string, unknown> = { ...there };
  for (const key of Object.keys(last)) if (!Object.hasOwn(given, key)) delete result[key];
  for (const [key, value] of Object.entries(given)) {
    const before = result[key];
    const former = last[key];
    if (value === null || value === undefined) delete result[key];
    else if (isMap(value)) result[key] = merged(isMap(before) ? before : {}, isMap(former) ? former : {}, value);
    else result[key] = value;
  }
  return result;
}

/** The manifest that was last applied, from the annotation that kubectl writes. */
export function lastApplied(annotations: Readonly<Record<string, string>> | undefined): Fields {
  const text = annotations?.[LAST_APPLIED];
  if (text === undefined) return {};
  try {
    const value: unknown = JSON.parse(text);
    return isMap(value) ? value : {};
  } catch {
    // Any user may have written it. kubectl ignores an invalid value, too.
    return {};
  }
}

export function mapIn(object: Fields, field: string): Fields {
  const value = object[field];
  return isMap(value) ? value : {};
}

/**
 * Content, type and immutability of an object with a manifest applied. If the object's content is not known, only the manifest's.
 * @throws ManifestError naming the field
 */
export function appliedContent(kind: Kind, there: Fields, last: Fields, { object, where }: Manifest): Fields {
  const content: Record<string, unknown> = {};
  for (const { name, encoding } of kind.fields) {
    const given = stringsOf(object[name], where, name);
    for (const [key, value] of Object.entries(given)) checkKey(where, name, key, encoding === 'base64' ? value : '');
    const values = encoding === 'base64' ? withoutLineEnds(given) : given;
    content[name] = merged(mapIn(there, name), mapIn(last, name), values);
  }
  if (kind === SECRET || kind.overlay !== undefined) {
    const texts = stringsOf(object['stringData'], where, 'stringData');
    for (const key of Object.keys(texts)) checkKey(where, 'stringData', key, '');
    if (kind.overlay === undefined) {
      const encoded = Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString('base64')]);
      content['data'] = { ...mapIn(content, 'data'), ...(Object.fromEntries(encoded) as Fields) };
    } else {
      content[kind.overlay] = merged(mapIn(there, kind.overlay), mapIn(last, kind.overlay), texts);
    }
  }
  const rest = { type: object['type'], immutable: object['immutable'] };
  if (rest.type !== undefined && rest.type !== null && typeof rest.type !== 'string') {
    throw new ManifestError(`${where}: type is not a string`);
  }
  if (rest.immutable !== undefined && rest.immutable !== null && typeof rest.immutable !== 'boolean') {
    throw new ManifestError(`${where}: immutable is neither true nor false`);
  }
  const before = { type: there['type'], immutable: there['immutable'] };
  return { ...content, ...merged(before, {}, withoutUndefined(rest)) };
}

/** Whether a manifest sets any content. */
export function hasContent(kind: Kind, { object }: Manifest): boolean {
  return [...kind.fields.map(({ name }) => name), 'stringData', 'type', 'immutable'].some((field) => {
    return object[field] !== undefined && object[field] !== null;
  });
}

/**
 * The spec of a rule with a manifest applied.
 * @throws ManifestError naming the field
 */
export function appliedSpec(
  { specProblem }: RuleCollection,
  there: Fields,
  last: Fields,
  { object, where }: Manifest,
): Fields {
  const spec = object['spec'] ?? {};
  if (!isMap(spec)) throw new ManifestError(`${where}: spec is not an object`);
  const problem = specProblem?.(spec);
  if (problem !== undefined) throw new ManifestError(`${where}: ${problem}`);
  return merged(mapIn(there, 'spec'), mapIn(last, 'spec'), spec);
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

function checkKey(where: string, field: string, key: string, base64: string): void {
  const isKey = /^[-._a-zA-Z0-9]{1,253}$/.test(key) && key !== '.' && !key.startsWith('..');
  if (!isKey) {
    const text = JSON.stringify(key.slice(0, 63));
    throw new ManifestError(`${where}: ${field}: ${text} is not a valid key: use letters, digits, -, _ and .`);
  }
  if (!BASE64.test(withoutLineEnd(base64))) throw new ManifestError(`${where}: ${field}.${key} is not base64`);
}

function withoutLineEnds(values: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, withoutLineEnd(value)]));
}

/** The server ignores them. */
function withoutLineEnd(base64: string): string {
  return base64.replaceAll(/[\n\r]/g, '');
}

function withoutUndefined(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
