/** Computes how `kubectl apply` of the manifests would leave the objects in them. Pure. */
import { isDeepStrictEqual } from 'node:util';
import { type Changes, KINDS } from '../../controllers/common/snapshot/inventory.ts';
import type { RuleCollection } from '../../controllers/common/snapshot/reader.ts';
import { type Kind, SECRET } from '../../copy/model/kind.ts';
import { type ResourceKey, resourceKey } from '../../copy/model/keys.ts';
import { quoted } from '../../config/usage-error.ts';
import type { ObjectMeta } from '../../kube/api.ts';
import { notString } from '../../kube/json.ts';
import type { Listed } from '../../kube/list-each.ts';
import { isDataKey } from '../../runtime/text/dns-names.ts';
import { rfc3339 } from '../../runtime/text/texts.ts';
import { isMap, type Manifest, ManifestError, stringsOf } from './manifests.ts';
import { LAST_APPLIED } from '../../copy/model/observed.ts';

/** A manifest of a kind that Keyferry uses. */
export interface Given {
  readonly manifest: Manifest;
  /** `Secret` */
  readonly kind: string;
  /** The kind, if Keyferry copies the content of its objects. */
  readonly content?: Kind;
  /** The collection, if the objects of this kind are rules. */
  readonly collection?: RuleCollection;
  /** Why Keyferry does not serve the manifest's apiVersion; `undefined`: it does. */
  readonly problem?: string | undefined;
  readonly key: ResourceKey;
  /** '' for a Namespace. */
  readonly namespace: string;
  /** The position among the manifests, from 0. */
  readonly index: number;
}

