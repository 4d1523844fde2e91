import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { SecretKeySelector, StoreCondition, VaultProvider } from '../api.ts';
import { StoreError, type StoreUser, type VaultStore, vaultStoreOf } from './store-spec.ts';

const TOKEN = { name: 'vault-token', key: 'token' };
const VAULT: VaultProvider = { server: 'https://vault:8200', auth: { tokenSecretRef: TOKEN } };
const USER: StoreUser = {
  namespace: 'team-a',
  labels: { env: 'dev', tier: '' },
  matches: (expression, text) => new RegExp(expression).test(text),
  mayGetApiTokens: () => false,
};

type Kind = 'SecretStore' | 'ClusterSecretStore';

function storeOf(vault: VaultProvider, kind: Kind = 'SecretStore', user: StoreUser = USER): VaultStore {
  return vaultStoreOf({ kind, name: 'vault' }, { provider: { vault: { ...VAULT, ...vault } } }, user);
}

/** Reason and message of the StoreError that the call must throw. */
function refused(call: () => unknown): string {
  let text = '';
  assert.throws(call, (error) => {
    assert.ok(error instanceof StoreError, String(error));
    text = `${error.reason} ${error.message}`;
    return true;
  });
  return text;
}

test('vaultStoreOf reads the server, the mount and the KV version of a store; the default is KV 2', () => {
  assert.deepEqual(storeOf({}), {
    name: 'SecretStore/vault',
    server: { addr: 'https://vault:8200' },
    ca: undefined,
    auth: { method: 'token', token: { namespace: 'team-a', ...TOKEN } },
    mount: undefined,
    version: 'v2',
  });
  const caBundle = Buffer.from('PEM').toString('base64');
  const full = storeOf({ server: ' http://v ', path: 'team/kv', version: 'v1', namespace: 'ns1', caBundle });
  assert.deepEqual(full.server, { addr: 'http://v', namespace: 'ns1', caBundle: 'PEM' });
  assert.deepEqual([full.mount, full.version], ['team/kv', 'v1']);
  assert.equal(storeOf({ version: 'v2' }).version, 'v2');
});

test('if a store has several logins, the first in the order of ESO is used: token, AppRole, Kubernetes', () => {
  const secretRef = { name: 'role', key: 'secret-id' };
  const secretId = { namespace: 'team-a', name: 'role', key: 'secret-id' };
  assert.deepEqual(storeOf({ auth: { appRole: { roleId: ' id\n', secretRef } } }).auth, {
    method: 'approle',
    mount: 'approle',
    roleId: { text: 'id' },
    secretId,
  });
  const roleRef = { name: 'ids', key: 'role-id' };
  assert.deepEqual(storeOf({ auth: { appRole: { path: 'ci', roleRef, secretRef }, namespace: 'root' } }).auth, {
    method: 'approle',
    mount: 'ci',
    roleId: { namespace: 'team-a', ...roleRef },
    secretId,
    loginNamespace: 'root',
  });
  const serviceAccountRef = { name: 'app', audiences: ['vault', ''] };
  const kubernetes = { role: 'app', serviceAccountRef };
  assert.deepEqual(storeOf({ auth: { kubernetes } }).auth, {
    method: 'kubernetes',
    mount: 'kubernetes',
    role: 'app',
    serviceAccount: { namespace: 'team-a', name: 'app' },
    audiences: ['vault'],
    apiTokens: false,
  });
  const all = { kubernetes, appRole: { roleId: 'id', secretRef } };
  assert.equal(storeOf({ auth: { ...all, tokenSecretRef: TOKEN } }).auth.method, 'token');
  assert.equal(storeOf({ auth: all }).auth.method, 'approle');
  assert.equal(storeOf({ auth: { ldap: {}, kubernetes } }).auth.method, 'kubernetes');
});

test('a store with a Kubernetes login without audiences is allowed only if its server is in --vault-addresses', () => {
  for (const audiences of [undefined, [], ['']]) {
    const serviceAccountRef = { name: 'app', ...(audiences && { audiences }) };
    const vault = { server: ' https://named ', auth: { kubernetes: { role: 'app', serviceAccountRef } } };
    assert.match(
      refused(() => storeOf(vault)),
      /^InvalidStore .*serviceAccountRef\.audiences .*--vault-addresses/,
    );
    const asked: string[] = [];
    const mayGetApiTokens = (addr: string): boolean => asked.push(addr) > 0;
    const { auth } = storeOf(vault, 'SecretStore', { ...USER, mayGetApiTokens });
    assert.ok(auth.method === 'kubernetes' && auth.apiTokens && auth.audiences.length === 0);
    assert.deepEqual(asked, ['https://named']);
  }
});

