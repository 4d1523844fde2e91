/** Pulls: an object with `replicate-from` gets the keys of its source, and keeps its own. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { rowsOf } from '../../support/long.ts';

import { annotations, KINDS, mark, MittwaldScene, OPEN } from './support.ts';

let scene: MittwaldScene;
before(async () => {
  scene = await MittwaldScene.open();
  await scene.namespaces('source', 'team-a', 'team-b', 'team-c');
  await scene.operator();
});
after(() => scene.close());

for (const kind of rowsOf(KINDS))
  describe(`a ${kind.kind} with replicate-from`, () => {
    it('needs both annotations of its source', async () => {
      const users = scene.of(kind);
      const rows: readonly (readonly [string | undefined, string | undefined, boolean])[] = [
        ['true', 'team-a', true],
        ['1', 'other, team-.', true],
        [undefined, 'team-a', false],
        ['false', 'team-a', false],
        ['yes', 'team-a', false],
        ['true', undefined, false],
        ['true', 'team-b', false],
        ['true', 'team', false],
        ['true', '', false],
        ['true', '*-a', true],
        ['true', '*', true],
      ];
      for (const [index, [allowed, list]] of rows.entries()) {
        const given = {
          ...(allowed === undefined ? {} : { allowed }),
          ...(list === undefined ? {} : { 'allowed-namespaces': list }),
        };
        await scene.put(users, `source/row-${index}`, { a: '1' }, given);
        await scene.put(users, `team-a/row-${index}`, { own: 'x' }, { from: `source/row-${index}` });
      }
      for (const [index, [, , isAllowed]] of rows.entries()) {
        if (isAllowed) await users.holds(`team-a/row-${index}`, { a: '1', own: 'x' });
        else {
          await users.warning(`team-a/row-${index}`, 'Denied');
          await users.holds(`team-a/row-${index}`, { own: 'x' });
        }
      }
    });

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

    it('is filled when its source comes, loses only the keys of its source with it, and gets them back', async () => {
      const users = scene.of(kind);
      await scene.put(users, 'team-a/late', { own: 'x' }, { from: 'source/late' });
      await users.warning('team-a/late', 'Denied');
      await scene.put(users, 'source/late', { a: '1' }, OPEN);
      await users.holds('team-a/late', { a: '1', own: 'x' });
      await users.delete('source/late');
      const emptied = await users.holds('team-a/late', { own: 'x' });
      assert.ok(mark(emptied, 'replicated-from-version'));
      assert.ok(mark(emptied, 'replicated-at'));
      assert.equal(mark(emptied, 'replicated-keys'), '');
      await users.stayUnchanged(['team-a/late'], 'an emptied object');
      await scene.put(users, 'source/late', { a: '2' }, OPEN);
      await users.holds('team-a/late', { a: '2', own: 'x' });
    });

    it('keeps what it has when the permission is withdrawn', async () => {
      const users = scene.of(kind);
      await scene.put(users, 'source/withdrawn', { a: '1' }, OPEN);
      await scene.put(users, 'team-a/withdrawn', {}, { from: 'source/withdrawn' });
      await users.holds('team-a/withdrawn', { a: '1' });
      await scene.say(users, 'source/withdrawn', { allowed: 'false' });
      await users.warning('team-a/withdrawn', 'Denied');
      await scene.set(users, 'source/withdrawn', { a: '2' });
      await users.stayUnchanged(['team-a/withdrawn'], 'a denied object');
      await users.holds('team-a/withdrawn', { a: '1' });
    });

    it('pulls and does not push, follows a new source alone, and passes on by its own permission', async () => {
      const users = scene.of(kind);
      await scene.put(users, 'source/head', { a: '1' }, { allowed: 'true', 'allowed-namespaces': 'team-a' });
      await scene.put(users, 'team-a/middle', {}, { ...OPEN, from: 'source/head', to: 'team-c' });
      await scene.put(users, 'team-b/tail', {}, { from: 'team-a/middle' });
      await users.holds('team-b/tail', { a: '1' });
      await scene.set(users, 'source/head', { a: '2' });
      await users.holds('team-b/tail', { a: '2' });
      await scene.absent(users, 'team-c/middle');
      await scene.put(users, 'source/other', { b: '1' }, OPEN);
      await scene.say(users, 'team-b/tail', { from: 'source/other' });
      await users.holds('team-b/tail', { b: '1' });
      await scene.set(users, 'source/head', { a: '3' });
      await users.holds('team-a/middle', { a: '3' });
      await users.holds('team-b/tail', { b: '1' });
      await scene.say(users, 'team-b/tail', { from: null });
      await scene.set(users, 'source/other', { b: '2' });
      await users.stayUnchanged(['team-b/tail'], 'an object that no longer pulls');
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

it('what nobody can read, loops, types that are never copied and immutable objects are events', async () => {
  const { secrets, api } = scene;
  for (const [name, from] of [
    ['no-slash', 'source'],
    ['three', 'source/a/b'],
    ['blank', ' source/a'],
    ['itself', 'team-a/itself'],
  ] as const) {
    await scene.put(secrets, `team-a/${name}`, { own: 'x' }, { from });
    await secrets.warning(`team-a/${name}`, 'IllFormed');
  }
  await scene.put(secrets, 'team-a/ring', { a: 'x' }, { ...OPEN, from: 'team-b/ring' });
  await scene.put(secrets, 'team-b/ring', { b: 'x' }, { ...OPEN, from: 'team-a/ring' });
  await secrets.warning('team-a/ring', 'Loop');
  await secrets.holds('team-a/ring', { a: 'x' });
  await api.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { namespace: 'source', name: 'sa' } });
  const token = { type: 'kubernetes.io/service-account-token' };
  const account = { 'kubernetes.io/service-account.name': 'sa' };
  await scene.put(secrets, 'source/token', { x: '1' }, { ...OPEN, ...account }, token);
  await scene.put(secrets, 'team-a/token', {}, { from: 'source/token' });
  await secrets.warning('team-a/token', 'RefusedType');
  await scene.put(secrets, 'source/frozen', { a: '1' }, OPEN);
  await scene.put(secrets, 'team-a/frozen', { own: 'x' }, { from: 'source/frozen' }, { immutable: true });
  await secrets.warning('team-a/frozen', 'Immutable');
  assert.deepEqual(annotations({ from: 'a/b' }), { 'replicator.v1.mittwald.de/replicate-from': 'a/b' });
});
