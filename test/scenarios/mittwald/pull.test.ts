/** Pulls, where mittwald differs from other systems (`../annotated/pulls.test.ts`): data are merged key by key. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { rowsOf } from '../../support/long.ts';
import { KINDS, mark, MittwaldScene, OPEN } from './support.ts';

let scene: MittwaldScene;
before(async () => {
  scene = await MittwaldScene.open();
  await scene.namespaces('source', 'team-a', 'team-b', 'team-c');
  await scene.operator();
});
after(() => scene.close());

for (const kind of rowsOf(KINDS))
  describe(`a ${kind.kind} with replicate-from`, () => {
    it('is merged key by key, and has the bookkeeping of the original', async () => {
      const users = scene.of(kind);
      await scene.put(users, 'source/merge', { b: '1', a: '1', both: 'source' }, OPEN);
      await scene.put(users, 'team-a/merge', { own: 'x', both: 'own' }, { from: 'source/merge', 'my.org/note': 'x' });
      const filled = await users.holds('team-a/merge', { a: '1', b: '1', both: 'source', own: 'x' });
      assert.equal(mark(filled, 'replicated-keys'), 'a,b,both');
      assert.equal(mark(filled, 'replicated-from-version'), await users.version('source/merge'));
      assert.match(mark(filled, 'replicated-at') ?? '', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
      assert.equal(filled.metadata.annotations['my.org/note'], 'x');
      assert.equal(filled.metadata.annotations['keyferry.dev/target'], undefined);
      assert.equal(filled.metadata.labels, undefined);
      await scene.set(users, 'source/merge', { b: null, c: '2' });
      const changed = await users.holds('team-a/merge', { a: '1', both: 'source', c: '2', own: 'x' });
      assert.equal(mark(changed, 'replicated-keys'), 'a,both,c');
      await users.stayUnchanged(['team-a/merge'], 'a filled object');
      await scene.set(users, 'team-a/merge', { a: 'edited', more: 'x' });
      await users.holds('team-a/merge', { a: '1', both: 'source', c: '2', own: 'x', more: 'x' });
      await scene.set(users, 'team-a/merge', { a: null, own: null });
      await users.holds('team-a/merge', { a: '1', both: 'source', c: '2', more: 'x' });
      await scene.say(users, 'source/merge', { 'my.org/note': 'y' });
      await users.stayUnchanged(['team-a/merge'], 'the metadata of the source have changed');
    });
  });

it('binary keys of a ConfigMap arrive, move between the fields, and go', async () => {
  const { configMaps } = scene;
  await scene.put(configMaps, 'source/binary', { a: '1' }, OPEN, { binaryData: { b: 'AAAA' } });
  await scene.put(configMaps, 'team-a/binary', { own: 'x', b: 'text' }, { from: 'source/binary' });
  const filled = await configMaps.holds('team-a/binary', { a: '1', own: 'x' });
  assert.deepEqual(filled.binaryData, { b: 'AAAA' });
  await scene.api.patch(configMaps.path('source/binary'), { binaryData: { b: null, c: 'BBBB' } });
  const changed = await configMaps.becomes('team-a/binary', ({ binaryData }) => binaryData?.c === 'BBBB', 'changed');
  assert.deepEqual(changed.binaryData, { c: 'BBBB' });
  await configMaps.delete('source/binary');
  const emptied = await configMaps.holds('team-a/binary', { own: 'x' });
  assert.equal(emptied.binaryData, undefined);
});

it('a TLS Secret and a docker config are emptied to the least that their type allows', async () => {
  const { secrets } = scene;
  const encode = (text: string): string => Buffer.from(text).toString('base64');
  const tls = {
    type: 'kubernetes.io/tls',
    data: { 'tls.crt': encode('1'), 'tls.key': encode('2'), 'ca.crt': encode('3') },
  };
  const docker = { type: 'kubernetes.io/dockerconfigjson', data: { '.dockerconfigjson': encode('{"auths":{}}') } };
  for (const [name, given, stub] of [
    ['tls', tls, { 'tls.crt': '', 'tls.key': '', own: encode('x') }],
    ['docker', docker, { '.dockerconfigjson': encode('{}'), own: encode('x') }],
  ] as const) {
    await scene.put(secrets, `source/${name}`, {}, OPEN, given);
    await scene.put(secrets, `team-a/${name}`, {}, { from: `source/${name}` }, { type: given.type, data: stub });
    await secrets.becomes(
      `team-a/${name}`,
      ({ data }) => Object.entries(given.data).every(([key, value]) => data[key] === value) && data.own === stub.own,
      'filled',
    );
    await secrets.delete(`source/${name}`);
    await secrets.becomes(
      `team-a/${name}`,
      ({ data }) => JSON.stringify(data) === JSON.stringify(sorted(stub)),
      'emptied',
    );
    await secrets.stayUnchanged([`team-a/${name}`], 'an emptied Secret');
  }
});

function sorted(data: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(data).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
