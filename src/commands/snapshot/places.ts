/** Kind, namespace and name of an object, as the reports have them. */
import type { StatusReport } from '../../../scripts/reports/schemas.ts';
import { parseResourceKey, type ResourceKey } from '../../copy/model/keys.ts';

/** `namespace` is '' for an object without a namespace. */
export type TargetPlace = Pick<StatusReport['orphans'][number], 'kind' | 'namespace' | 'name'>;

/** An object in any cluster, or an entry of Vault. */
export type Place = StatusReport['rules'][number]['elsewhere'][number];

export function placeOf(object: ResourceKey): TargetPlace {
  const { kind, namespace, name } = parseResourceKey(object);
  return { kind, namespace, name };
}

export function vaultPlace(host: string, path: string): Place {
  return { cluster: host, kind: 'Vault', namespace: '', name: path };
}

/** `syncsecret team-a/one in tenant` */
export function placeText({ cluster, kind, namespace, name }: Place): string {
  const place = namespace === '' ? name : `${namespace}/${name}`;
  return `${kind.toLowerCase()} ${place}${cluster === '' ? '' : ` in ${cluster}`}`;
}

/** `Secret default/mysecret` */
export function titleOf({ kind, namespace, name }: TargetPlace): string {
  return `${kind} ${namespace}/${name}`;
}

/** Sorts by system, namespace and name. */
export function byName(a: TargetPlace & { system?: string }, b: TargetPlace & { system?: string }): number {
  for (const field of ['system', 'namespace', 'name'] as const) {
    const [left, right] = [a[field] ?? '', b[field] ?? ''];
    if (left !== right) return left < right ? -1 : 1;
  }
  return 0;
}
