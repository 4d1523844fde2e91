/**
 * Names of the things that the engine's queues and maps are keyed by. All are plain strings, so that they can be compared,
 * kept in a `Map` and written into a log.
 */

/** A rule: the object in which a user asks for copies. `mirrors:default/mysecret-mirror`. */
export type RuleKey = string;

/** Something that can hold content: a Kubernetes object (`local:Secret/default/mysecret`) or a Vault entry (`vault:…`). */
export type ResourceKey = string;

export interface ObjectName {
  readonly cluster: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
}

/** The key of a namespaced Kubernetes object. */
export function resourceKey(cluster: string, kind: string, namespace: string, name: string): ResourceKey {
  return `${cluster}:${kind}/${namespace}/${name}`;
}

/** The parts of a Kubernetes object's key. @throws TypeError for any other key */
export function parseResourceKey(key: ResourceKey): ObjectName {
  const colon = key.indexOf(':');
  const [kind, namespace, name] = key.slice(colon + 1).split('/');
  if (colon < 0 || kind === undefined || namespace === undefined || name === undefined) {
    throw new TypeError(`not the key of a Kubernetes object: ${key}`);
  }
  return { cluster: key.slice(0, colon), kind, namespace, name };
}

/** The backend a key belongs to: the cluster's name, or `vault`. */
export function backendOf(key: ResourceKey): string {
  return key.slice(0, key.indexOf(':'));
}