test('references in a SecretStore always mean its own namespace; references in a ClusterSecretStore may name another namespace', () => {
  const selector = {
    name: fc.constant('n'),
    key: fc.constant('k'),
    namespace: fc.constantFrom('team-a', 'kube-system', ''),
  };
  const ref: fc.Arbitrary<SecretKeySelector> = fc.record(selector, { requiredKeys: ['name', 'key'] });
  const auth = fc.oneof(
    fc.record({ tokenSecretRef: ref }),
    fc.record({ appRole: fc.record({ roleRef: ref, secretRef: ref }) }),
    fc.record({
      kubernetes: fc.record({
        role: fc.constant('r'),
        serviceAccountRef: fc.record(
          { ...selector, audiences: fc.constant(['a']) },
          { requiredKeys: ['name', 'audiences'] },
        ),
      }),
    }),
  );
  const type = fc.constantFrom('Secret', 'ConfigMap');
  const caProvider = fc.record({ ...selector, type }, { requiredKeys: ['name', 'key', 'type'] });
  fc.assert(
    fc.property(auth, caProvider, (login, ca) => {
      const store = storeOf({ auth: login, caProvider: ca });
      const namespaces = [...JSON.stringify([store.auth, store.ca]).matchAll(/"namespace":"([^"]*)"/g)].map(
        ([, one]) => one,
      );
      assert.ok(namespaces.length >= 2);
      assert.deepEqual([...new Set(namespaces)], ['team-a']);
    }),
  );
  const inVault = { ...TOKEN, namespace: 'vault' };
  const cluster = storeOf(
    {
      auth: { tokenSecretRef: inVault },
      caProvider: { type: 'ConfigMap', name: 'ca', key: 'pem', namespace: 'vault' },
    },
    'ClusterSecretStore',
  );
  assert.deepEqual(cluster.auth, { method: 'token', token: inVault });
  assert.deepEqual(cluster.ca, { kind: 'ConfigMap', namespace: 'vault', name: 'ca', key: 'pem' });
  assert.deepEqual(storeOf({}, 'ClusterSecretStore').auth, storeOf({}).auth);
});

test('if a store has both caBundle and caProvider, caBundle is used', () => {
  const caProvider = { type: 'Secret', name: 'ca', key: 'pem' };
  assert.deepEqual(storeOf({ caProvider }).ca, { kind: 'Secret', namespace: 'team-a', name: 'ca', key: 'pem' });
  assert.equal(storeOf({ caProvider, caBundle: 'UEVN' }).ca, undefined);
});

test('if a store cannot be used, the error says which field is invalid', () => {
  const vault = 'spec.provider.vault';
  const kubernetes = { role: 'r' };
  const cases: readonly [provider: VaultProvider, says: string, kind?: Kind][] = [
    [{ server: 'vault:8200' }, `InvalidStore ${vault}.server must begin with http`],
    [{ server: '' }, `InvalidStore ${vault}.server`],
    [{ server: 'file:///etc/passwd' }, `InvalidStore ${vault}.server`],
    [{ path: '' }, `InvalidStore ${vault}.path`],
    [{ path: '//' }, `InvalidStore ${vault}.path`],
    [{ caProvider: { type: 'File', name: 'a', key: 'b' } }, `InvalidStore ${vault}.caProvider`],
    [{ caProvider: { type: 'Secret', name: 'a' } }, `InvalidStore ${vault}.caProvider`],
    [{ caProvider: { type: 'Secret', key: 'a' } }, `InvalidStore ${vault}.caProvider`],
    [
      { caProvider: { type: 'Secret', name: 'a', key: 'b' } },
      `InvalidStore ${vault}.caProvider.namespace`,
      'ClusterSecretStore',
    ],
    [{ tls: { certSecretRef: TOKEN } }, `UnsupportedProvider ${vault}.tls`],
    [{ headers: { 'X-Route': 'a' } }, `UnsupportedProvider ${vault}.headers`],
    [{ auth: { tokenSecretRef: { name: 'a' } } }, `InvalidStore ${vault}.auth.tokenSecretRef`],
    [{ auth: { tokenSecretRef: { key: 'a' } } }, `InvalidStore ${vault}.auth.tokenSecretRef`],
    [{ auth: { appRole: { secretRef: TOKEN } } }, `InvalidStore ${vault}.auth.appRole.roleRef`],
    [{ auth: { appRole: { roleId: 'a' } } }, `InvalidStore ${vault}.auth.appRole.secretRef`],
    [{ auth: { kubernetes: {} } }, `InvalidStore ${vault}.auth.kubernetes.role`],
    [{ auth: { kubernetes } }, `UnsupportedAuth ${vault}.auth.kubernetes`],
    [{ auth: { kubernetes: { ...kubernetes, secretRef: TOKEN } } }, `UnsupportedAuth ${vault}.auth.kubernetes`],
    ...['ldap', 'userPass', 'jwt', 'cert', 'iam', 'gcp'].map((method): [VaultProvider, string] => [
      { auth: { [method]: {} } },
      `UnsupportedAuth ${vault}.auth.${method}`,
    ]),
    [{ auth: {} }, `InvalidStore ${vault}.auth must name a login`],
    [{ auth: { namespace: 'root' } }, `InvalidStore ${vault}.auth must name a login`],
  ];
  for (const [provider, says, kind] of cases) {
    const message = refused(() => storeOf(provider, kind));
    assert.ok(message.startsWith(says), message);
  }
  for (const [name, spec] of [
    ['none', {}],
    ['none', { provider: {} }],
    ['aws', { provider: { aws: { region: 'x' } } }],
  ] as const) {
    const message = refused(() => vaultStoreOf({ kind: 'SecretStore', name: 'vault' }, spec, USER));
    assert.equal(message, `UnsupportedProvider spec.provider: values are made in Vault only, not in ${name}`);
  }
  assert.ok(storeOf({ tls: {}, headers: {} }), 'empty objects count as missing');
});

