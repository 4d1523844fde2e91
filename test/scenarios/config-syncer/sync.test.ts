/** The annotation `kubed.appscode.com/sync`: a source has a copy of its name in each selected namespace but its own. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { waitFor } from '../../support/wait-for.ts';
import { KINDS, MARK, ORIGIN, originLabels, PREFIX, SYNC, SyncScene } from './support.ts';

let scene: SyncScene;
before(async () => {
  scene = await SyncScene.open();
  await scene.namespaces('source', 'team-a', 'team-b', 'team-c');
  for (const namespace of ['source', 'team-a', 'team-b']) await scene.label(namespace, { app: 'kubed' });
  await scene.operator(['--cluster-name=unicorn']);
});
after(() => scene.close());

for (const kind of KINDS)
  describe(`a ${kind.kind} with the annotation sync`, () => {
    it('has a copy in each selected namespace with its data, type, labels and annotations, which follows it and goes with it', async () => {
      const users = scene.of(kind);
      const isSecret = kind.kind === 'Secret';
      const more = {
        metadata: { labels: { team: 'x', 'argocd.argoproj.io/secret-type': 'repository', 'helm.sh/chart': 'c' } },
        immutable: false,
        ...(isSecret ? { type: 'my/type' } : { binaryData: { raw: 'AAEC' } }),
      };
      const given = {
        [SYNC]: 'app=kubed',
        'my.org/note': 'x',
        'meta.helm.sh/release-name': 'r',
        'argocd.argoproj.io/tracking-id': 'app:/Secret:source/s',
        'kubectl.kubernetes.io/last-applied-configuration': '{}',
      };
      const source = await scene.put(users, 'source/s', { a: '1', b: '2' }, given, more);
      const made = await users.holds('team-a/s', { a: '1', b: '2' });
      const { name, namespace, uid } = source.metadata;
      assert.deepEqual(made.metadata.labels, {
        team: 'x',
        'argocd.argoproj.io/secret-type': 'repository',
        ...originLabels('source', 's', 'unicorn'),
        'keyferry.dev/copy': 'config-syncer',
      });
      const { [ORIGIN]: origin, ...annotations } = made.metadata.annotations;
      assert.deepEqual(JSON.parse(origin), {
        namespace,
        name,
        uid,
        resourceVersion: source.metadata.resourceVersion,
      });
      assert.deepEqual(annotations, { 'my.org/note': 'x', [MARK]: 'source/s', 'keyferry.dev/target': 'team-a/s' });
      assert.deepEqual(
        [made.type, made.binaryData, made.immutable, made.metadata.ownerReferences],
        [isSecret ? 'my/type' : undefined, isSecret ? undefined : { raw: 'AAEC' }, undefined, undefined],
      );
      await users.holds('team-b/s', { a: '1', b: '2' });
      assert.equal(await users.find('team-c/s'), undefined);
      await users.change('source/s', { a: '3' });
      const changed = await users.holds('team-a/s', { a: '3' });
      assert.equal(changed.metadata.uid, made.metadata.uid);
      assert.equal(JSON.parse(changed.metadata.annotations[ORIGIN]).resourceVersion, await users.version('source/s'));
      await scene.api.patch(users.path('source/s'), {
        metadata: { labels: { team: null, other: 'y' }, annotations: { 'my.org/note': null, 'my.org/more': 'z' } },
      });
      const { metadata } = await users.becomes('team-a/s', (copy) => copy.metadata.labels.other === 'y', 'labelled');
      assert.deepEqual(
        [metadata.labels.team, metadata.annotations['my.org/note'], metadata.annotations['my.org/more']],
        [undefined, undefined, 'z'],
      );
      await users.change('team-a/s', { edited: 'x' });
      await users.holds('team-a/s', { a: '3' });
      await scene.api.patch(users.path('team-a/s'), { metadata: { labels: { [`${PREFIX}/origin.name`]: 'other' } } });
      await users.becomes('team-a/s', (copy) => copy.metadata.labels[`${PREFIX}/origin.name`] === 's', 'marked');
      await users.delete('team-b/s');
      await users.holds('team-b/s', { a: '3' });
      await scene.say(users, 'source/s', { [SYNC]: 'app!=kubed,kubernetes.io/metadata.name=team-c' });
      await users.gone('team-a/s');
      await users.holds('team-c/s', { a: '3' });
      await scene.say(users, 'source/s', { [SYNC]: null });
      await users.gone('team-c/s');
      await scene.say(users, 'source/s', { [SYNC]: 'app=kubed' });
      await users.holds('team-a/s', { a: '3' });
      assert.equal((await users.find('source/s')).metadata.uid, uid);
      await users.delete('source/s');
      for (const one of ['team-a/s', 'team-b/s']) await users.gone(one);
    });
  });

it('an empty value and true mean every namespace; everything else is a selector for labels of namespaces', async () => {
  const { secrets } = scene;
  await scene.namespaces('labelled-false');
  await scene.label('labelled-false', { false: '1', tier: 'y' });
  const table: Record<string, readonly string[]> = {
    '': ['labelled-false', 'team-a', 'team-b', 'team-c'],
    true: ['labelled-false', 'team-a', 'team-b', 'team-c'],
    'tier in (x,y)': ['labelled-false'],
    false: ['labelled-false'],
    'app = kubed , !false': ['team-a', 'team-b'],
    '!app,!kubernetes.io/none': ['labelled-false', 'team-c'],
  };
  for (const [index, [value, wanted]] of Object.entries(table).entries()) {
    const name = `selected-${index}`;
    await scene.put(secrets, `source/${name}`, { a: '1' }, { [SYNC]: value });
    for (const namespace of wanted) await secrets.holds(`${namespace}/${name}`, { a: '1' });
    const has = async (namespace: string): Promise<boolean> =>
      (await secrets.find(`${namespace}/${name}`)) !== undefined;
    for (const namespace of ['labelled-false', 'team-a', 'team-b', 'team-c'])
      assert.equal(await has(namespace), wanted.includes(namespace), `${value} in ${namespace}`);
  }
});

it('a namespace that appears, or gets or loses a label, gets or loses its copies', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/every', { a: '1' }, { [SYNC]: 'true' });
  await scene.put(secrets, 'source/some', { a: '1' }, { [SYNC]: 'get in (yes,true)' });
  await scene.namespaces('later');
  await secrets.holds('later/every', { a: '1' });
  await scene.label('later', { get: 'yes' });
  await secrets.holds('later/some', { a: '1' });
  await scene.label('later', { get: 'no' });
  await secrets.gone('later/some');
  await secrets.holds('later/every', { a: '1' });
  assert.deepEqual((await secrets.find('source/every')).metadata.labels, undefined);
});

it('one bad selector, one object in the way and one Terminating namespace stop nobody else', async () => {
  const { secrets, configMaps, api } = scene;
  await scene.namespaces('ending');
  await api.delete('/api/v1/namespaces/ending');
  await scene.put(secrets, 'source/kept', { a: '1' }, { [SYNC]: 'app=kubed' });
  await secrets.holds('team-a/kept', { a: '1' });
  await scene.say(secrets, 'source/kept', { [SYNC]: 'a=(' });
  await scene.put(configMaps, 'source/bad', { a: '1' }, { [SYNC]: 'x in' });
  await scene.put(configMaps, 'source/long', { a: '1' }, { [SYNC]: `a in (${'x,'.repeat(40_000)}y)` });
  const foreign = await secrets.create('team-a/taken', { own: '1' });
  await scene.put(secrets, 'source/taken', { a: '1' }, { [SYNC]: '' });
  for (const namespace of ['team-b', 'team-c']) await secrets.holds(`${namespace}/taken`, { a: '1' });
  for (const name of ['bad', 'long']) await configMaps.warning(`source/${name}`, 'IllFormed');
  await secrets.warning('source/kept', 'IllFormed');
  await secrets.warning('source/taken', 'Conflict');
  await secrets.holds('team-a/kept', { a: '1' });
  assert.equal((await secrets.find('team-a/taken')).metadata.resourceVersion, foreign.metadata.resourceVersion);
  assert.equal(await secrets.find('ending/taken'), undefined);
  await secrets.delete('source/taken');
  await secrets.gone('team-b/taken');
  assert.notEqual(await secrets.find('team-a/taken'), undefined);
  await scene.say(secrets, 'source/kept', { [SYNC]: 'app=none' });
  await secrets.gone('team-a/kept');
});

it('a Secret and a ConfigMap of one name are apart, and the deletion of a source namespace takes the copies', async () => {
  const { secrets, configMaps } = scene;
  await scene.namespaces('home');
  await scene.put(secrets, 'home/both', { a: 'secret' }, { [SYNC]: 'app=kubed' });
  await scene.put(configMaps, 'home/both', { a: 'map' }, { [SYNC]: 'app=kubed' });
  await secrets.holds('team-a/both', { a: 'secret' });
  await configMaps.holds('team-a/both', { a: 'map' });
  await configMaps.delete('home/both');
  await configMaps.gone('team-a/both');
  await secrets.holds('team-a/both', { a: 'secret' });
  // As the controller of namespaces does, which this cluster lacks.
  await scene.api.delete('/api/v1/namespaces/home');
  await secrets.delete('home/both');
  await secrets.gone('team-a/both');
});

it('sync on a copy is its user’s: it stays, and pushes the copy on', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/chain', { a: '1' }, { [SYNC]: 'kubernetes.io/metadata.name=team-a' });
  await secrets.holds('team-a/chain', { a: '1' });
  await scene.say(secrets, 'team-a/chain', { [SYNC]: 'kubernetes.io/metadata.name in (team-c,source)' });
  await secrets.holds('team-c/chain', { a: '1' });
  await secrets.change('source/chain', { a: '2' });
  await secrets.holds('team-c/chain', { a: '2' });
  assert.ok(SYNC in (await secrets.find('team-a/chain')).metadata.annotations);
  await secrets.warning('team-a/chain', 'Conflict');
  await secrets.stayUnchanged(['source/chain', 'team-a/chain', 'team-c/chain'], 'a chain of copies');
  await scene.say(secrets, 'team-a/chain', { [SYNC]: null });
  await secrets.gone('team-c/chain');
});

it('two sources of one name that reach each other stay as they are', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/twin', { a: 'one' }, { [SYNC]: 'app=kubed' });
  await secrets.holds('team-b/twin', { a: 'one' });
  await scene.put(secrets, 'team-c/twin', { a: 'two' }, { [SYNC]: '' });
  await secrets.warning('team-c/twin', 'Conflict');
  await secrets.stayUnchanged(['source/twin', 'team-a/twin', 'team-b/twin', 'team-c/twin'], 'two sources of one name');
  await secrets.holds('team-a/twin', { a: 'one' });
  await secrets.delete('source/twin');
  await secrets.holds('source/twin', { a: 'two' });
  await secrets.holds('team-a/twin', { a: 'two' });
});

it('a name of 64 to 253 characters has a shortened label and a complete annotation', async () => {
  const { secrets } = scene;
  for (const length of [63, 64, 253]) {
    const name = `n${'x.y'.repeat(100)}`
      .slice(0, length - 1)
      .replace(/\.$/, 'z')
      .concat('e');
    await scene.put(secrets, `source/${name}`, { a: '1' }, { [SYNC]: 'app=kubed' });
    const copy = await secrets.holds(`team-a/${name}`, { a: '1' });
    const label = copy.metadata.labels[`${PREFIX}/origin.name`];
    assert.equal(label, originLabels('source', name)[`${PREFIX}/origin.name`]);
    assert.equal(JSON.parse(copy.metadata.annotations[ORIGIN]).name, name);
    await secrets.delete(`source/${name}`);
    await secrets.gone(`team-a/${name}`);
  }
});

it('Secrets of types that are never copied have an event, and another type or an immutable copy is replaced', async () => {
  const { secrets, api } = scene;
  await api.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { namespace: 'source', name: 'sa' } });
  const every = { [SYNC]: 'app=kubed' };
  await scene.put(secrets, 'source/boot', {}, every, { type: 'bootstrap.kubernetes.io/token' });
  const token = { ...every, 'kubernetes.io/service-account.name': 'sa' };
  await scene.put(secrets, 'source/token', { x: '1' }, token, { type: 'kubernetes.io/service-account-token' });
  for (const name of ['boot', 'token']) {
    await secrets.warning(`source/${name}`, 'RefusedType');
    assert.equal(await secrets.find(`team-a/${name}`), undefined);
  }
  await scene.put(secrets, 'source/type', { a: '1' }, every);
  const before = await secrets.holds('team-a/type', { a: '1' });
  await secrets.delete('source/type');
  await scene.put(secrets, 'source/type', { username: '1', password: '2' }, every, {
    type: 'kubernetes.io/basic-auth',
  });
  const after = await secrets.becomes('team-a/type', ({ type }) => type === 'kubernetes.io/basic-auth', 'replaced');
  assert.notEqual(after.metadata.uid, before.metadata.uid);
  await api.patch(secrets.path('team-a/type'), { immutable: true });
  await secrets.change('source/type', { username: '3', password: '4' });
  await secrets.holds('team-a/type', { username: '3', password: '4' });
});

it('a copy with the name of another cluster belongs to that cluster: it stays, and its would-be source has OriginConflict', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/far', { a: '1' }, { [SYNC]: 'app=kubed' });
  await secrets.holds('team-b/far', { a: '1' });
  const other = await scene.put(secrets, 'source/near', { a: '1' });
  const copy = await scene.original('team-a', other, { cluster: 'pegasus' });
  await scene.say(secrets, 'source/near', { [SYNC]: 'app=kubed' });
  const { message } = await secrets.warning('source/near', 'OriginConflict');
  assert.match(message, /team-a\/near.*pegasus/);
  await secrets.holds('team-b/near', { a: '1' });
  assert.equal((await secrets.find('team-a/near')).metadata.resourceVersion, copy.metadata.resourceVersion);
});

it('what cert-manager applies travels, except its own annotations: issue, renewal, and the end of the template', async () => {
  const { secrets, api } = scene;
  const apply = async (given: Record<string, string>, value: string): Promise<void> => {
    const metadata = {
      namespace: 'source',
      name: 'cert',
      labels: { 'controller.cert-manager.io/fao': 'true' },
      annotations: { ...given, 'cert-manager.io/issuer-name': 'ca' },
    };
    const data = secrets.data({ 'tls.crt': value, 'tls.key': value });
    const secret = { apiVersion: 'v1', kind: 'Secret', type: 'kubernetes.io/tls', data, metadata };
    await api.apply(secret, 'cert-manager-certificates-issuing');
  };
  const template = { [SYNC]: 'app=kubed', 'my.org/for': 'ingress' };
  await apply(template, '1');
  const { metadata } = await secrets.holds('team-a/cert', { 'tls.crt': '1', 'tls.key': '1' });
  assert.deepEqual(
    [...Object.keys(metadata.annotations), ...Object.keys(metadata.labels)].filter((key) => /cert-manager/.test(key)),
    [],
  );
  assert.equal(metadata.annotations['my.org/for'], 'ingress');
  await apply(template, '2');
  await secrets.holds('team-a/cert', { 'tls.crt': '2', 'tls.key': '2' });
  await apply({}, '2');
  await secrets.gone('team-a/cert');
});

it('a suspended source and consent hold, and a client that keeps overwriting a copy has an event', async () => {
  const { secrets, api } = scene;
  const consent = { name: 'picky', annotations: { 'keyferry.dev/accept-from': 'other' } };
  await api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: consent });
  await scene.label('picky', { app: 'kubed' });
  await scene.put(secrets, 'source/wanted', { a: '1' }, { [SYNC]: 'app=kubed' });
  await secrets.holds('team-a/wanted', { a: '1' });
  await secrets.warning('source/wanted', 'NotAccepted');
  assert.equal(await secrets.find('picky/wanted'), undefined);
  await scene.say(secrets, 'source/wanted', { 'keyferry.dev/suspend': 'true', [SYNC]: 'app=none' });
  await secrets.change('source/wanted', { a: '2' });
  await secrets.stayUnchanged(['team-a/wanted'], 'a copy of a suspended source');
  await scene.say(secrets, 'source/wanted', { 'keyferry.dev/suspend': null, [SYNC]: 'app=kubed' });
  await secrets.holds('team-a/wanted', { a: '2' });
  await waitFor(
    async () => {
      await secrets.change('team-a/wanted', { stub: 'x' });
      const events = await api.list('/api/v1/namespaces/source/events');
      return events.some(({ reason, involvedObject }) => reason === 'Contested' && involvedObject.name === 'wanted');
    },
    { message: 'an event Contested', intervalMs: 100 },
  );
});
