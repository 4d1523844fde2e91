import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ExternalSecretData, ExternalSecretSpec } from '../api.ts';
import { requestsOf } from './requests.ts';

const STORE = { kind: 'SecretStore', name: 'vault' } as const;
const REF = { key: 'secret/app', property: 'password' };

function spec(...data: readonly ExternalSecretData[]): ExternalSecretSpec {
  return { secretStoreRef: { name: 'vault' }, data };
}

/** Reason, field and message of the problem of an item, which must be the only one. */
function problemOf(item: ExternalSecretData): readonly string[] {
  const { wanted, problems } = requestsOf(spec(item));
  assert.deepEqual(wanted, [], JSON.stringify(item));
  assert.equal(problems.length, 1);
  return problems.flatMap(({ reason, field, message }) => [reason, field, message]);
}

test('each item of spec.data with a key and a property is a wanted value', () => {
  const { wanted, problems } = requestsOf(
    spec(
      { secretKey: 'a', remoteRef: { ...REF, metadataPolicy: 'None', decodingStrategy: 'None', version: '' } },
      { secretKey: 'b', remoteRef: { ...REF, property: 'b', decodingStrategy: 'Base64URL' } },
      { secretKey: 'c', remoteRef: { ...REF, decodingStrategy: '' } },
    ),
  );
  assert.deepEqual(problems, []);
  assert.deepEqual(wanted, [
    { field: 'spec.data[0]', store: STORE, ...REF, decoding: 'None' },
    { field: 'spec.data[1]', store: STORE, key: 'secret/app', property: 'b', decoding: 'Base64URL' },
    { field: 'spec.data[2]', store: STORE, ...REF, decoding: 'None' },
  ]);
});

test('the store in the sourceRef of an item takes precedence over the store of the ExternalSecret', () => {
  const storesOf = (secretStoreRef: ExternalSecretSpec['secretStoreRef'], item: ExternalSecretData): unknown[] =>
    requestsOf({ ...(secretStoreRef && { secretStoreRef }), data: [item] }).wanted.map(({ store }) => store);
  const own = { remoteRef: REF, sourceRef: { storeRef: { kind: 'ClusterSecretStore', name: 'other' } } };
  const cluster = { kind: 'ClusterSecretStore', name: 'other' };
  assert.deepEqual(storesOf({ name: 'vault' }, own), [cluster]);
  assert.deepEqual(storesOf(undefined, own), [cluster]);
  assert.deepEqual(storesOf({ name: 'vault', kind: 'SecretStore' }, { remoteRef: REF }), [STORE]);
  assert.deepEqual(storesOf(cluster, { remoteRef: REF }), [cluster]);
  assert.deepEqual(storesOf(cluster, { remoteRef: REF, sourceRef: { storeRef: { name: 'vault' } } }), [STORE]);
});

test('an item without a store is a problem, even if its sourceRef names no store but the ExternalSecret names one', () => {
  for (const secretStoreRef of [undefined, {}, { name: '' }, { kind: 'ClusterSecretStore' }]) {
    const { problems } = requestsOf({ data: [{ remoteRef: REF }], ...(secretStoreRef && { secretStoreRef }) });
    assert.deepEqual(
      problems.map(({ reason, field }) => [reason, field]),
      [['InvalidStore', 'spec.secretStoreRef']],
    );
  }
  for (const sourceRef of [{}, { storeRef: {} }, { storeRef: { kind: 'ClusterSecretStore' } }]) {
    const [reason, field] = problemOf({ remoteRef: REF, sourceRef });
    assert.deepEqual([reason, field], ['InvalidStore', 'spec.data[0].sourceRef.storeRef']);
  }
});

test('an item for which no value can be made (no property, a fixed version, …) is a problem that names the wrong field', () => {
  const cases: readonly [item: ExternalSecretData, field: string][] = [
    [{ remoteRef: { key: 'secret/app' } }, 'remoteRef.property'],
    [{ remoteRef: { key: 'secret/app', property: '' } }, 'remoteRef.property'],
    [{ remoteRef: { key: 'secret/app', property: 'x'.repeat(513) } }, 'remoteRef.property'],
    [{ remoteRef: { key: '', property: 'a' } }, 'remoteRef.key'],
    [{ remoteRef: { ...REF, version: '3' } }, 'remoteRef.version'],
    [{ remoteRef: { ...REF, metadataPolicy: 'Fetch' } }, 'remoteRef.metadataPolicy'],
    [{ remoteRef: { ...REF, decodingStrategy: 'base64' } }, 'remoteRef.decodingStrategy'],
    [{ remoteRef: REF, sourceRef: { generatorRef: { kind: 'Password', name: 'p' } } }, 'sourceRef.generatorRef'],
    [{}, 'remoteRef.key'],
  ];
  for (const [item, field] of cases) {
    const [reason, where, message] = problemOf(item);
    assert.deepEqual([reason, where], ['NotMade', `spec.data[0].${field}`], JSON.stringify(item).slice(0, 200));
    assert.ok(message !== undefined && message.length > 5 && message.length < 100);
  }
  const { wanted, problems } = requestsOf({
    ...spec({ remoteRef: REF }),
    dataFrom: [{ extract: { key: 'secret/app' } }],
  });
  assert.equal(wanted.length, 1);
  assert.deepEqual(
    problems.map(({ reason, field }) => [reason, field]),
    [['NotMade', 'spec.dataFrom']],
  );
});

test('if one item has a mistake, values are still requested for the other items', () => {
  const { wanted, problems } = requestsOf(spec({ remoteRef: REF }, { remoteRef: { key: 'x' } }, { remoteRef: REF }));
  assert.deepEqual(
    wanted.map(({ field }) => field),
    ['spec.data[0]', 'spec.data[2]'],
  );
  assert.deepEqual(
    problems.map(({ field }) => field),
    ['spec.data[1].remoteRef.property'],
  );
});

test('if an ExternalSecret has 201 items, values are requested for the first 200, and one problem reports the others', () => {
  const items = Array.from({ length: 201 }, (_, index) => ({ remoteRef: { ...REF, property: `p${index}` } }));
  assert.deepEqual(requestsOf(spec(...items.slice(0, 200))).problems, []);
  const { wanted, problems } = requestsOf(spec(...items));
  assert.equal(wanted.length, 200);
  assert.deepEqual(
    problems.map(({ field, message }) => [field, message]),
    [['spec.data', 'has 201 items; values are made only for the first 200']],
  );
});

test('an empty spec of an ExternalSecret requests no values', () => {
  for (const empty of [undefined, {}, { data: [] }]) assert.deepEqual(requestsOf(empty), { wanted: [], problems: [] });
});
