/** Config-syncer beside the other controllers in one process: one copy for one source, one writer for each object. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import type { Json } from '../../../support/api.ts';
import { autoInto } from '../../reflector/support.ts';
import { MARK, ORIGIN, SYNC, SyncScene } from '../support.ts';

let scene: SyncScene;
before(async () => {
  scene = await SyncScene.open({ crds: true });
  await scene.namespaces('source', 'team-a', 'team-b', 'team-c');
  await scene.operator([], {
    command: 'run',
    args: ['--controllers=mirrors,replicator,reflector,config-syncer,mittwald'],
  });
});
after(() => scene.close());

const INTO_A = 'kubernetes.io/metadata.name=team-a';
const TO = 'k8s-replicator/replicate-to';
const NAMES = {
  'k8s-replicator/replicated-by': 'replicator',
  'mirrors.kts.studio/owned-by': 'mirrors',
  'reflector.v1.k8s.emberstack.com/reflects': 'reflector',
  [MARK]: 'config-syncer',
};

function marksOf({ metadata: { annotations } }: Json): string {
  return Object.entries(NAMES)
    .flatMap(([key, name]) => (key in annotations ? [name] : []))
    .join();
}

async function has(place: string, wanted: string): Promise<Json> {
  return await scene.secrets.becomes(place, (copy) => marksOf(copy) === wanted, wanted);
}

async function mirror(name: string): Promise<void> {
  await scene.api.create({
    apiVersion: 'mirrors.kts.studio/v1alpha2',
    kind: 'SecretMirror',
    metadata: { namespace: 'source', name },
    spec: { source: { name }, destination: { namespaces: ['team-a'] } },
  });
}

it('rules of four controllers with one source make one copy with all that one of them copies; it goes with the last', async () => {
  const { secrets, api } = scene;
  const more = { metadata: { labels: { grafana_dashboard: '1', plain: 'x' } } };
  await scene.put(secrets, 'source/one', { a: '1' }, { [TO]: 'team-a/one', 'my.org/note': 'x' }, more);
  const { metadata } = await has('team-a/one', 'replicator');
  await scene.say(secrets, 'source/one', { [SYNC]: INTO_A });
  const shared = await has('team-a/one', 'replicator,config-syncer');
  assert.deepEqual(
    [shared.metadata.labels['grafana_dashboard'], shared.metadata.annotations['my.org/note']],
    ['1', 'x'],
  );
  await scene.say(secrets, 'source/one', autoInto('team-a'));
  await mirror('one');
  await has('team-a/one', 'replicator,mirrors,reflector,config-syncer');
  await secrets.change('source/one', { a: '2' });
  const all = await secrets.holds('team-a/one', { a: '2' });
  assert.equal(JSON.parse(all.metadata.annotations[ORIGIN]).resourceVersion, await secrets.version('source/one'));
  await secrets.stayUnchanged(['team-a/one', 'source/one'], 'a copy of four rules');
  for (const key of [SYNC, TO]) assert.equal(all.metadata.annotations[key], undefined, key);
  await scene.say(secrets, 'source/one', { [SYNC]: null });
  const rest = await has('team-a/one', 'replicator,mirrors,reflector');
  assert.equal(rest.metadata.annotations[ORIGIN], undefined);
  await scene.say(secrets, 'source/one', { [SYNC]: INTO_A, [TO]: null, auto: 'false' });
  await has('team-a/one', 'mirrors,config-syncer');
  await api.delete('/apis/mirrors.kts.studio/v1alpha2/namespaces/source/secretmirrors/one');
  // From one system to another without a gap: it is the same object throughout.
  assert.equal((await has('team-a/one', 'config-syncer')).metadata.uid, metadata.uid);
  await secrets.change('source/one', { a: '3' });
  await secrets.holds('team-a/one', { a: '3' });
  await secrets.delete('source/one');
  await secrets.gone('team-a/one');
});

it('of rules with different sources one has the name; the other says so, and takes over when the first goes', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/name', { a: 'source' }, { [SYNC]: INTO_A });
  await secrets.holds('team-a/name', { a: 'source' });
  const b = await scene.put(secrets, 'team-b/name', { a: 'b' }, { [TO]: 'team-a/name' });
  const c = await scene.put(secrets, 'team-c/name', { a: 'c' }, autoInto('team-a'));
  for (const name of ['team-b/name', 'team-c/name']) await secrets.warning(name, 'Conflict');
  await secrets.stayUnchanged(['team-a/name', 'source/name', 'team-b/name', 'team-c/name'], 'three sources');
  await secrets.delete('source/name');
  // Both may be of the same second. Then the uid decides.
  const age = ({ metadata }: Json): string => `${metadata.creationTimestamp} ${metadata.uid}`;
  await secrets.holds('team-a/name', { a: age(b) < age(c) ? 'b' : 'c' });
});

it('a copy is filled by nobody: an annotation that pulls on it is a Conflict', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/owned', { a: '1' }, { [SYNC]: INTO_A });
  await scene.put(
    secrets,
    'team-b/other',
    { a: 'b' },
    { 'k8s-replicator/replication-allowed': 'true', allowed: 'true' },
  );
  await secrets.holds('team-a/owned', { a: '1' });
  for (const pull of ['k8s-replicator/replicate-from', 'reflects']) {
    await scene.say(secrets, 'team-a/owned', { [pull]: 'team-b/other' });
    if (pull !== 'reflects') await secrets.warning('team-a/owned', 'Conflict');
    await secrets.stayUnchanged(['team-a/owned'], `a copy with ${pull}`);
    await secrets.holds('team-a/owned', { a: '1' });
    await scene.say(secrets, 'team-a/owned', { [pull]: null });
  }
});

it('copiers that copy each other’s control annotations in the originals do not ring here', async () => {
  const { secrets } = scene;
  const given = {
    [SYNC]: '',
    'k8s-replicator/replicate-to-namespaces': 'team-.*',
    'replicator.v1.mittwald.de/replicate-to': '*',
    ...autoInto('team-.*'),
  };
  await scene.put(secrets, 'source/ring', { a: '1' }, given);
  const places = ['team-a/ring', 'team-b/ring', 'team-c/ring'];
  for (const place of places) {
    const { metadata } = await has(place, 'replicator,reflector,config-syncer');
    const control = Object.keys(metadata.annotations).filter((key) => /sync$|replicate-to|reflection-/.test(key));
    assert.deepEqual(control, []);
  }
  await secrets.stayUnchanged(['source/ring', ...places], 'copies of three rules');
});

it('sync and mittwald’s replicate-to on one source rest: config-syncer has the copies, and copies push nothing', async () => {
  const { secrets } = scene;
  const given = {
    [SYNC]: 'kubernetes.io/metadata.name in (team-a,team-b)',
    'replicator.v1.mittwald.de/replicate-to': 'team-.*',
  };
  await scene.put(secrets, 'source/rest', { a: '1' }, given);
  const places = ['team-a/rest', 'team-b/rest', 'team-c/rest'];
  for (const place of places) await secrets.holds(place, { a: '1' });
  await secrets.stayUnchanged(['source/rest', ...places], 'copies of two copiers');
  await secrets.change('source/rest', { a: '2' });
  for (const place of places) await secrets.holds(place, { a: '2' });
  await secrets.stayUnchanged(['source/rest', ...places], 'copies of two copiers');
  await secrets.delete('source/rest');
  for (const place of places) await secrets.gone(place);
});
