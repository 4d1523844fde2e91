/** Reflector beside the other controllers in one process: one copy for one source, and one writer for each object. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import type { Json } from '../../../support/api.ts';
import { autoInto, mark, ReflectorScene } from '../support.ts';

let scene: ReflectorScene;
before(async () => {
  scene = await ReflectorScene.open({ crds: true });
  await scene.namespaces('source', 'team-a', 'team-b', 'team-c');
  await scene.operator([], { command: 'run', args: ['--controllers=mirrors,replicator,reflector'] });
});
after(() => scene.close());

const PUSHED = 'k8s-replicator/replicated-by';
const MIRRORED = 'mirrors.kts.studio/owned-by';

function marksOf({ metadata: { annotations } }: Json): string[] {
  const names = {
    [PUSHED]: 'replicator',
    [MIRRORED]: 'mirrors',
    'reflector.v1.k8s.emberstack.com/reflects': 'reflector',
  };
  return Object.entries(names).flatMap(([key, name]) => (key in annotations ? [name] : []));
}

async function mirror(name: string, namespaces: readonly string[]): Promise<void> {
  await scene.api.create({
    apiVersion: 'mirrors.kts.studio/v1alpha2',
    kind: 'SecretMirror',
    metadata: { namespace: 'source', name },
    spec: { source: { name }, destination: { namespaces } },
  });
}

it('rules of several controllers with one source make one copy, whose marks come and go with the rules', async () => {
  const { secrets } = scene;
  const has = async (...wanted: readonly string[]): Promise<Json> =>
    await secrets.becomes('team-a/one', (copy) => marksOf(copy).join() === wanted.join(), wanted.join());
  await scene.put(secrets, 'source/one', { a: '1' }, { 'k8s-replicator/replicate-to': 'team-a/one' });
  const { metadata } = await has('replicator');
  await scene.say(secrets, 'source/one', autoInto('team-a'));
  await has('replicator', 'reflector');
  await mirror('one', ['team-a']);
  await has('replicator', 'mirrors', 'reflector');
  await secrets.change('source/one', { a: '2' });
  const all = await secrets.holds('team-a/one', { a: '2' });
  const version = await secrets.version('source/one');
  assert.equal(mark(all, 'reflected-version'), version);
  assert.equal(all.metadata.annotations['k8s-replicator/replicated-from-version'], version);
  await secrets.stayUnchanged(['team-a/one'], 'a copy of three rules');
  await scene.say(secrets, 'source/one', { 'k8s-replicator/replicate-to': null });
  await has('mirrors', 'reflector');
  await scene.api.delete('/apis/mirrors.kts.studio/v1alpha2/namespaces/source/secretmirrors/one');
  await has('reflector');
  await scene.say(secrets, 'source/one', { 'k8s-replicator/replicate-to': 'team-a/one' });
  await has('replicator', 'reflector');
  await scene.say(secrets, 'source/one', { auto: 'false' });
  assert.equal((await has('replicator')).metadata.uid, metadata.uid);
  await secrets.change('source/one', { a: '3' });
  await secrets.holds('team-a/one', { a: '3' });
  await scene.say(secrets, 'source/one', { 'k8s-replicator/replicate-to': null });
  await secrets.gone('team-a/one');
});

it('of rules with different sources one has the name; the other says so, and takes over when the first goes', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/name', { a: 'source' }, autoInto('team-a'));
  await secrets.holds('team-a/name', { a: 'source' });
  const b = await scene.put(secrets, 'team-b/name', { a: 'b' }, { 'k8s-replicator/replicate-to': 'team-a/name' });
  await secrets.warning('team-b/name', 'Conflict');
  const c = await scene.put(secrets, 'team-c/name', { a: 'c' }, autoInto('team-a'));
  await secrets.warning('team-c/name', 'Conflict');
  await secrets.holds('team-a/name', { a: 'source' });
  await secrets.delete('source/name');
  // Both may be of the same second. Then the uid decides.
  const age = ({ metadata }: Json): string => `${metadata.creationTimestamp} ${metadata.uid}`;
  await secrets.holds('team-a/name', { a: age(b) < age(c) ? 'b' : 'c' });
});

it('two annotations that fill an object from one permitted source fill it once, with both bookkeepings', async () => {
  const { secrets } = scene;
  await scene.put(
    secrets,
    'source/both',
    { a: '1' },
    { allowed: 'true', 'k8s-replicator/replication-allowed': 'true' },
  );
  await scene.put(
    secrets,
    'team-a/both',
    {},
    { reflects: 'source/both', 'k8s-replicator/replicate-from': 'source/both' },
  );
  await secrets.becomes(
    'team-a/both',
    (filled) =>
      mark(filled, 'auto-reflects') === 'False' &&
      'k8s-replicator/replicated-from-version' in filled.metadata.annotations,
    'filled with both bookkeepings',
  );
  await secrets.holds('team-a/both', { a: '1' });
  await secrets.change('source/both', { a: '2' });
  await secrets.holds('team-a/both', { a: '2' });
  await secrets.stayUnchanged(['team-a/both'], 'an object that two annotations fill');
});

it('of two annotations that fill from different sources, the one whose bookkeeping is there keeps the object', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/first', { a: 'first' }, { allowed: 'true' });
  await scene.put(secrets, 'source/second', { a: 'second' }, { 'k8s-replicator/replication-allowed': 'true' });
  await scene.put(secrets, 'team-a/filled', {}, { reflects: 'source/first' });
  await secrets.holds('team-a/filled', { a: 'first' });
  await scene.say(secrets, 'team-a/filled', { 'k8s-replicator/replicate-from': 'source/second' });
  await secrets.warning('team-a/filled', 'Conflict');
  await secrets.stayUnchanged(['team-a/filled'], 'an object with two sources');
  await scene.say(secrets, 'team-a/filled', { reflects: null });
  await secrets.holds('team-a/filled', { a: 'second' });
});

it('two annotations that fill a new object from different sources: one fills it, and an event says which not', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/one-of', { a: 'one' }, { allowed: 'true' });
  await scene.put(secrets, 'source/two-of', { a: 'two' }, { 'k8s-replicator/replication-allowed': 'true' });
  const both = { reflects: 'source/one-of', 'k8s-replicator/replicate-from': 'source/two-of' };
  await scene.put(secrets, 'team-a/undecided', {}, both);
  await secrets.warning('team-a/undecided', 'Conflict');
  await secrets.holds('team-a/undecided', { a: 'one' });
  await secrets.stayUnchanged(['team-a/undecided'], 'an object with two sources');
  // One of the sources permits nothing: the other fills the object, whichever it is.
  for (const [name, reflects, from] of [
    ['denied-a', 'source/two-of', 'source/two-of'],
    ['denied-b', 'source/one-of', 'source/one-of'],
  ]) {
    await scene.put(
      secrets,
      `team-a/${name}`,
      {},
      { reflects: `${reflects}`, 'k8s-replicator/replicate-from': `${from}` },
    );
    await secrets.warning(`team-a/${name}`, 'Denied');
    await secrets.holds(`team-a/${name}`, { a: from === 'source/one-of' ? 'one' : 'two' });
  }
});

it('reflects on a copy of another controller is a Conflict, also if it names a source of the same name', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/same', { a: 'mirror' });
  await scene.put(secrets, 'team-c/same', { a: 'reflector' }, autoInto('team-b'));
  await secrets.holds('team-b/same', { a: 'reflector' });
  await scene.say(secrets, 'team-c/same', { auto: 'false' });
  await secrets.gone('team-b/same');
  await mirror('same', ['team-b']);
  await scene.put(secrets, 'source/pushed', { a: 'pushed' }, { 'k8s-replicator/replicate-to': 'team-b/pushed' });
  await scene.put(secrets, 'team-c/pushed', { a: 'reflector' }, { allowed: 'true' });
  for (const [name, value] of [
    ['same', 'mirror'],
    ['pushed', 'pushed'],
  ]) {
    await secrets.holds(`team-b/${name}`, { a: `${value}` });
    await scene.say(secrets, `team-b/${name}`, { reflects: `team-c/${name}` });
    await secrets.warning(`team-b/${name}`, 'Conflict');
    await secrets.holds(`team-b/${name}`, { a: `${value}` });
  }
  // What somebody writes into the bookkeeping of reflector's own mirror is put right.
  await scene.put(secrets, 'team-c/tampered', { a: '1' }, autoInto('team-b'));
  await secrets.holds('team-b/tampered', { a: '1' });
  await scene.say(secrets, 'team-b/tampered', { 'auto-reflects': 'False' });
  await secrets.becomes('team-b/tampered', (copy) => mark(copy, 'auto-reflects') === 'True', 'marked again');
});

it('a copy of a SecretMirror is not filled, and its name is not taken; a mirror may be the source of another controller', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/held', { a: '1' }, { allowed: 'true' });
  await scene.put(secrets, 'source/other', { a: 'other' }, { allowed: 'true' });
  await mirror('held', ['team-b']);
  await secrets.holds('team-b/held', { a: '1' });
  await scene.say(secrets, 'team-b/held', { reflects: 'source/other' });
  await secrets.warning('team-b/held', 'Conflict');
  await secrets.holds('team-b/held', { a: '1' });
  await scene.put(
    secrets,
    'team-c/chain',
    {},
    { reflects: 'source/held', 'k8s-replicator/replicate-to': 'team-a/chain' },
  );
  await secrets.holds('team-a/chain', { a: '1' });
  await secrets.change('source/held', { a: '2' });
  await secrets.holds('team-a/chain', { a: '2' });
});

it('rules of two controllers that copy in a ring write nothing', async () => {
  const { secrets } = scene;
  await scene.put(
    secrets,
    'team-a/round',
    { a: 'a' },
    { reflects: 'team-b/round', allowed: 'true', 'k8s-replicator/replication-allowed': 'true' },
  );
  await scene.put(
    secrets,
    'team-b/round',
    { a: 'b' },
    { allowed: 'true', 'k8s-replicator/replicate-from': 'team-a/round' },
  );
  await secrets.warning('team-a/round', 'Cycle');
  await secrets.warning('team-b/round', 'Cycle');
});
