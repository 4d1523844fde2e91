/**
 * Replays the example in the article on the Bash controller, with the real External Secrets Operator: an entry is
 * missing, is made, is deleted, and is made again.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { waitFor } from '../../support/wait-for.ts';
import { GeneratorScene, RESULT } from './support.ts';

const HEX = /^[0-9a-f]{64}$/;

let scene: GeneratorScene;

before(async () => {
  scene = await GeneratorScene.open();
  await scene.start();
});
after(() => scene?.close());

describe('an ExternalSecret with the annotation create: "true"', () => {
  it('an ExternalSecret with create: "true" gets a random value, and ESO reads the value at once', async () => {
    await scene.externalSecret('postgres', [{ key: 'secret/dev-1/postgres', property: 'password' }]);
    const { 'key-0': value = '' } = await scene.synced('postgres');
    assert.match(value, HEX);
    const { data, metadata } = await scene.entry('secret/data/dev-1/postgres');
    assert.deepEqual([data, metadata.version], [{ password: value }, 1]);
    const result = await scene.says('postgres', 'Success');
    assert.equal(result.message, 'A random value was put into Vault.');
    const { output } = scene.operator;
    for (const line of [
      'info: started watching ExternalSecrets.',
      'postgres: the ExternalSecret is Ready=False, let us create a random password and put it in Vault.',
      'postgres: the Vault secret was created.',
    ]) {
      assert.ok(output.includes(line), line);
    }
    assert.ok(!output.includes(value), 'the log has the value');
    assert.deepEqual(
      (await scene.events('postgres')).map(({ type, reason }) => `${type} ${reason}`),
      ['Normal Success'],
    );
  });

  it('after its Vault entry is deleted, an ExternalSecret with create: "true" gets a new value', async () => {
    const { 'key-0': old } = await scene.synced('postgres');
    await scene.vault.request('DELETE', 'secret/metadata/dev-1/postgres');
    await waitFor(async () => (await scene.entry('secret/data/dev-1/postgres')) !== undefined, {
      message: () => `the entry\n${scene.tail()}`,
    });
    await waitFor(async () => ![undefined, old].includes((await scene.synced('postgres'))['key-0']), {
      message: 'the new value in the Secret',
    });
    assert.ok(
      scene.operator.output.includes('postgres: inconsistency: Created is True but SecretSyncedError is False.'),
    );
    const events = (await scene.events('postgres')).map(({ reason }) => reason);
    assert.ok(events.includes('Recreating'), String(events));
  });

  it('an ExternalSecret gets all values of one entry in a single version, even if its keys name the entry in different forms', async () => {
    await scene.externalSecret('several', [
      { key: 'secret/app/several', property: 'a' },
      { key: 'app/several', property: 'b' },
      { key: 'secret/data/app/several', property: 'c' },
      { key: 'app/other', property: 'a' },
    ]);
    const values = await scene.synced('several');
    const several = await scene.entry('secret/data/app/several');
    const other = await scene.entry('secret/data/app/other');
    const expected = [several.data.a, several.data.b, several.data.c, other.data.a];
    assert.deepEqual(Object.values(values), expected);
    assert.equal(new Set(expected).size, 4);
    assert.deepEqual([several.metadata.version, other.metadata.version], [1, 1]);
  });

  it('the generator adds a value to an entry and leaves the other properties of the entry unchanged', async () => {
    const text = '{"data":{"number":1.10,"null":null,"object":{"b":1,"a":[2]},"text":"x"}}';
    await scene.vault.request('POST', 'secret/data/app/partly', JSON.parse(text));
    await scene.externalSecret('partly', [{ key: 'app/partly', property: 'new' }]);
    await scene.synced('partly');
    const { data, metadata } = await scene.entry('secret/data/app/partly');
    const { new: made, ...others } = data;
    assert.match(made, HEX);
    assert.deepEqual(others, JSON.parse(text).data);
    assert.equal(metadata.version, 2);
  });

  it('several ExternalSecrets that read the same property share one value', async () => {
    const names = ['shared-0', 'shared-1', 'shared-2', 'shared-3'];
    await Promise.all(names.map((name) => scene.externalSecret(name, [{ key: 'app/shared', property: 'password' }])));
    const values = await Promise.all(names.map(async (name) => (await scene.synced(name))['key-0']));
    assert.equal(new Set(values).size, 1);
    assert.equal((await scene.entry('secret/data/app/shared')).metadata.version, 1);
  });

  it('if the status of an ExternalSecret changes many times, the generator makes no second version of its value', async () => {
    await scene.externalSecret('churn', [{ key: 'app/churn', property: 'password' }], {
      spec: { target: { name: 'churn', template: { type: 'kubernetes.io/tls' } } },
    });
    await scene.says('churn', 'Success');
    const before = (await scene.api.get(scene.path('churn'))).metadata.annotations[RESULT];
    for (let change = 0; change < 12; change++) {
      await scene.api.patch(`${scene.path('churn')}/status`, {
        status: { refreshTime: `2026-01-01T00:00:${10 + change}Z` },
      });
    }
    await scene.externalSecret('churn-marker', [{ key: 'app/churn-marker', property: 'password' }]);
    await scene.synced('churn-marker');
    assert.equal((await scene.entry('secret/data/app/churn')).metadata.version, 1);
    assert.equal((await scene.api.get(scene.path('churn'))).metadata.annotations[RESULT], before);
  });
});

describe('an ExternalSecret without the annotation', () => {
  it('the generator ignores an ExternalSecret without the annotation create until the annotation is added', async () => {
    await scene.externalSecret('quiet', [{ key: 'app/quiet', property: 'password' }], { annotations: {} });
    await waitFor(async () => (await scene.condition('quiet'))?.status === 'False', { message: 'ESO to fail' });
    await scene.externalSecret('quiet-marker', [{ key: 'app/quiet-marker', property: 'password' }]);
    await scene.synced('quiet-marker');
    assert.equal(await scene.entry('secret/data/app/quiet'), undefined);
    assert.equal(await scene.result('quiet'), undefined);
    await scene.api.patch(scene.path('quiet'), { metadata: { annotations: { create: 'true' } } });
    assert.match((await scene.synced('quiet'))['key-0'] ?? '', HEX);
  });
});