test('a ClusterSecretStore can be used in the namespaces that its conditions select; without conditions, in all namespaces', () => {
  const selector = (namespaceSelector: NonNullable<StoreCondition['namespaceSelector']>): StoreCondition => ({
    namespaceSelector,
  });
  const expression = (key: string, operator: string, values?: string[]): StoreCondition =>
    selector({ matchExpressions: [{ key, operator, ...(values && { values }) }] });
  const allowed: readonly (readonly StoreCondition[])[] = [
    [],
    [{ namespaces: ['other', 'team-a'] }],
    [{ namespaces: ['other'] }, { namespaces: ['team-a'] }],
    [{ namespaces: ['other'], namespaceRegexes: ['^team-.$'] }],
    [{ namespaceRegexes: ['eam'] }],
    [selector({})],
    [selector({ matchLabels: { env: 'dev' } })],
    [selector({ matchLabels: { tier: '' } })],
    [expression('env', 'In', ['dev', 'test'])],
    [expression('env', 'NotIn', ['prod'])],
    [expression('absent', 'NotIn', ['prod'])],
    [expression('tier', 'Exists')],
    [expression('absent', 'DoesNotExist', [])],
  ];
  const denied: readonly (readonly StoreCondition[])[] = [
    [{}],
    [{ namespaces: [] }],
    [{ namespaces: ['team', 'team-ab', 'TEAM-A', '*'] }],
    [{ namespaceRegexes: ['^eam'] }],
    [selector({ matchLabels: { env: 'prod' } })],
    [selector({ matchLabels: { env: 'dev', absent: '' } })],
    [selector({ matchLabels: { toString: '' } })],
    [selector({ matchLabels: { env: 'dev' }, matchExpressions: [{ key: 'tier', operator: 'DoesNotExist' }] })],
    [expression('env', 'In', ['prod'])],
    [expression('absent', 'In', [''])],
    [expression('env', 'NotIn', ['dev'])],
    [expression('absent', 'Exists')],
    [expression('env', 'DoesNotExist')],
    // ESO refuses a store with one of these invalid requirements.
    [expression('env', 'In', [])],
    [expression('env', 'NotIn', [])],
    [expression('env', 'NotIn')],
    [expression('env', 'Exists', ['dev'])],
    [expression('absent', 'DoesNotExist', ['dev'])],
    [expression('env', 'Equals', ['dev'])],
  ];
  const use = (kind: Kind, conditions: readonly StoreCondition[]): unknown =>
    vaultStoreOf({ kind, name: 'vault' }, { conditions, provider: { vault: VAULT } }, USER);
  for (const conditions of allowed) assert.ok(use('ClusterSecretStore', conditions), JSON.stringify(conditions));
  for (const conditions of denied) {
    const message = refused(() => use('ClusterSecretStore', conditions));
    assert.match(message, /^StoreNotAllowed spec\.conditions: .*team-a/, JSON.stringify(conditions));
    assert.ok(use('SecretStore', conditions), 'a SecretStore has no conditions');
  }
});