/** Picks the manifests of kinds that Keyferry uses. @param home the namespace for objects without a namespace */
export function givenOf(
  manifests: readonly Manifest[],
  collections: readonly RuleCollection[],
  cluster: string,
  home: string,
): readonly Given[] {
  const planned = new Map<string, Omit<Given, 'manifest' | 'key' | 'namespace' | 'index'>>([
    ['v1 Namespace', { kind: 'Namespace' }],
    ...KINDS.map((content) => [`v1 ${content.kind}`, { kind: content.kind, content }] as const),
    // Manifests that differ only in the version of the API get the same key, because they name the same object.
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

/** How objects would change. If several manifests name an object, the last one counts. @param now wall clock, ms */
export function changesBy(given: readonly Given[], now: number): Changes {
  return new Map(given.map((one) => [one.key, (there) => applied(one, there, now)]));
}

/**
 * @param there the stored object, perhaps without its content. The result changes only if the metadata differ
 * @throws ManifestError, which names the field
 */
function applied(
  { manifest, content, collection, namespace, index }: Given,
  there: Listed | undefined,
  now: number,
): Listed {
  const { name, labels = {}, annotations = {} } = manifest.metadata;
  const last = lastApplied(there?.metadata.annotations);
  const lastMeta = mapIn(last, 'metadata');
  const before: ObjectMeta = there?.metadata ?? {
    name,
    ...(namespace === '' ? {} : { namespace }),
    // Of two rules of the same second, that with the smaller uid counts as older: so the first manifest is oldest.
    uid: `new ${String(index).padStart(9, '0')}`,
    resourceVersion: '1',
    generation: 1,
    creationTimestamp: rfc3339(now),
  };
  const metadata = {
    ...before,
    labels: merged(before.labels ?? {}, mapIn(lastMeta, 'labels'), labels) as Strings,
    annotations: merged(before.annotations ?? {}, mapIn(lastMeta, 'annotations'), annotations) as Strings,
  };
  if (content === undefined) {
    return { metadata, ...(collection && { spec: appliedSpec(collection, there ?? {}, last, manifest) }) };
  }
  if (there === undefined) {
    const type = content.typed ? { type: 'Opaque' } : {};
    return { ...appliedContent(content, type, last, manifest), metadata };
  }
  const setsContent = hasContent(content, manifest);
  const texts = [before.labels ?? {}, before.annotations ?? {}];
  const isOther = setsContent || !isDeepStrictEqual(texts, [metadata.labels, metadata.annotations]);
  const resourceVersion = isOther ? nextVersion(before.resourceVersion) : before.resourceVersion;
  const { managedFields, ...rest } = metadata;
  // If a manifest with content is applied, its user becomes the last writer of the data.
  const keep = setsContent || managedFields === undefined ? {} : { managedFields };
  const generation = setsContent ? { generation: (before.generation ?? 0) + 1 } : {};
  const after = { ...rest, ...keep, ...generation, resourceVersion };
  return { ...there, ...appliedContent(content, there, last, manifest), metadata: after };
}

/** A higher resourceVersion. No copy was made from it, so Keyferry reads the content and compares it. */
export function nextVersion(version: string): string {
  return /^\d+$/.test(version) ? String(BigInt(version) + 1n) : `${version}+`;
}

type Fields = Readonly<Record<string, unknown>>;
type Strings = Readonly<Record<string, string>>;

/**
 * The three-way merge of `kubectl apply`. It sets the fields of the manifest. It removes fields that are empty in the
 * manifest, and fields that are only in the manifest that was applied before.
 */
function merged(there: Fields, last: Fields, given: Fields): Record<string, unknown> {
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

/** The manifest that was applied before, from kubectl's annotation. */
function lastApplied(annotations: Strings | undefined): Fields {
  const text = annotations?.[LAST_APPLIED];
  if (text === undefined) return {};
  try {
    const value: unknown = JSON.parse(text);
    return isMap(value) ? value : {};
  } catch {
    // Any user can write the annotation. Like kubectl, `plan` ignores an invalid value.
    return {};
  }
}

function mapIn(object: Fields, field: string): Fields {
  const value = object[field];
  return isMap(value) ? value : {};
}

/**
 * Content, type and `immutable` of an object after a manifest was applied; if it was not read, only the manifest's.
 * @throws ManifestError, which names the field
 */
function appliedContent(kind: Kind, there: Fields, last: Fields, manifest: Manifest): Fields {
  const content: Record<string, unknown> = {};
  for (const { name, encoding } of kind.fields) {
    content[name] = merged(mapIn(there, name), mapIn(last, name), valuesIn(manifest, name, encoding));
  }
  if (kind.overlay !== undefined) {
    const texts = valuesIn(manifest, 'stringData', 'text');
    content[kind.overlay] = merged(mapIn(there, kind.overlay), mapIn(last, kind.overlay), texts);
  } else if (kind === SECRET) {
    const texts = Object.entries(valuesIn(manifest, 'stringData', 'text'));
    const encoded = texts.map(([key, text]) => [key, Buffer.from(text).toString('base64')]);
    content['data'] = { ...mapIn(content, 'data'), ...(Object.fromEntries(encoded) as Fields) };
  }
  const { object, where } = manifest;
  const type = object['type'] ?? there['type'];
  const immutable = object['immutable'] ?? there['immutable'];
  if (type !== undefined && typeof type !== 'string') throw new ManifestError(`${where}: type ${notString(type)}`);
  if (immutable !== undefined && typeof immutable !== 'boolean') {
    throw new ManifestError(`${where}: immutable is neither true nor false`);
  }
  return { ...content, type, immutable };
}

/** Whether a manifest sets content, type or `immutable`. */
function hasContent(kind: Kind, { object }: Manifest): boolean {
  const fields = [...kind.fields.map(({ name }) => name), 'stringData', 'type', 'immutable'];
  return fields.some((field) => object[field] !== undefined && object[field] !== null);
}

/** The spec of a rule after a manifest was applied. @throws ManifestError, which names the field */
function appliedSpec({ specProblem }: RuleCollection, there: Fields, last: Fields, manifest: Manifest): Fields {
  const { object, where } = manifest;
  const spec = object['spec'] ?? {};
  if (!isMap(spec)) throw new ManifestError(`${where}: spec is not an object`);
  const problem = specProblem?.(spec);
  if (problem !== undefined) throw new ManifestError(`${where}: ${problem}`);
  return merged(mapIn(there, 'spec'), mapIn(last, 'spec'), spec);
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** The values in a field, as the API server reads them. @throws ManifestError, which names the field */
function valuesIn({ object, where }: Manifest, field: string, encoding: 'base64' | 'text'): Strings {
  const values = Object.entries(stringsOf(object[field], where, field)).map(([key, text]) => {
    if (!isDataKey(key)) {
      throw new ManifestError(`${where}: ${field}: ${quoted(key)} is not a valid key: use letters, digits, -, _ and .`);
    }
    if (encoding === 'text') return [key, text];
    // The API server ignores line ends in base64.
    const value = text.replaceAll(/[\n\r]/g, '');
    if (!BASE64.test(value)) throw new ManifestError(`${where}: ${field}.${key} is not base64`);
    return [key, value];
  });
  return Object.fromEntries(values) as Strings;
}
