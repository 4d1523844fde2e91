/** The annotation `sync`, where config-syncer differs from other systems (`../annotated/pushes.test.ts`). */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import { MARK, ORIGIN, originLabels, PREFIX, SYNC, SyncScene } from './support.ts';

let scene: SyncScene;
before(async () => {
  scene = await SyncScene.open();
  await scene.namespaces('source', 'team-a', 'team-b', 'team-c');
  for (const namespace of ['source', 'team-a', 'team-b']) await scene.label(namespace, { app: 'kubed' });
  await scene.operator(['--cluster-name=unicorn']);
});
after(() => scene.close());

it('a copy has the labels and annotations of its source, except instructions to other programs; they follow it, and are put right', async () => {
  const { secrets } = scene;
  const labels = { team: 'x', 'argocd.argoproj.io/secret-type': 'repository', 'helm.sh/chart': 'c' };
  const given = {
    [SYNC]: 'app=kubed',
    'my.org/note': 'x',
    'meta.helm.sh/release-name': 'r',
    'argocd.argoproj.io/tracking-id': 'app:/Secret:source/s',
    'kubectl.kubernetes.io/last-applied-configuration': '{}',
  };
  const source = await scene.put(secrets, 'source/s', { a: '1' }, given, { metadata: { labels } });
  const made = await secrets.holds('team-a/s', { a: '1' });
  assert.deepEqual(made.metadata.labels, {
    team: 'x',
    'argocd.argoproj.io/secret-type': 'repository',
    ...originLabels('source', 's', 'unicorn'),
    'keyferry.dev/copy': 'config-syncer',
  });
  const { name, namespace, uid, resourceVersion } = source.metadata;
  const { [ORIGIN]: origin, ...annotations } = made.metadata.annotations;
  assert.deepEqual(JSON.parse(origin), { namespace, name, uid, resourceVersion });
  assert.deepEqual(annotations, { 'my.org/note': 'x', [MARK]: 'source/s', 'keyferry.dev/target': 'team-a/s' });
  await scene.api.patch(secrets.path('source/s'), {
    metadata: { labels: { team: null, other: 'y' }, annotations: { 'my.org/note': null, 'my.org/more': 'z' } },
  });
  const { metadata } = await secrets.becomes('team-a/s', (copy) => copy.metadata.labels.other === 'y', 'labelled');
  assert.deepEqual(
    [metadata.labels.team, metadata.annotations['my.org/note'], metadata.annotations['my.org/more']],
    [undefined, undefined, 'z'],
  );
  await scene.api.patch(secrets.path('team-a/s'), { metadata: { labels: { [`${PREFIX}/origin.name`]: 'other' } } });
  await secrets.becomes('team-a/s', (copy) => copy.metadata.labels[`${PREFIX}/origin.name`] === 's', 'marked');
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
