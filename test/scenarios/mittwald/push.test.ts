/** Pushes, where mittwald differs from other systems (`../annotated/pushes.test.ts`): data are merged key by key. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { rowsOf } from '../../support/long.ts';
import { KINDS, mark, MittwaldScene, OPEN } from './support.ts';

let scene: MittwaldScene;
before(async () => {
  scene = await MittwaldScene.open();
  await scene.namespaces('source', 'team-a', 'team-b', 'team-c', 'the-dev', 'dev-2');
  await scene.operator();
});
after(() => scene.close());

for (const kind of rowsOf(KINDS))
  describe(`a ${kind.kind} with replicate-to`, () => {
    it('leaves the keys, labels and annotations of others on its copy, and takes only its own away', async () => {
      const users = scene.of(kind);
      await scene.put(users, 'source/shared', { a: '1', b: '1' }, { to: 'team-a,team-b' });
      await users.holds('team-a/shared', { a: '1', b: '1' });
      await users.holds('team-b/shared', { a: '1', b: '1' });
      await scene.set(users, 'team-a/shared', { own: 'x' });
      await scene.api.patch(users.path('team-a/shared'), {
        metadata: { labels: { my: 'label' }, annotations: { 'my.org/note': 'x' } },
      });
      await scene.set(users, 'source/shared', { a: '2', b: null });
      const shared = await users.holds('team-a/shared', { a: '2', own: 'x' });
      assert.equal(shared.metadata.labels['my'], 'label');
      assert.equal(shared.metadata.annotations['my.org/note'], 'x');
      await users.stayUnchanged(['team-a/shared'], 'a copy with a key of somebody else');
      await users.delete('source/shared');
      await users.gone('team-b/shared');
      const left = await users.holds('team-a/shared', { own: 'x' });
      assert.deepEqual(left.metadata.annotations, { 'my.org/note': 'x' });
      assert.deepEqual(left.metadata.labels, { my: 'label' });
    });

    it('never touches objects of users, unless they consent', async () => {
      const users = scene.of(kind);
      const foreign = await scene.put(users, 'team-a/taken', { own: '1', a: 'own' });
      const empty = await scene.put(users, 'team-b/taken', {});
      await scene.put(users, 'team-c/taken', { own: '1', a: 'own' }, { 'keyferry.dev/accept-push': 'source' });
      await scene.put(users, 'the-dev/taken', { own: '1' }, { 'keyferry.dev/accept-push': 'other' });
      const source = await scene.put(users, 'source/taken', { a: '1' }, { to: 'source|.*-.*' });
      await users.warning('source/taken', 'Conflict');
      const merged = await users.holds('team-c/taken', { own: '1', a: '1' });
      assert.equal(merged.metadata.labels, undefined);
      assert.equal(merged.metadata.annotations['keyferry.dev/merged-from'], 'source/taken');
      await users.holds('dev-2/taken', { a: '1' });
      await scene.set(users, 'source/taken', { a: null, b: '2' });
      await users.holds('team-c/taken', { own: '1', b: '2' });
      await users.holds('the-dev/taken', { own: '1' });
      await scene.say(users, 'the-dev/taken', { 'keyferry.dev/accept-push': 'source' });
      await users.holds('the-dev/taken', { own: '1', b: '2' });
      await scene.set(users, 'the-dev/taken', { own: null });
      await users.stayUnchanged(['source/taken'], 'the source');
      assert.equal((await users.find('source/taken')).metadata.uid, source.metadata.uid);
      await scene.say(users, 'source/taken', { to: 'team-a,team-b' });
      const left = await users.holds('team-c/taken', { own: '1' });
      assert.deepEqual(left.metadata.annotations, { 'keyferry.dev/accept-push': 'source' });
      await users.holds('the-dev/taken', {});
      await users.gone('dev-2/taken');
      await users.delete('source/taken');
      await users.stayUnchanged(['team-a/taken', 'team-b/taken'], 'objects of users');
      for (const [name, before] of [
        ['team-a/taken', foreign],
        ['team-b/taken', empty],
      ] as const)
        assert.equal(await users.version(name), before.metadata.resourceVersion);
    });
  });

it('labels travel unless strip-labels is "true"; owner references only with exactly "true"', async () => {
  const { secrets, api } = scene;
  const owner = await api.create({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { namespace: 'source', name: 'owner' },
  });
  const { name, uid } = owner.metadata;
  const metadata = {
    labels: { app: 'x' },
    ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name, uid, controller: true }],
  };
  const put = async (object: string, given: Record<string, string>): Promise<Json> => {
    await scene.put(secrets, `source/${object}`, { a: '1' }, { to: 'team-a', ...given }, { metadata });
    return await secrets.holds(`team-a/${object}`, { a: '1' });
  };
  const copy = { 'keyferry.dev/copy': 'mittwald' };
  assert.deepEqual((await put('strip', { 'strip-labels': 'true' })).metadata.labels, copy);
  const kept = await put('strip-not', { 'strip-labels': 'false', 'keep-owner-references': '1' });
  assert.deepEqual([kept.metadata.labels, kept.metadata.ownerReferences], [{ ...copy, app: 'x' }, undefined]);
  const owned = await put('owned', { 'keep-owner-references': 'true' });
  assert.deepEqual(owned.metadata.ownerReferences, metadata.ownerReferences);
  await secrets.stayUnchanged(['team-a/owned'], 'a copy with owner references');
  await scene.put(secrets, 'source/own-less', { a: '1' }, { to: 'team-a', 'keep-owner-references': 'true' });
  await secrets.holds('team-a/own-less', { a: '1' });
  await api.patch(secrets.path('team-a/own-less'), { metadata: { ownerReferences: metadata.ownerReferences } });
  await scene.set(secrets, 'source/own-less', { a: '2' });
  const others = await secrets.holds('team-a/own-less', { a: '2' });
  assert.deepEqual(others.metadata.ownerReferences, metadata.ownerReferences, 'somebody else put them there');
  await scene.say(secrets, 'source/strip-not', { 'strip-labels': 'true' });
  await secrets.becomes(
    'team-a/strip-not',
    ({ metadata: { labels } }) => labels['app'] === undefined,
    'without the label',
  );
});

it('patterns mean what their users mean: names, stars at the begin, groups, whole names; selectors, also the empty one', async () => {
  const { secrets } = scene;
  const all = ['dev-2', 'team-a', 'team-b', 'team-c', 'the-dev'];
  const rows: Record<string, readonly [Record<string, string>, readonly string[]]> = {
    name: [{ to: 'team-a' }, ['team-a']],
    part: [{ to: 'team' }, []],
    star: [{ to: '*' }, all],
    tail: [{ to: '*-dev' }, ['the-dev']],
    regex: [{ to: 'team-[ab]' }, ['team-a', 'team-b']],
    anchors: [{ to: '^team-(a|c)$' }, ['team-a', 'team-c']],
    half: [{ to: 'team-a|dev' }, ['team-a']],
    empty: [{ to: '' }, []],
    blanks: [{ to: ' , ' }, []],
    matching: [{ matching: 'tier in (one)' }, ['team-b']],
    both: [{ to: 'team-a', matching: 'tier=one' }, ['team-a', 'team-b']],
    everywhere: [{ matching: '' }, all],
  };
  await scene.label('team-b', { tier: 'one' });
  for (const [name, [given]] of Object.entries(rows)) await scene.put(secrets, `source/row-${name}`, { a: '1' }, given);
  for (const [name, [, places]] of Object.entries(rows))
    for (const place of places) await secrets.holds(`${place}/row-${name}`, { a: '1' });
  for (const [name, [, places]] of Object.entries(rows))
    for (const place of all.filter((one) => !places.includes(one)))
      assert.equal(await secrets.find(`${place}/row-${name}`), undefined, `${name} in ${place}`);
  const event = await secrets.warning('source/row-half', 'MisreadPattern');
  assert.match(event.message, /kubernetes-replicator also matches the-dev/);
  for (const name of Object.keys(rows)) await secrets.delete(`source/row-${name}`);
});

it('a copy with keys of others is not replaced if its source gets another type: an event says so', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/type', { a: '1' }, { to: 'team-b' });
  await secrets.holds('team-b/type', { a: '1' });
  await scene.set(secrets, 'team-b/type', { own: 'x' });
  await secrets.delete('source/type');
  const type = 'kubernetes.io/basic-auth';
  await scene.put(secrets, 'source/type', { username: '1', password: '2' }, { to: 'team-b' }, { type });
  await secrets.warning('source/type', 'Immutable');
  await secrets.holds('team-b/type', { a: '1', own: 'x' });
});

it('binary keys of a ConfigMap arrive, follow, and go when the source loses them', async () => {
  const { configMaps, api } = scene;
  await scene.put(configMaps, 'source/binary', { a: '1' }, { to: 'team-a' }, { binaryData: { b: 'AAAA' } });
  const made = await configMaps.holds('team-a/binary', { a: '1' });
  assert.deepEqual([made.binaryData, mark(made, 'replicated-keys')], [{ b: 'AAAA' }, 'a,b']);
  await api.patch(configMaps.path('source/binary'), { binaryData: { b: null, c: 'BBBB' } });
  const changed = await configMaps.becomes('team-a/binary', ({ binaryData }) => binaryData?.c === 'BBBB', 'changed');
  assert.deepEqual([changed.binaryData, changed.metadata.uid], [{ c: 'BBBB' }, made.metadata.uid]);
  await api.patch(configMaps.path('source/binary'), { binaryData: null });
  await configMaps.becomes('team-a/binary', ({ binaryData }) => binaryData === undefined, 'without binary keys');
});

it('of two sources the first has the name; the other says so, and takes over when the first goes', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/name', { a: 'source' }, { to: 'team-a' });
  await secrets.holds('team-a/name', { a: 'source' });
  await scene.set(secrets, 'team-a/name', { own: 'x' });
  await scene.put(secrets, 'team-b/name', { b: 'team-b' }, { to: 'team-a' });
  await secrets.warning('team-b/name', 'Conflict');
  await secrets.holds('team-a/name', { a: 'source', own: 'x' });
  await secrets.delete('source/name');
  await secrets.holds('team-a/name', { b: 'team-b', own: 'x' });
});

it('a copy is not filled', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/copied', { a: '1' }, { ...OPEN, to: 'team-a' });
  await secrets.holds('team-a/copied', { a: '1' });
  await scene.put(secrets, 'source/other', { a: 'other' }, OPEN);
  await scene.say(secrets, 'team-a/copied', { from: 'source/other' });
  await secrets.warning('team-a/copied', 'Conflict');
  await secrets.holds('team-a/copied', { a: '1' });
});
