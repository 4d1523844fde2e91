/** The manifests of kinds that Keyferry uses. */
import { KINDS, type RuleCollection } from '../snapshot/inventory.ts';
import type { Kind } from '../../copy/model/kind.ts';
import { type ResourceKey, resourceKey } from '../../copy/model/keys.ts';
import type { Manifest } from './manifests.ts';

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
