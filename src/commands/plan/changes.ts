/** The objects of manifests as they would be after `kubectl apply`. Pure. */
import { type Changes, KINDS } from '../../controllers/common/snapshot/inventory.ts';
import type { RuleCollection } from '../../controllers/common/snapshot/reader.ts';
import { type Kind, SECRET } from '../../copy/model/kind.ts';
import { type ResourceKey, resourceKey } from '../../copy/model/keys.ts';
import type { ObjectMeta } from '../../kube/api.ts';
import type { Listed } from '../../kube/list-each.ts';
import { isDataKey } from '../../runtime/text/dns-names.ts';
import { rfc3339 } from '../../runtime/text/rfc3339.ts';
import { isMap, type Manifest, ManifestError, stringsOf } from './manifests.ts';
import { LAST_APPLIED } from '../../copy/model/observed.ts';

/** A manifest of a kind that is planned. */
export interface Given {
  readonly manifest: Manifest;
  /** `Secret` */
  readonly kind: string;
  /** Of an object that is copied. */
  readonly content?: Kind;
  /** Of a rule. */
  readonly collection?: RuleCollection;
  /** Of its apiVersion. */
  readonly problem?: string | undefined;
  readonly key: ResourceKey;
  /** '' for a Namespace. */
  readonly namespace: string;
  /** In the order in which they would be applied. */
  readonly index: number;
}

/** The manifests of the kinds that Keyferry uses. @param home namespace of objects that name none */
export function givenOf(
  manifests: readonly Manifest[],
  collections: readonly RuleCollection[],
  cluster: string,
  home: string,
): readonly Given[] {
  const planned = new Map<string, Omit<Given, 'manifest' | 'key' | 'namespace' | 'index'>>([
    ['v1 Namespace', { kind: 'Namespace' }],
    ...KINDS.map((content) => [`v1 ${content.kind}`, { kind: content.kind, content }] as const),
    // All versions are one object.
    ...collections.flatMap((collection) => {
      const { kind, apiVersions } = collection;
      return Array.from(apiVersions, ([version, problem]) => {
        const { content } = collection;
        return [`${version} ${kind}`, { kind, collection, problem, ...(content && { content }) }] as const;
      });
    }),
  ]);
  return manifests.flatMap((manifest, index) => {
    const one = planned.get(manifest.kind);
    if (one === undefined) return [];
    const namespace = one.kind === 'Namespace' ? '' : (manifest.metadata.namespace ?? home);
    const key = resourceKey(cluster, one.kind, namespace, manifest.metadata.name);
    return [{ ...one, manifest, key, namespace, index }];
  });
}

/** The last of several manifests of one object counts. @param now wall clock, ms */
export function changesBy(given: readonly Given[], now: number): Changes {
  return new Map(given.map((one) => [one.key, (there) => applied(one, there, now)]));
}

/**
 * @param there the object with or without its content; whether it changes depends on its metadata alone
 * @throws ManifestError naming the field
 */
function applied(
  { manifest, content: contentKind, collection, namespace, index }: Given,
  there: Listed | undefined,
  now: number,
): Listed {
  const { name, labels = {}, annotations = {} } = manifest.metadata;
  const last = lastApplied(there?.metadata.annotations);
  const lastMeta = mapIn(last, 'metadata');
  const before: ObjectMeta = there?.metadata ?? {
    name,
    ...(namespace === '' ? {} : { namespace }),
    // The uid orders rules that are created in the same second.
    uid: `new ${String(index).padStart(9, '0')}`,
    resourceVersion: '1',
    generation: 1,
    creationTimestamp: rfc3339(now),
  };
  const meta = {
    ...before,
    labels: merged(before.labels ?? {}, mapIn(lastMeta, 'labels'), labels) as Record<string, string>,
    annotations: merged(before.annotations ?? {}, mapIn(lastMeta, 'annotations'), annotations) as Record<
      string,
      string
    >,
  };
  if (collection !== undefined && contentKind === undefined)
    return { metadata: meta, spec: appliedSpec(collection, there ?? {}, last, manifest) };
  if (contentKind === undefined) return { metadata: meta };
  const type = there === undefined && contentKind.typed ? { type: 'Opaque' } : {};
  const content = { ...type, ...appliedContent(contentKind, there ?? type, last, manifest) };
  if (there === undefined) return { ...content, metadata: meta };
  const setsContent = hasContent(contentKind, manifest);
  const isOther = setsContent || !same(before.labels, meta.labels) || !same(before.annotations, meta.annotations);
  const resourceVersion = isOther ? nextVersion(before.resourceVersion) : before.resourceVersion;
  const { managedFields, ...rest } = meta;
  // Applying the manifest makes its user the last one to write the data.
  const keep = setsContent || managedFields === undefined ? {} : { managedFields };
  const generation = setsContent ? { generation: (before.generation ?? 0) + 1 } : {};
  return { ...there, ...content, metadata: { ...rest, ...keep, ...generation, resourceVersion } };
}

function same(before: Readonly<Record<string, string>> = {}, after: Readonly<Record<string, string>>): boolean {
  const keys = Object.keys(after);
  return keys.length === Object.keys(before).length && keys.every((key) => before[key] === after[key]);
}

/** A version that no copy holds, so that the content is read and compared. */
export function nextVersion(version: string): string {
  return /^\d+$/.test(version) ? String(BigInt(version) + 1n) : `${version}+`;
}

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
  if (!isDataKey(key)) {
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
