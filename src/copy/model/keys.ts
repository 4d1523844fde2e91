/** Keys of the engine's queues and maps. All are strings, so that they can be compared and logged. */

import { flatText } from '../../runtime/flat-text.ts';

/** A rule: the object in which a user requests copies. `mirrors:default/mysecret-mirror`. */
export type RuleKey = string;

/** A resource that can hold content: a Kubernetes object (`local:Secret/default/mysecret`) or a Vault entry (`vault:…`). */
export type ResourceKey = string;

export interface ObjectName {
  readonly cluster: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
}

/** The key of a namespaced Kubernetes object. */
export function resourceKey(cluster: string, kind: string, namespace: string, name: string): ResourceKey {
  return flatText(cluster, ':', kind, '/', namespace, '/', name);
}

interface ParsedKey {
  readonly key: ResourceKey;
  readonly parts: ObjectName;
}

/** The last two parsed keys, because one write parses the keys of its target and its source thirty times. */
let lastParsed: ParsedKey | undefined;
let parsedBefore: ParsedKey | undefined;

/** The parts of a Kubernetes object's key. @throws TypeError for any other key */
export function parseResourceKey(key: ResourceKey): ObjectName {
  if (lastParsed?.key === key) return lastParsed.parts;
  if (parsedBefore?.key === key) return parsedBefore.parts;
  const colon = key.indexOf(':');
  const first = key.indexOf('/', colon);
  const second = key.indexOf('/', first + 1);
  if (colon < 0 || first < 0 || second < 0) throw new TypeError(`not the key of a Kubernetes object: ${key}`);
  const third = key.indexOf('/', second + 1);
  const parts = {
    cluster: key.slice(0, colon),
    kind: key.slice(colon + 1, first),
    namespace: key.slice(first + 1, second),
    name: key.slice(second + 1, third < 0 ? undefined : third),
  };
  parsedBefore = lastParsed;
  lastParsed = { key, parts };
  return parts;
}

/** The backend a key belongs to: the cluster's name, or `vault`. */
export function backendOf(key: ResourceKey): string {
  return key.slice(0, key.indexOf(':'));
}

/** The controller of a rule: `mirrors`. */
export function controllerOf(rule: RuleKey): string {
  return rule.slice(0, rule.indexOf(':'));
}

/** The namespace of a rule of any controller (`mirrors:default/x`, `replicator:Secret/default/x`), or of an object (`local:Secret/default/x`). */
export function namespaceOf(key: RuleKey): string {
  const end = key.lastIndexOf('/');
  return end < 0 ? '' : key.slice(Math.max(key.indexOf(':'), key.lastIndexOf('/', end - 1)) + 1, end);
}
