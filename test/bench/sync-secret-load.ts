/** The objects in the benchmark of SyncSecret: SyncSecrets of 3 kB in 50 namespaces of the tenant cluster. */
import type { Json } from '../support/api.ts';
import { copyKey, generationOf, generationPatch, Payloads, targetNamespaces } from './workload.ts';

export const TENANT = 'bench';
export const MANAGEMENT_NAMESPACE = `tenant-${TENANT}`;
const BYTES = 3000;
const API_VERSION = 'kubelb.k8c.io/v1alpha1';

export const syncSecretsPath = (namespace: string): string =>
  `/apis/${API_VERSION}/namespaces/${namespace}/syncsecrets`;

/** Namespace and name of a SyncSecret. Both follow from its index. */
export interface Place {
  readonly namespace: string;
  readonly name: string;
}

export function places(count: number, from = 0): Place[] {
  const namespaces = targetNamespaces();
  return Array.from({ length: count }, (_, n) => ({
    namespace: namespaces[(from + n) % namespaces.length] ?? '',
    name: `sync-${String(from + n).padStart(5, '0')}`,
  }));
}

export const keyOf = ({ namespace, name }: Place): string => copyKey(namespace, name);
export const pathOf = ({ namespace, name }: Place): string => `${syncSecretsPath(namespace)}/${name}`;

/** For an object in the management cluster: the key of the tenant's SyncSecret. '' if the object belongs to none. */
export function originOf({ metadata: { labels = {} } }: Json): string {
  const name: string | undefined = labels['kubelb.k8c.io/origin-name'];
  return name === undefined ? '' : copyKey(labels['kubelb.k8c.io/origin-ns'], name);
}

/** The generation in a SyncSecret's data, if its status says that the Secret has these data; otherwise ''. */
export function reportedGenerationOf(object: Json): string {
  const { metadata, status = {} } = object;
  const isReported = status.phase === 'Synced' && status.observedGeneration === metadata.generation;
  return isReported ? generationOf(object) : '';
}

export function* syncSecrets(where: readonly Place[], generation: string): Generator<Json> {
  const payloads = new Payloads();
  for (const metadata of where)
    yield {
      apiVersion: API_VERSION,
      kind: 'SyncSecret',
      type: 'Opaque',
      metadata,
      data: { ...generationPatch(generation).data, payload: payloads.base64(BYTES) },
    };
}
