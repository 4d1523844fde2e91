/** Direct mirrors: objects of users with `reflects` get the data of a source that allows it. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { KINDS, mark, ReflectorScene } from './support.ts';

let scene: ReflectorScene;
before(async () => {
  scene = await ReflectorScene.open();
  await scene.namespaces('source', 'team-a', 'team-b');
  await scene.operator();
});
after(() => scene.close());

for (const kind of KINDS)
  describe(`a ${kind.kind} with reflects`, () => {
    it('gets the data of its source and the bookkeeping of reflector, and keeps type, labels and other annotations', async () => {
      const users = scene.of(kind);
      await scene.put(users, 'source/s', { a: '1' }, { allowed: 'true', 'allowed-namespaces': 'team-a' });
      const more = { metadata: { labels: { my: 'label' } }, ...(kind.kind === 'Secret' ? { type: 'my/type' } : {}) };
      await scene.put(users, 'team-a/t', { own: 'x' }, { reflects: ' source / s ', 'my.org/note': 'kept' }, more);
      const filled = await users.holds('team-a/t', { a: '1' });
      assert.equal(mark(filled, 'reflected-version'), await users.version('source/s'));
      assert.equal(mark(filled, 'auto-reflects'), 'False');
      assert.ok(!Number.isNaN(Date.parse(mark(filled, 'reflected-at') ?? '')));
      assert.deepEqual(
        [filled.metadata.labels, filled.type],
        [{ my: 'label' }, kind.kind === 'Secret' ? 'my/type' : undefined],
      );
      assert.equal(filled.metadata.annotations['my.org/note'], 'kept');
      await users.change('source/s', { b: '2', c: '3' });
      const changed = await users.holds('team-a/t', { b: '2', c: '3' });
      assert.equal(mark(changed, 'reflected-version'), await users.version('source/s'));
      await scene.say(users, 'source/s', { 'my.org/other': 'metadata' });
      await users.stayUnchanged(['team-a/t'], 'a mirror whose source has the same data');
    });

    it('is right again after an edit, keeps its data when permission or source go, and follows when they come back', async () => {
      const users = scene.of(kind);
      await scene.put(users, 'team-b/late', {}, { reflects: 'source/late' });
      await users.warning('team-b/late', 'Denied');
      await scene.put(users, 'source/late', { a: '1' });
      await users.stayUnchanged(['team-b/late'], 'a mirror without permission');
      await scene.say(users, 'source/late', { allowed: 'true' });
      await users.holds('team-b/late', { a: '1' });
      await users.change('team-b/late', { a: 'edited' });
      await users.holds('team-b/late', { a: '1' });
      await scene.say(users, 'source/late', { allowed: 'false' });
      await users.change('source/late', { a: '2' });
      await users.stayUnchanged(['team-b/late'], 'a mirror whose permission was withdrawn');
      await scene.say(users, 'source/late', { allowed: 'TRUE' });
      await users.holds('team-b/late', { a: '2' });
      await users.delete('source/late');
      await users.stayUnchanged(['team-b/late'], 'a mirror whose source is deleted');
      await scene.put(users, 'source/late', { a: '3' }, { allowed: 'true' });
      await users.holds('team-b/late', { a: '3' });
      await users.delete('team-b/late');
      await scene.put(users, 'team-b/late', {}, { reflects: 'source/late' });
      await users.holds('team-b/late', { a: '3' });
      await scene.say(users, 'team-b/late', { reflects: null });
      await users.change('source/late', { a: '4' });
      await users.stayUnchanged(['team-b/late'], 'an object that is no mirror any more');
    });
  });

it('a mirror in the namespace of its source needs that namespace to be allowed, and a mirror can serve another one', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/near', { a: '1' }, { allowed: 'true', 'allowed-namespaces': 'team-a' });
  await scene.put(secrets, 'source/beside', {}, { reflects: 'source/near', allowed: 'true' });
  await secrets.warning('source/beside', 'Denied');
  await scene.say(secrets, 'source/near', { 'allowed-namespaces': 'source' });
  await secrets.holds('source/beside', { a: '1' });
  await scene.put(secrets, 'team-a/second', {}, { reflects: 'source/beside' });
  await secrets.holds('team-a/second', { a: '1' });
  await secrets.change('source/near', { a: '2' });
  await secrets.holds('team-a/second', { a: '2' });
});

it('a source may allow namespaces by their labels: a label that is put on or taken off counts at once', async () => {
  const { secrets } = scene;
  await scene.put(
    secrets,
    'source/labelled',
    { a: '1' },
    { allowed: 'true', 'allowed-namespaces-selector': 'tier in (prod)' },
  );
  await scene.put(secrets, 'team-a/labelled', {}, { reflects: 'source/labelled' });
  await secrets.warning('team-a/labelled', 'Denied');
  await scene.label('team-a', { tier: 'prod' });
  await secrets.holds('team-a/labelled', { a: '1' });
  await scene.label('team-a', { tier: null });
  await secrets.change('source/labelled', { a: '2' });
  await secrets.stayUnchanged(['team-a/labelled'], 'a mirror in a namespace without the label');
  await scene.say(secrets, 'source/labelled', { 'allowed-namespaces-selector': 'kubernetes.io/metadata.name=team-a' });
  await secrets.holds('team-a/labelled', { a: '2' });
});

it('objects with a reflects that is no reference stay as they are, and an event says what is wrong', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/plain', { a: '1' }, { allowed: 'true' });
  const bad = { three: 'source/plain/x', slash: '/plain', open: 'source/', bare: 'plain', self: 'team-a/self' };
  for (const [name, reflects] of Object.entries(bad))
    await scene.put(secrets, `team-a/${name}`, { own: name }, { reflects });
  for (const name of Object.keys(bad)) {
    await secrets.warning(`team-a/${name}`, 'IllFormed');
    assert.equal((await secrets.find(`team-a/${name}`)).metadata.managedFields.length, 1);
  }
});

it('the event does not show whether a source elsewhere exists, and mirrors that fill each other are not written', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/hidden', { a: '1' });
  await scene.put(secrets, 'team-a/hidden', {}, { reflects: 'source/hidden' });
  await scene.put(secrets, 'team-a/nothing', {}, { reflects: 'source/nothing' });
  const [hidden, nothing] = [
    await secrets.warning('team-a/hidden', 'Denied'),
    await secrets.warning('team-a/nothing', 'Denied'),
  ];
  assert.equal(hidden.message.replaceAll('hidden', 'x'), nothing.message.replaceAll('nothing', 'x'));
  await scene.put(secrets, 'team-a/ring', { a: 'mine' }, { reflects: 'team-b/ring', allowed: 'true' });
  await scene.put(secrets, 'team-b/ring', { b: 'mine' }, { reflects: 'team-a/ring', allowed: 'true' });
  await secrets.warning('team-a/ring', 'Loop');
  await secrets.warning('team-b/ring', 'Loop');
});

it('a mirror of another type or an immutable one: data alone, or an event', async () => {
  const { secrets } = scene;
  await scene.put(
    secrets,
    'source/typed',
    { username: 'u', password: 'p' },
    { allowed: 'true' },
    { type: 'kubernetes.io/basic-auth' },
  );
  await scene.put(secrets, 'team-a/typed', {}, { reflects: 'source/typed' });
  assert.equal((await secrets.holds('team-a/typed', { username: 'u', password: 'p' })).type, 'Opaque');
  await scene.put(secrets, 'team-b/typed', { own: '1' }, { reflects: 'source/typed' }, { immutable: true });
  await secrets.warning('team-b/typed', 'Immutable');
  await secrets.holds('team-b/typed', { own: '1' });
});

it('an object of a type that is never copied is not filled, whatever the type of its source is, and has an event', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/opaque', { a: '1' }, { allowed: 'true' });
  for (const [name, type] of Object.entries({ boot: 'bootstrap.kubernetes.io/token', helm: 'helm.sh/release.v1' })) {
    await scene.put(secrets, `team-a/${name}`, { own: name }, { reflects: 'source/opaque' }, { type });
    await secrets.warning(`team-a/${name}`, 'RefusedType');
    await secrets.holds(`team-a/${name}`, { own: name });
  }
});

it('binaryData of a ConfigMap is mirrored as it is', async () => {
  const { configMaps, api } = scene;
  const binaryData = { 'x.bin': Buffer.from([0, 255, 1]).toString('base64') };
  await scene.put(configMaps, 'source/binary', { a: '1' }, { allowed: 'true' }, { binaryData });
  await scene.put(configMaps, 'team-a/binary', {}, { reflects: 'source/binary' }, { binaryData: { old: 'AAAA' } });
  await configMaps.holds('team-a/binary', { a: '1' });
  assert.deepEqual((await configMaps.find('team-a/binary')).binaryData, binaryData);
  await api.patch(configMaps.path('source/binary'), [{ op: 'remove', path: '/binaryData' }], 'json');
  await configMaps.becomes('team-a/binary', (map) => map.binaryData === undefined, 'without binaryData');
});
