import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VaultProvider } from '../api.ts';
import type { StoreRef, WantedValue } from '../request/requests.ts';
import {
  environmentStore,
  type Places,
  placesOf,
  type StoreSpec,
  type StoreUser,
  type VaultStore,
  vaultStoreOf,
} from './store-spec.ts';

const USER: StoreUser = { namespace: 'dev', labels: {}, matches: () => false, mayGetApiTokens: () => false };

function vault(provider: VaultProvider): StoreSpec {
  const auth = { tokenSecretRef: { name: 'token', key: 'token' } };
  return { provider: { vault: { server: 'http://vault', auth, ...provider } } };
}

const STORES: Readonly<Record<string, StoreSpec>> = {
  'SecretStore vault': vault({ path: 'secret' }),
  'SecretStore one': vault({ path: 'secret', version: 'v1' }),
  'ClusterSecretStore vault': vault({ server: 'http://other', path: 'secret' }),
  'SecretStore aws': { provider: { aws: {} } },
};
const ENVIRONMENT = {
  address: undefined,
  caBundle: undefined,
  tlsServerName: undefined,
  insecureSkipVerify: false,
  namespace: undefined,
};
const storeOf = (ref: StoreRef): VaultStore => vaultStoreOf(ref, STORES[`${ref.kind} ${ref.name}`], USER);

function wanted(index: number, key: string, name = 'vault', kind: StoreRef['kind'] = 'SecretStore'): WantedValue {
  return { field: `spec.data[${index}]`, store: { kind, name }, key, property: `p${index}`, decoding: 'None' };
}

/** Store and path of each entry, with the indexes of the items that read it. */
function summary({ places }: Places): unknown[] {
  return places.flatMap(({ store, entries }) =>
    Array.from(entries.values(), ({ path, values }) => [
      store.name,
      path,
      values.map(({ field }) => field.slice(-2, -1)).join(),
    ]),
  );
}

test('if keys are different spellings of the same path, placesOf returns one entry for them', () => {
  const keys = ['app', 'secret/app', 'secret/data/app', 'secret//app/', 'other', 'app'];
  const { places, problems } = placesOf(
    keys.map((key, index) => wanted(index, key)),
    storeOf,
  );
  assert.deepEqual(problems, []);
  assert.deepEqual(summary({ places, problems }), [
    ['SecretStore/vault', 'secret/data/app', '0,1,2,3,5'],
    ['SecretStore/vault', 'secret/data/other', '4'],
  ]);
  const [place] = places;
  assert.deepEqual(place?.store.server, { addr: 'http://vault' });
  assert.deepEqual(place?.store.auth, { method: 'token', token: { namespace: 'dev', name: 'token', key: 'token' } });
  assert.equal(place?.entries.get('secret/data/app')?.version, 'v2');
});

test('if three stores have the same path, placesOf returns three places', () => {
  const found = placesOf(
    [wanted(0, 'app'), wanted(1, 'app', 'vault', 'ClusterSecretStore'), wanted(2, 'app', 'one')],
    storeOf,
  );
  assert.deepEqual(summary(found), [
    ['SecretStore/vault', 'secret/data/app', '0'],
    ['ClusterSecretStore/vault', 'secret/data/app', '1'],
    ['SecretStore/one', 'secret/app', '2'],
  ]);
});

test('if a key or store cannot be used, placesOf still returns the places of the other values, and each problem once', () => {
  const found = placesOf(
    [
      wanted(0, '../x'),
      wanted(1, 'app', 'missing'),
      wanted(2, 'app2', 'missing'),
      wanted(3, 'app', 'aws'),
      wanted(4, 'app'),
      wanted(5, 'x'.repeat(2000)),
    ],
    storeOf,
  );
  assert.deepEqual(summary(found), [['SecretStore/vault', 'secret/data/app', '4']]);
  assert.deepEqual(
    found.problems.map(({ reason, field }) => [reason, field]),
    [
      ['ErrorCreating', 'spec.data[0].remoteRef.key'],
      ['StoreNotFound', 'SecretStore missing'],
      ['UnsupportedProvider', 'SecretStore aws'],
      ['ErrorCreating', 'spec.data[5].remoteRef.key'],
    ],
  );
});

test('if the environment replaces the stores, all values are on the server in $VAULT_ADDR, and a key is the path, as for vault kv put', () => {
  const values = [wanted(0, 'secret/app'), wanted(1, 'secret/data/app', 'missing'), wanted(2, 'secret')];
  const found = placesOf(values, () => environmentStore({ ...ENVIRONMENT, address: 'http://env' }));
  assert.deepEqual(summary(found), [
    ['environment', 'secret/app', '0'],
    ['environment', 'secret/data/app', '1'],
  ]);
  const { server, auth } = found.places[0]?.store ?? {};
  assert.deepEqual([server?.addr, auth], ['http://env', { method: 'environment' }]);
  assert.equal(found.places[0]?.entries.get('secret/app')?.version, undefined);
  assert.deepEqual(
    found.problems.map(({ field }) => field),
    ['spec.data[2].remoteRef.key'],
  );
  const without = placesOf(values, () => environmentStore(ENVIRONMENT));
  assert.deepEqual(without.places, []);
  assert.match(without.problems[0]?.message ?? '', /\$VAULT_ADDR is not set/);
});
