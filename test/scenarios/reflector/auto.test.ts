/** Automatic mirrors: a source makes a mirror of its name in each namespace that both pairs of its annotations select. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { rowsOf } from '../../support/long.ts';
import { waitFor } from '../../support/wait-for.ts';
import { annotations, autoInto, KINDS, mark, ReflectorScene } from './support.ts';

let scene: ReflectorScene;
before(async () => {
  scene = await ReflectorScene.open();
  await scene.namespaces('source', 'team-a', 'team-b', 'team-c');
  await scene.operator();
});
after(() => scene.close());

for (const kind of rowsOf(KINDS))
  describe(`a ${kind.kind} with reflection-auto-enabled`, () => {
    it('has a mirror in each selected namespace, which follows its data and goes with it', async () => {
      const users = scene.of(kind);
      const more = { metadata: { labels: { not: 'copied' } }, ...(kind.kind === 'Secret' ? { type: 'my/type' } : {}) };
      await scene.put(users, 'source/auto', { a: '1' }, autoInto('team-a, team-b', { 'my.org/note': 'x' }), more);
      const made = await users.holds('team-a/auto', { a: '1' });
      assert.deepEqual(Object.keys(made.metadata.annotations).toSorted(), [
        'keyferry.dev/target',
        ...['auto-reflects', 'reflected-at', 'reflected-version', 'reflects'].map(
          (name) => `reflector.v1.k8s.emberstack.com/${name}`,
        ),
      ]);
      assert.equal(mark(made, 'reflects'), 'source/auto');
      assert.equal(mark(made, 'auto-reflects'), 'True');
      assert.equal(mark(made, 'reflected-version'), await users.version('source/auto'));
      assert.deepEqual(made.metadata.labels, { 'keyferry.dev/copy': 'reflector' });
      assert.deepEqual(
        [made.metadata.ownerReferences, made.metadata.finalizers, made.immutable],
        [undefined, undefined, undefined],
      );
      assert.equal(made.type, kind.kind === 'Secret' ? 'my/type' : undefined);
      await users.holds('team-b/auto', { a: '1' });
      await users.change('source/auto', { b: '2' });
      assert.equal((await users.holds('team-a/auto', { b: '2' })).metadata.uid, made.metadata.uid);
      await users.holds('team-b/auto', { b: '2' });
      await scene.say(users, 'source/auto', { 'my.org/note': 'y' });
      await users.stayUnchanged(['team-a/auto', 'team-b/auto'], 'mirrors of a source with the same data');
      await users.change('team-a/auto', { edited: 'x' });
      await users.holds('team-a/auto', { b: '2' });
      await users.delete('team-b/auto');
      await users.holds('team-b/auto', { b: '2' });
      await scene.say(users, 'source/auto', { 'auto-namespaces': 'team-b,team-c' });
      await users.gone('team-a/auto');
      await users.holds('team-c/auto', { b: '2' });
      await scene.say(users, 'source/auto', { auto: 'false' });
      await users.gone('team-b/auto');
      await scene.say(users, 'source/auto', { auto: 'true' });
      await users.holds('team-b/auto', { b: '2' });
      await scene.say(users, 'source/auto', { allowed: 'false' });
      await users.gone('team-b/auto');
      await scene.say(users, 'source/auto', { allowed: 'true', 'allowed-namespaces': 'team-c' });
      await users.holds('team-c/auto', { b: '2' });
      assert.equal(await users.find('team-b/auto'), undefined);
      await scene.put(users, 'team-c/pull', {}, { reflects: 'source/auto' });
      await users.holds('team-c/pull', { b: '2' });
      await users.delete('source/auto');
      await users.gone('team-c/auto');
      await users.holds('team-c/pull', { b: '2' });
    });
  });

it('a namespace that appears, or gets or loses a label, gets or loses its mirrors', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/later', { a: '1' }, autoInto('later-.*'));
  await scene.put(
    secrets,
    'source/labels',
    { a: '1' },
    { allowed: 'true', auto: 'true', 'auto-namespaces-selector': 'get in (yes,true)' },
  );
  await scene.put(
    secrets,
    'source/either',
    { a: '1' },
    { ...autoInto('team-b'), 'auto-namespaces-selector': 'get=yes' },
  );
  await scene.namespaces('later-one');
  await secrets.holds('later-one/later', { a: '1' });
  await secrets.holds('team-b/either', { a: '1' });
  await scene.label('later-one', { get: 'yes' });
  await secrets.holds('later-one/labels', { a: '1' });
  await secrets.holds('later-one/either', { a: '1' });
  assert.equal(await secrets.find('team-b/labels'), undefined);
  await scene.label('later-one', { get: 'no' });
  await secrets.gone('later-one/labels');
  await secrets.gone('later-one/either');
  await secrets.holds('later-one/later', { a: '1' });
});

it('objects of users stay as they are: a foreign object, a direct mirror in and outside of the list, and the source', async () => {
  const { secrets } = scene;
  const foreign = await secrets.create('team-a/taken', { own: '1' }, {}, { metadata: { labels: { my: 'own' } } });
  await scene.put(secrets, 'team-b/taken', {}, { reflects: 'source/taken' });
  await scene.put(secrets, 'team-c/taken', {}, { reflects: 'source/taken' });
  const source = await scene.put(secrets, 'source/taken', { a: '1' }, autoInto('source|team-[ab]'));
  await secrets.warning('source/taken', 'Conflict');
  for (const name of ['team-b/taken', 'team-c/taken'])
    assert.equal(mark(await secrets.holds(name, { a: '1' }), 'auto-reflects'), 'False');
  await secrets.change('source/taken', { a: '2' });
  await secrets.holds('team-b/taken', { a: '2' });
  await scene.say(secrets, 'source/taken', { 'auto-namespaces': 'team-c' });
  await secrets.stayUnchanged(['source/taken', 'team-a/taken', 'team-b/taken', 'team-c/taken'], 'users have these');
  await scene.say(secrets, 'source/taken', { allowed: 'false' });
  await secrets.stayUnchanged(['source/taken', 'team-b/taken'], 'the source and a direct mirror');
  assert.equal((await secrets.find('source/taken')).metadata.uid, source.metadata.uid);
  await secrets.delete('source/taken');
  await secrets.stayUnchanged(['team-a/taken', 'team-b/taken'], 'objects of users whose source is gone');
  assert.equal((await secrets.find('team-a/taken')).metadata.resourceVersion, foreign.metadata.resourceVersion);
});

it('the source lives on, also if its own namespace was selected and is no more', async () => {
  const { secrets } = scene;
  await scene.label('source', { home: 'yes' });
  await scene.label('team-a', { home: 'yes' });
  const selector = { 'allowed-namespaces-selector': 'home', 'auto-namespaces-selector': 'home=yes' };
  const ends: Readonly<Record<string, () => Promise<unknown>>> = {
    label: async () => {
      await scene.label('source', { home: null });
      await scene.label('team-a', { home: null });
    },
    selector: async () => await scene.say(secrets, 'source/selector', { 'auto-namespaces-selector': 'home=no' }),
    list: async () => await scene.say(secrets, 'source/list', { 'auto-namespaces': 'team-b' }),
    'allowed-list': async () => await scene.say(secrets, 'source/allowed-list', { 'allowed-namespaces': 'team-b' }),
    allowed: async () => await scene.say(secrets, 'source/allowed', { allowed: 'false' }),
    auto: async () => await scene.say(secrets, 'source/auto-off', { auto: 'false' }),
  };
  const sources: Json[] = [];
  for (const end of Object.keys(ends)) {
    const name = end === 'auto' ? 'auto-off' : end;
    const given =
      end === 'label' || end === 'selector'
        ? { allowed: 'true', auto: 'true', ...selector }
        : autoInto('source,team-a');
    sources.push(await scene.put(secrets, `source/${name}`, { a: '1' }, given));
    await secrets.holds(`team-a/${name}`, { a: '1' });
  }
  // The label is taken off last: before, it selects for another source, too.
  for (const end of Object.values(ends).toReversed()) await end();
  for (const { metadata } of sources) await secrets.gone(`team-a/${metadata.name}`);
  await secrets.stayUnchanged(
    sources.map(({ metadata }) => `source/${metadata.name}`),
    'sources',
  );
  for (const { metadata } of sources)
    assert.equal((await secrets.find(`source/${metadata.name}`)).metadata.uid, metadata.uid);
});

it('annotations for automatic mirrors on a mirror push nothing, and a copy is no source unless a user says so', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/chain', { a: '1' }, autoInto('team-a'));
  await scene.put(secrets, 'team-b/chained', {}, { ...autoInto('team-c'), reflects: 'source/chain' });
  await scene.put(secrets, 'team-c/from-copy', {}, { reflects: 'team-a/chain' });
  await secrets.holds('team-b/chained', { a: '1' });
  await secrets.warning('team-c/from-copy', 'Denied');
  await scene.absent(secrets, 'team-c/chained');
  await scene.say(secrets, 'team-a/chain', { allowed: 'true' });
  await secrets.holds('team-c/from-copy', { a: '1' });
});

it('a Secret of a type that is never copied has an event', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/release', { release: '1' }, autoInto('team-a'), { type: 'helm.sh/release.v1' });
  await secrets.warning('source/release', 'RefusedType');
  await scene.put(secrets, 'source/boot', {}, autoInto('team-a'), { type: 'bootstrap.kubernetes.io/token' });
  await secrets.warning('source/boot', 'RefusedType');
  await scene.api.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { namespace: 'source', name: 'sa' } });
  const token = { 'kubernetes.io/service-account.name': 'sa' };
  await scene.put(secrets, 'source/token', { x: '1' }, autoInto('team-a', token), {
    type: 'kubernetes.io/service-account-token',
  });
  await secrets.warning('source/token', 'RefusedType');
  for (const name of ['release', 'boot', 'token']) assert.equal(await secrets.find(`team-a/${name}`), undefined);
});

it('values that nobody can read stop no other source, delete no copy, and are events on their objects', async () => {
  const { secrets } = scene;
  const bad: Record<string, readonly [string, string]> = {
    star: ['*', 'IllFormed'],
    open: ['(((', 'IllFormed'],
    behind: ['(?<=x)y', 'Unsupported'],
    long: [`team-a,${'x'.repeat(100_000)}`, 'IllFormed'],
  };
  await scene.put(secrets, 'source/kept', { a: '1' }, autoInto('team-a'));
  await secrets.holds('team-a/kept', { a: '1' });
  for (const [name, [list]] of Object.entries(bad))
    await scene.put(secrets, `source/${name}`, { a: '1' }, autoInto(list));
  await scene.say(secrets, 'source/kept', { 'auto-namespaces': 'team-b,team-a(' });
  await scene.put(secrets, 'source/fine', { a: '1' }, autoInto('(a+)+$,^(?!(?:team-a|source)$)team-.*'));
  await secrets.holds('team-b/fine', { a: '1' });
  await secrets.holds('team-b/kept', { a: '1' });
  for (const [name, [, reason]] of Object.entries(bad)) await secrets.warning(`source/${name}`, reason);
  await secrets.warning('source/kept', 'IllFormed');
  await secrets.holds('team-a/kept', { a: '1' });
  assert.equal(await secrets.find('team-a/fine'), undefined);
  await scene.say(secrets, 'source/kept', { 'auto-namespaces': 'team-b' });
  await secrets.gone('team-a/kept');
  await scene.put(secrets, 'source/word', { a: '1' }, { ...autoInto('team-a'), auto: 'yes' });
  await secrets.warning('source/word', 'IllFormed');
  assert.equal(await secrets.find('team-a/word'), undefined);
});

it('a list that no namespace can match is an event on its object', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/upper', { a: '1' }, autoInto('TA'));
  await secrets.warning('source/upper', 'MisreadPattern');
  // Only commas mean nobody, which some users want.
  await scene.put(secrets, 'source/nobody', { a: '1' }, autoInto('team-a', { 'allowed-namespaces': ',,,' }));
  await scene.absent(secrets, 'team-a/nobody');
  const events = await scene.api.list('/api/v1/namespaces/source/events');
  assert.deepEqual(
    events.filter(({ involvedObject }) => involvedObject.name === 'nobody'),
    [],
  );
});

it('a source with another type, and a mirror that somebody made immutable, are replaced', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/type', { a: '1' }, autoInto('team-a'));
  const before: Json = await secrets.holds('team-a/type', { a: '1' });
  await secrets.delete('source/type');
  await scene.put(secrets, 'source/type', { username: '1', password: '2' }, autoInto('team-a'), {
    type: 'kubernetes.io/basic-auth',
  });
  const after = await secrets.becomes(
    'team-a/type',
    ({ type }) => type === 'kubernetes.io/basic-auth',
    'of the new type',
  );
  assert.notEqual(after.metadata.uid, before.metadata.uid);
  await scene.api.patch(secrets.path('team-a/type'), { immutable: true });
  await secrets.change('source/type', { username: '3', password: '4' });
  await secrets.holds('team-a/type', { username: '3', password: '4' });
});

it('a suspended source, consent and limits hold', async () => {
  const { secrets } = scene;
  await scene.api.create({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: 'picky', annotations: { 'keyferry.dev/accept-from': 'other' } },
  });
  await scene.put(secrets, 'source/wanted', { a: '1' }, autoInto('picky,team-a'));
  await secrets.holds('team-a/wanted', { a: '1' });
  await secrets.warning('source/wanted', 'NotAccepted');
  assert.equal(await secrets.find('picky/wanted'), undefined);
  await scene.say(secrets, 'source/wanted', { 'keyferry.dev/suspend': 'true', 'auto-namespaces': 'team-b' });
  await secrets.change('source/wanted', { a: '2' });
  await secrets.stayUnchanged(['team-a/wanted'], 'a copy of a suspended source');
  await scene.say(secrets, 'source/wanted', { 'keyferry.dev/suspend': null });
  await secrets.gone('team-a/wanted');
  await secrets.holds('team-b/wanted', { a: '2' });
});

it('the annotations that cert-manager writes and removes by server-side apply make and remove mirrors', async () => {
  const { secrets, api } = scene;
  const apply = async (given: Record<string, string>, value: string): Promise<void> => {
    const data = secrets.data({ 'tls.crt': value, 'tls.key': value });
    const metadata = {
      namespace: 'source',
      name: 'cert',
      annotations: { ...annotations(given), 'cert-manager.io/issuer': 'x' },
    };
    await api.apply(
      { apiVersion: 'v1', kind: 'Secret', type: 'kubernetes.io/tls', data, metadata },
      'cert-manager-certificates-issuing',
    );
  };
  await apply({}, '1');
  await scene.absent(secrets, 'team-a/cert');
  await apply({ ...autoInto('team-a') }, '1');
  const made = await secrets.holds('team-a/cert', { 'tls.crt': '1', 'tls.key': '1' });
  assert.equal(made.metadata.annotations['cert-manager.io/issuer'], undefined);
  await apply({ ...autoInto('team-a') }, '2');
  await secrets.holds('team-a/cert', { 'tls.crt': '2', 'tls.key': '2' });
  await apply({}, '2');
  await secrets.gone('team-a/cert');
});

it('a client that keeps overwriting a mirror is told by an event, and the writes become rare', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/fight', { a: '1' }, autoInto('team-a'));
  await secrets.holds('team-a/fight', { a: '1' });
  await waitFor(
    async () => {
      await secrets.change('team-a/fight', { stub: 'x' });
      const events = await scene.api.list('/api/v1/namespaces/source/events');
      return events.some(({ reason, involvedObject }) => reason === 'Contested' && involvedObject.name === 'fight');
    },
    { message: 'an event Contested', intervalMs: 100 },
  );
});
