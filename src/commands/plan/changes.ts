/** The objects of manifests as they would be after `kubectl apply`. Pure. */
import { type Changes, KINDS } from '../../controllers/common/snapshot/inventory.ts';
import type { RuleCollection } from '../../controllers/common/snapshot/reader.ts';
import type { Kind } from '../../copy/model/kind.ts';
import { type ResourceKey, resourceKey } from '../../copy/model/keys.ts';
import type { ObjectMeta } from '../../kube/api.ts';
import type { Listed } from '../../kube/list-each.ts';
import { rfc3339 } from '../../runtime/text/rfc3339.ts';
import { appliedContent, appliedSpec, lastApplied, mapIn, merged, hasContent } from './applied.ts';
import type { Manifest } from './manifests.ts';

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
