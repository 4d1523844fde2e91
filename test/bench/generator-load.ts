/**
 * The objects in the benchmark of the generator: 500 ExternalSecrets in 50 namespaces, and as many that are ready. Each
 * needs one value from its own entry in Vault. Each namespace has two stores: one logs in with a token, one with an
 * AppRole.
 */
import type { EsoVersion } from '../servers/external-secrets.ts';
import type { Json } from '../support/api.ts';
import type { BareCall } from './bare-client.ts';
import { otherNamespaces, targetNamespaces } from './workload.ts';

export const FAILING = 500;
/** How a store logs in. It is also the name of the store. */
export type Login = 'token' | 'approle';

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

export const failingPlaces = (prefix: string): Place[] => numbered(prefix, FAILING, targetNamespaces());
/** ExternalSecrets for the bare client. They lack the annotation of the generator, so the generator ignores them. */
export const barePlaces = (): Place[] => numbered('bare', FAILING, otherNamespaces());
export const readyPlaces = (count: number): Place[] =>
  numbered('ready', count, [...targetNamespaces(), ...otherNamespaces()]);

export const keyOf = ({ namespace, name }: Place): string => `${namespace}/${name}`;
/** The path of the entry in Vault that holds the value of an ExternalSecret. */
export const entryOf = ({ namespace, name }: Place): string => `bench/${namespace}/${name}`;
export const pathOf = ({ namespace, name }: Place, version: EsoVersion): string =>
  `/apis/external-secrets.io/${version}/namespaces/${namespace}/externalsecrets/${name}`;

export function tokenSecret(namespace: string, token: string): Json {
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'vault-token', namespace }, stringData: { token } };
}

export function roleSecret(namespace: string, roleId: string, secretId: string): Json {
  const stringData = { 'role-id': roleId, 'secret-id': secretId };
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'vault-role', namespace }, stringData };
}

const AUTH: Readonly<Record<Login, Json>> = {
  token: { tokenSecretRef: { name: 'vault-token', key: 'token' } },
  approle: {
    appRole: {
      path: 'approle',
      roleRef: { name: 'vault-role', key: 'role-id' },
      secretRef: { name: 'vault-role', key: 'secret-id' },
    },
  },
};

export function store(namespace: string, login: Login, server: string): Json {
  return {
    apiVersion: 'external-secrets.io/v1',
    kind: 'SecretStore',
    metadata: { name: `vault-${login}`, namespace },
    spec: { provider: { vault: { server, path: 'secret', version: 'v2', auth: AUTH[login] } } },
  };
}

export function externalSecret(place: Place, login: Login, version: EsoVersion, isOptedIn = true): Json {
  const { namespace, name } = place;
  return {
    apiVersion: `external-secrets.io/${version}`,
    kind: 'ExternalSecret',
    metadata: { name, namespace, ...(isOptedIn && { annotations: { create: 'true' } }) },
    spec: {
      refreshInterval: '1h',
      secretStoreRef: { name: `vault-${login}`, kind: 'SecretStore' },
      target: { name },
      data: [{ secretKey: 'password', remoteRef: { key: entryOf(place), property: 'password' } }],
    },
  };
}

/** Writes the status that ESO writes when it could not read the values (with `isReady`: when it could). */
export function statusCall(place: Place, isReady: boolean, version: EsoVersion): BareCall {
  const condition = isReady
    ? { type: 'Ready', status: 'True', reason: 'SecretSynced', message: 'secret synced' }
    : {
        type: 'Ready',
        status: 'False',
        reason: 'SecretSyncedError',
        message: 'could not get secret data from provider',
      };
  const status = { refreshTime: '2026-01-01T00:00:00Z', conditions: [condition] };
  return { method: 'PATCH', path: `${pathOf(place, version)}/status`, body: JSON.stringify({ status }) };
}

/**
 * The calls that every program must send for these ExternalSecrets: a read and a write to Vault, and an event and an
 * annotation to Kubernetes.
 */
export function bareCalls(places: readonly Place[]): { readonly vault: BareCall[]; readonly kube: BareCall[] } {
  const entry = (place: Place): string => `/v1/secret/data/${entryOf(place)}`;
  const value = JSON.stringify({ data: { password: 'x'.repeat(64) }, options: { cas: 0 } });
  return {
    vault: [
      ...places.map((place): BareCall => ({ method: 'GET', path: entry(place), maybeAbsent: true })),
      ...places.map((place): BareCall => ({ method: 'POST', path: entry(place), body: value })),
    ],
    kube: [
      ...places.map((place): BareCall => ({ method: 'POST', path: eventsPath(place), body: event(place) })),
      ...places.map((place): BareCall => {
        const annotations = { 'example.com/result': 'Success: Vault has the values.' };
        return { method: 'PATCH', path: pathOf(place, 'v1'), body: JSON.stringify({ metadata: { annotations } }) };
      }),
    ],
  };
}

const eventsPath = ({ namespace }: Place): string => `/api/v1/namespaces/${namespace}/events`;

function event({ namespace, name }: Place): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: `${name}.1`, namespace },
    involvedObject: { apiVersion: 'external-secrets.io/v1', kind: 'ExternalSecret', namespace, name },
    type: 'Normal',
    reason: 'Success',
    message: 'Vault has the values.',
    source: { component: 'bare-client' },
    firstTimestamp: '2026-01-01T00:00:00Z',
    lastTimestamp: '2026-01-01T00:00:00Z',
    count: 1,
  });
}
