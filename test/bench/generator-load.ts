/**
 * The objects in the benchmark of the generator: 500 ExternalSecrets in 50 namespaces, and as many that are ready. Each
 * needs one value from its own entry in Vault. Each namespace has a store and a token of its own.
 */
import type { Json } from '../support/api.ts';
import type { BareCall } from './bare-client.ts';
import { otherNamespaces, targetNamespaces } from './workload.ts';

export const FAILING = 500;
const STORE = 'vault';

/** The namespace and name of an ExternalSecret. */
export interface Place {
  readonly namespace: string;
  readonly name: string;
}

const numbered = (prefix: string, count: number, namespaces: readonly string[]): Place[] =>
  Array.from({ length: count }, (_, n) => ({
    namespace: namespaces[n % namespaces.length] ?? '',
    name: `${prefix}-${String(n).padStart(5, '0')}`,
  }));

export const failingPlaces = (): Place[] => numbered('failing', FAILING, targetNamespaces());
export const readyPlaces = (count: number): Place[] =>
  numbered('ready', count, [...targetNamespaces(), ...otherNamespaces()]);

export const keyOf = ({ namespace, name }: Place): string => `${namespace}/${name}`;
/** The path of the entry in Vault that holds the value of an ExternalSecret. */
export const entryOf = ({ namespace, name }: Place): string => `bench/${namespace}/${name}`;
const pathOf = ({ namespace, name }: Place): string =>
  `/apis/external-secrets.io/v1/namespaces/${namespace}/externalsecrets/${name}`;

export function tokenSecret(namespace: string, token: string): Json {
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'vault-token', namespace }, stringData: { token } };
}

export function store(namespace: string, server: string): Json {
  const auth = { tokenSecretRef: { name: 'vault-token', key: 'token' } };
  return {
    apiVersion: 'external-secrets.io/v1',
    kind: 'SecretStore',
    metadata: { name: STORE, namespace },
    spec: { provider: { vault: { server, path: 'secret', version: 'v2', auth } } },
  };
}

export function externalSecret(place: Place): Json {
  const { namespace, name } = place;
  return {
    apiVersion: 'external-secrets.io/v1',
    kind: 'ExternalSecret',
    metadata: { name, namespace, annotations: { create: 'true' } },
    spec: {
      refreshInterval: '1h',
      secretStoreRef: { name: STORE, kind: 'SecretStore' },
      target: { name },
      data: [{ secretKey: 'password', remoteRef: { key: entryOf(place), property: 'password' } }],
    },
  };
}

/** Writes the status that ESO writes when it could not read the values (with `isReady`: when it could). */
export function statusCall(place: Place, isReady: boolean): BareCall {
  const condition = isReady
    ? { type: 'Ready', status: 'True', reason: 'SecretSynced', message: 'secret synced' }
    : {
        type: 'Ready',
        status: 'False',
        reason: 'SecretSyncedError',
        message: 'could not get secret data from provider',
      };
  const status = { refreshTime: '2026-01-01T00:00:00Z', conditions: [condition] };
  return { method: 'PATCH', path: `${pathOf(place)}/status`, body: JSON.stringify({ status }) };
}
