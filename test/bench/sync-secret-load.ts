/**
 * The objects in the benchmark of SyncSecret: 500 SyncSecrets of 3 kB in 50 namespaces of the tenant cluster. The bare
 * client makes the same writes in other namespaces.
 */
import type { Json } from '../support/api.ts';
import type { BareCall } from './bare-client.ts';
import {
  copyKey,
  generationOf,
  generationPatch,
  otherNamespaces,
  Payloads,
  secretsPath,
  targetNamespaces,
} from './workload.ts';

export const TENANT = 'bench';
export const MANAGEMENT_NAMESPACE = `tenant-${TENANT}`;
/** The namespace for the bare client, in both clusters. While it has objects there, no program runs. */
const [BARE_NAMESPACE = ''] = otherNamespaces();
export const SYNC_SECRETS = 500;
const BYTES = 3000;
const FINALIZER = 'kubelb.k8c.io/lb-finalizer';
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
  for (const place of where) yield withKind('SyncSecret', place, payloads, generation);
}

function withKind(kind: 'SyncSecret' | 'Secret', metadata: Json, payloads: Payloads, generation: string): Json {
  return {
    apiVersion: kind === 'Secret' ? 'v1' : API_VERSION,
    kind,
    type: 'Opaque',
    metadata,
    data: { ...generationPatch(generation).data, payload: payloads.base64(BYTES) },
  };
}

/** The calls that the bare client makes in one cluster. */
export interface BareCalls {
  /** Creates the tenant's SyncSecrets, before the measurement. */
  readonly prepare: readonly BareCall[];
  /** What the programs write for new SyncSecrets. */
  readonly create: readonly BareCall[];
  /** What user and programs write when the SyncSecrets are deleted. */
  readonly remove: readonly BareCall[];
}

const bareNames = (): string[] => places(SYNC_SECRETS).map(({ name }) => `bare-${name}`);
const create = (object: Json): BareCall => ({
  method: 'POST',
  path: object.kind === 'Secret' ? secretsPath(BARE_NAMESPACE) : syncSecretsPath(BARE_NAMESPACE),
  body: JSON.stringify(object),
});
const bareSyncSecret = (name: string): string => `${syncSecretsPath(BARE_NAMESPACE)}/${name}`;
const patch = (path: string, body: Json): BareCall => ({ method: 'PATCH', path, body: JSON.stringify(body) });
const remove = (path: string): BareCall => ({ method: 'DELETE', path });
const setFinalizer = (name: string): BareCall => patch(bareSyncSecret(name), { metadata: { finalizers: [FINALIZER] } });
const dropFinalizer = (name: string): BareCall => patch(bareSyncSecret(name), { metadata: { finalizers: null } });
const setStatus = (name: string, phase = 'Synced'): BareCall =>
  patch(`${bareSyncSecret(name)}/status`, {
    status: {
      phase,
      observedGeneration: 1,
      conditions: [
        {
          type: 'Synced',
          status: 'True',
          reason: phase,
          message: 'Secret synced successfully',
          observedGeneration: 1,
          lastTransitionTime: '2026-01-01T00:00:00Z',
        },
      ],
    },
  });

/** The calls in the tenant cluster. Finalizer and status of each object are written one time. */
export function bareTenantCalls(): BareCalls {
  const payloads = new Payloads();
  const all = bareNames();
  const object = (name: string): Json => withKind('SyncSecret', { namespace: BARE_NAMESPACE, name }, payloads, '1');
  return {
    prepare: all.map((name) => create(object(name))),
    create: [...all.map(setFinalizer), ...all.map((name) => setStatus(name))],
    remove: [...all.map((name) => remove(bareSyncSecret(name))), ...all.map(dropFinalizer)],
  };
}

/**
 * The calls in the management cluster: finalizer, status, and creation and deletion of copy and Secret. While a copy is
 * being deleted, its status is written again.
 */
export function bareManagementCalls(): BareCalls {
  const payloads = new Payloads();
  const all = bareNames();
  const object = (kind: 'SyncSecret' | 'Secret', name: string): Json =>
    withKind(kind, { namespace: BARE_NAMESPACE, name, labels: originLabels(name) }, payloads, '1');
  return {
    prepare: [],
    create: [
      ...all.map((name) => create(object('SyncSecret', name))),
      ...all.map(setFinalizer),
      ...all.map((name) => create(object('Secret', name))),
      ...all.map((name) => setStatus(name)),
    ],
    remove: [
      ...all.map((name) => remove(bareSyncSecret(name))),
      ...all.map((name) => setStatus(name, 'Terminating')),
      ...all.map((name) => remove(`${secretsPath(BARE_NAMESPACE)}/${name}`)),
      ...all.map(dropFinalizer),
    ],
  };
}

/** The labels that the CCM writes. No row expects objects with the origin that they name. */
function originLabels(name: string): Json {
  return {
    'kubelb.k8c.io/origin-name': name,
    'kubelb.k8c.io/origin-ns': BARE_NAMESPACE,
    'kubelb.k8c.io/origin-namespace': BARE_NAMESPACE,
  };
}
