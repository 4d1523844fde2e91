/**
 * Tests which Vault entries the generator writes, and which it leaves unchanged. The real External Secrets Operator
 * (ESO) reads the entries.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { longIt } from '../../support/long.ts';
import { GeneratorScene, type Item, STORE } from './support.ts';

const OPT_IN = { create: 'true' };
const FORMAT = 'keyferry.dev/generate-format';

let scene: GeneratorScene;

before(async () => {
  scene = await GeneratorScene.open({ plane: { controllerManager: true } });
  await scene.start();
});
after(() => scene?.close());

describe('the value that ESO puts into the Secret', () => {
  for (const [format, annotations, pattern] of [
    ['hex', { [FORMAT]: 'hex' }, /^[0-9a-f]{64}$/],
    ['uuid', { [FORMAT]: 'uuid' }, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/],
    ['password', { [FORMAT]: 'password', 'keyferry.dev/generate-symbols': '!#' }, /^[A-Za-z0-9!#]{64}$/],
  ] as const) {
    it(`a value in the format ${format} arrives unchanged in ESO's Secret with each decodingStrategy: None, Base64, Base64URL, Auto`, async () => {
      const name = `format-${format}`;
      const items = ['None', 'Base64', 'Base64URL', 'Auto'].map((decodingStrategy): Item => {
        return { key: `app/${name}`, property: decodingStrategy, decodingStrategy };
      });
      await scene.externalSecret(name, items, { annotations: { ...OPT_IN, ...annotations } });
      const values = Object.values(await scene.synced(name));
      assert.equal(values.length, items.length);
      for (const value of values) assert.match(value, pattern);
      assert.equal(new Set(values).size, items.length);
    });
  }
});

describe('entries that the generator writes', () => {
  it('in a Vault mount with cas_required, the generator makes a value, and later adds a second value to the same entry', async () => {
    await scene.vault.request('POST', 'sys/mounts/strict', { type: 'kv', options: { version: '2' } });
    await scene.vault.request('POST', 'strict/config', { cas_required: true });
    await scene.store('strict', { path: 'strict' });
    await scene.externalSecret('strict-0', [{ key: 'app', property: 'a' }], { store: 'strict' });
    await scene.synced('strict-0');
    await scene.externalSecret('strict-1', [{ key: 'strict/app', property: 'b' }], { store: 'strict' });
    await scene.synced('strict-1');
    const { data, metadata } = await scene.entry('strict/data/app');
    assert.deepEqual([Object.keys(data).toSorted((a, b) => (a < b ? -1 : 1)), metadata.version], [['a', 'b'], 2]);
  });

  for (const state of ['deleted', 'destroyed'] as const) {
    it(`if the latest version of an entry is ${state}, the generator makes a value only with generate-when-deleted: "true"`, async () => {
      const path = `app/${state}`;
      await scene.vault.request('POST', `secret/data/${path}`, { data: { a: 'old' } });
      if (state === 'deleted') await scene.vault.request('DELETE', `secret/data/${path}`);
      else await scene.vault.request('PUT', `secret/destroy/${path}`, { versions: [1] });
      await scene.externalSecret(state, [{ key: path, property: 'a' }]);
      const { message } = await scene.says(state, 'Deleted');
      assert.match(message, new RegExp(`the latest version in Vault is ${state}; .*generate-when-deleted: "true"`));
      const annotations = { 'keyferry.dev/generate-when-deleted': 'true' };
      await scene.api.patch(scene.path(state), { metadata: { annotations } });
      await scene.synced(state);
      assert.equal((await scene.entry(`secret/data/${path}`)).metadata.version, 2);
    });
  }

  it('if ESO finds the property a.b as b inside the property a, the generator makes no value', async () => {
    await scene.vault.request('POST', 'secret/data/app/nested', { data: { a: { b: 'inside' } } });
    await scene.externalSecret('nested', [
      { key: 'app/nested', property: 'a.b' },
      { key: 'app/nested-missing', property: 'c' },
    ]);
    const { 'key-0': inside } = await scene.synced('nested');
    assert.equal(inside, 'inside');
    assert.equal((await scene.entry('secret/data/app/nested')).metadata.version, 1);
  });

  it('if an item of an ExternalSecret has a sourceRef, the generator writes its value to the store in sourceRef', async () => {
    await scene.vault.request('POST', 'sys/mounts/second', { type: 'kv', options: { version: '2' } });
    await scene.store('second', { path: 'second' });
    const sourceRef = { storeRef: { name: 'second', kind: 'SecretStore' } };
    await scene.externalSecret('two-stores', [
      { key: 'app/two', property: 'a' },
      { key: 'app/two', property: 'a', sourceRef },
    ]);
    const values = await scene.synced('two-stores');
    const [first, second] = [await scene.entry('secret/data/app/two'), await scene.entry('second/data/app/two')];
    assert.deepEqual(Object.values(values), [first.data.a, second.data.a]);
    assert.notEqual(first.data.a, second.data.a);
  });
});

describe('ExternalSecrets with bad input', () => {
  const rows: readonly (readonly [string, readonly Item[], RegExp, Json?])[] = [
    ['no-store', [{ key: 'app/a', property: 'a' }], /^SecretStore nowhere: does not exist/, { store: 'nowhere' }],
    [
      'too-large',
      [{ key: 'app/large', property: 'a' }],
      /spec\.data\[0\]: vault .*: secret\/data\/app\/large: the entry has \d+ bytes as JSON, and at most \d+ are written/,
    ],
    ['no-property', [{ key: 'app/no-property' }], /spec\.data\[0\]\.remoteRef\.property: no value is made/],
    [
      'wrong-format',
      [{ key: 'app/w', property: 'a' }],
      /keyferry\.dev\/generate-format must be one of/,
      { annotations: { ...OPT_IN, [FORMAT]: 'hexa' } },
    ],
    ['dots', [{ key: 'app/../a', property: 'a' }], /spec\.data\[0\]\.remoteRef\.key: "app\/\.\.\/a" is not the path/],
    [
      'no-token',
      [{ key: 'app/w', property: 'a' }],
      /secret default\/nothing for vault token not found/,
      { store: 'no-token' },
    ],
    [
      'no-key',
      [{ key: 'app/w', property: 'a' }],
      /cannot find token under secret default\/vault-token and key nothing/,
      { store: 'no-key' },
    ],
    [
      'kv1-store',
      [{ key: 'app/w', property: 'a' }],
      /is a KV store of version 2, and the store says version v1/,
      { store: 'kv1-store' },
    ],
  ];

  before(async () => {
    await scene.store('no-token', { auth: { tokenSecretRef: { name: 'nothing', key: 'a' } } });
    await scene.store('no-key', { auth: { tokenSecretRef: { name: 'vault-token', key: 'nothing' } } });
    await scene.store('kv1-store', { version: 'v1' });
    // The generator refuses to write an entry of this size: Vault's limit of 1 MiB, less 512 bytes for the rest of the
    // request.
    await scene.vault.request('POST', 'secret/data/app/large', { data: { other: 'x'.repeat(1024 * 1024 - 512) } });
  });

  for (const [name, items, message, options = {}] of rows) {
    it(`an ExternalSecret with bad input (${name}) gets a message that names the wrong field or object`, async () => {
      await scene.externalSecret(name, items, { store: STORE, ...options });
      if (options.store !== undefined) await failAgain(name);
      const said = await saysOf(name);
      assert.match(said, message);
    });
  }

  it('for ExternalSecrets with bad input, the generator writes nothing to Vault; meanwhile another ExternalSecret gets its value', async () => {
    for (const path of ['app/w', 'app/no-property', 'a']) {
      assert.equal(await scene.entry(`secret/data/${path}`), undefined, path);
    }
    assert.equal((await scene.entry('secret/data/app/large')).metadata.version, 1);
    await scene.externalSecret('fine', [{ key: 'app/with space#%', property: 'a' }]);
    await scene.synced('fine');
  });

  longIt(
    'the generator writes 200 properties that an ExternalSecret needs of one entry as a single version of the entry, and for 100 entries it writes them all',
    async () => {
      const many = Array.from({ length: 200 }, (_, index): Item => ({ key: 'app/many', property: `p${index}` }));
      await scene.externalSecret('many', many);
      await scene.synced('many');
      const { data, metadata } = await scene.entry('secret/data/app/many');
      assert.deepEqual([Object.keys(data).length, metadata.version], [200, 1]);
      const paths = Array.from({ length: 100 }, (_, index): Item => ({ key: `app/path-${index}`, property: 'a' }));
      await scene.externalSecret('paths', paths);
      assert.equal(Object.keys(await scene.synced('paths')).length, 100);
    },
  );
});

/** Writes ESO's status for a missing value, if it is not there yet. For a broken store, ESO writes another status. */
async function failAgain(name: string): Promise<void> {
  if ((await scene.condition(name))?.status !== 'False') await scene.fail(name);
}

async function saysOf(name: string): Promise<string> {
  const { message } = await scene.saysAny(name);
  return message;
}
