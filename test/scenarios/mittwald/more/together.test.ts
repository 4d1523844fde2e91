/** mittwald beside the other controllers in one process: one copy for one source, and one writer for each object. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import type { Json } from '../../../support/api.ts';
import type { Keyferry } from '../../../support/keyferry.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { mark, MittwaldScene, OPEN } from '../support.ts';

const REFLECTOR = 'reflector.v1.k8s.emberstack.com';
const AUTO = { [`${REFLECTOR}/reflection-allowed`]: 'true', [`${REFLECTOR}/reflection-auto-enabled`]: 'true' };

const CONTROLLERS = ['--controllers=mirrors,replicator,reflector,mittwald'];

let scene: MittwaldScene;
let operator: Keyferry;
before(async () => {
  scene = await MittwaldScene.open({ crds: true });
  await scene.namespaces('source', 'team-a', 'team-b', 'team-c');
  operator = await scene.operator([], { command: 'run', args: CONTROLLERS });
});
after(() => scene.close());

const MARKS = {
  'k8s-replicator/replicated-by': 'replicator',
  'mirrors.kts.studio/owned-by': 'mirrors',
  [`${REFLECTOR}/reflects`]: 'reflector',
  'keyferry.dev/replicated-from': 'mittwald',
};

function marksOf({ metadata: { annotations } }: Json): string[] {
  return Object.entries(MARKS).flatMap(([key, name]) => (key in annotations ? [name] : []));
}

async function mirror(name: string, namespaces: readonly string[]): Promise<void> {
  await scene.api.create({
    apiVersion: 'mirrors.kts.studio/v1alpha2',
    kind: 'SecretMirror',
    metadata: { namespace: 'source', name },
    spec: { source: { name }, destination: { namespaces } },
  });
}

const PARTNERS: readonly (readonly [string, Record<string, string>])[] = [
  ['reflector', { ...AUTO, [`${REFLECTOR}/reflection-auto-namespaces`]: 'team-a' }],
  ['replicator', { 'k8s-replicator/replicate-to-namespaces': 'team-a' }],
];
for (const [partner, given] of PARTNERS)
  for (const isFirst of [true, false])
    it(`a source of ${partner} and mittwald makes one copy, whose marks come and go with the rules; mittwald ${isFirst ? 'first' : 'second'}`, async () => {
      const { secrets } = scene;
      const name = `${partner}-${isFirst}`;
      const both = [partner, 'mittwald'];
      const has = async (...wanted: readonly string[]): Promise<Json> =>
        await secrets.becomes(
          `team-a/${name}`,
          (copy) => marksOf(copy).toSorted().join() === wanted.toSorted().join(),
          wanted.join(),
        );
      await scene.put(secrets, `source/${name}`, { a: '1' }, isFirst ? { to: 'team-a' } : given);
      const made = await has(isFirst ? 'mittwald' : partner);
      await scene.say(secrets, `source/${name}`, isFirst ? given : { to: 'team-a' });
      await has(...both);
      await scene.set(secrets, `source/${name}`, { a: '2' });
      const copy = await secrets.holds(`team-a/${name}`, { a: '2' });
      assert.equal(mark(copy, 'replicated-from-version'), await secrets.version(`source/${name}`));
      assert.equal(mark(copy, 'replicated-keys'), 'a');
      await secrets.stayUnchanged([`team-a/${name}`], 'a copy of two rules');
      const none = Object.fromEntries(Object.keys(given).map((key) => [key, null]));
      await scene.say(secrets, `source/${name}`, isFirst ? { to: null } : none);
      assert.equal((await has(isFirst ? partner : 'mittwald')).metadata.uid, made.metadata.uid);
      await scene.set(secrets, `source/${name}`, { a: '3' });
      await secrets.holds(`team-a/${name}`, { a: '3' });
      await scene.say(secrets, `source/${name}`, isFirst ? none : { to: null });
      await secrets.gone(`team-a/${name}`);
    });

it('a SecretMirror and mittwald with one source make one copy', async () => {
  const { secrets } = scene;
  await mirror('mirrored', ['team-a']);
  await scene.put(secrets, 'source/mirrored', { a: '1' }, { to: 'team-a' });
  await secrets.becomes('team-a/mirrored', (copy) => marksOf(copy).length === 2, 'with both marks');
  await scene.api.delete('/apis/mirrors.kts.studio/v1alpha2/namespaces/source/secretmirrors/mirrored');
  await secrets.becomes('team-a/mirrored', (copy) => marksOf(copy).join() === 'mittwald', 'of mittwald alone');
});

const MIRRORS = '/apis/mirrors.kts.studio/v1alpha2/namespaces/source/secretmirrors';

it('a suspended SecretMirror keeps the copy that it shares as it is, also after a restart, and when the other rule ends', async () => {
  const { secrets } = scene;
  await mirror('suspended', ['team-a']);
  await scene.put(secrets, 'source/suspended', { a: '1' }, { to: 'team-a' });
  const copy = await secrets.becomes('team-a/suspended', (now) => marksOf(now).length === 2, 'with both marks');
  await scene.api.patch(`${MIRRORS}/suspended`, { spec: { suspend: true } });
  await waitFor(async () => JSON.stringify(await scene.api.get(`${MIRRORS}/suspended`)).includes('"Suspended"'), {
    message: 'the suspension',
  });
  await scene.set(secrets, 'source/suspended', { a: '2' });
  await secrets.warning('source/suspended', 'Conflict');
  await secrets.stayUnchanged(['team-a/suspended'], 'one of its rules is suspended');
  await operator.kill9();
  operator = await scene.operator([], { command: 'run', args: CONTROLLERS });
  await secrets.stayUnchanged(['team-a/suspended'], 'one of its rules is suspended');
  await scene.say(secrets, 'source/suspended', { to: null });
  await secrets.stayUnchanged(['team-a/suspended'], 'one of its rules is suspended, and the other has ended');
  await scene.api.patch(`${MIRRORS}/suspended`, { spec: { suspend: false } });
  const now = await secrets.holds('team-a/suspended', { a: '2' });
  assert.equal(now.metadata.uid, copy.metadata.uid);
  assert.deepEqual(marksOf(now), ['mirrors']);
});

it('a rule with a mistake keeps the copy that it shares when the SecretMirror that shares it is deleted', async () => {
  const { secrets } = scene;
  await mirror('mistaken', ['team-a']);
  await scene.put(secrets, 'source/mistaken', { a: '1' }, { 'k8s-replicator/replicate-to-namespaces': 'team-a' });
  await secrets.becomes('team-a/mistaken', (now) => marksOf(now).length === 2, 'with both marks');
  await scene.say(secrets, 'source/mistaken', { 'k8s-replicator/replicate-to-namespaces': '[' });
  await secrets.warning('source/mistaken', 'IllFormed');
  await scene.api.delete(`${MIRRORS}/mistaken`);
  await waitFor(async () => (await scene.api.find(`${MIRRORS}/mistaken`)) === undefined, {
    message: 'the mirror to be gone',
  });
  await secrets.stayUnchanged(['team-a/mistaken'], 'its other rule has a mistake');
  await scene.say(secrets, 'source/mistaken', { 'k8s-replicator/replicate-to-namespaces': 'team-a' });
  await secrets.becomes('team-a/mistaken', (now) => marksOf(now).join() === 'replicator', 'of the replicator alone');
});

it('of rules with different sources one has the name; the other says so, and takes over when the first goes', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/name', { a: 'source' }, { to: 'team-a' });
  await secrets.holds('team-a/name', { a: 'source' });
  const list = { [`${REFLECTOR}/reflection-auto-namespaces`]: 'team-a' };
  await scene.put(secrets, 'team-b/name', { a: 'team-b' }, { ...AUTO, ...list });
  await secrets.warning('team-b/name', 'Conflict');
  await secrets.holds('team-a/name', { a: 'source' });
  await secrets.delete('source/name');
  await secrets.holds('team-a/name', { a: 'team-b' });
  await scene.put(secrets, 'team-c/name', { a: 'team-c' }, { to: 'team-a' });
  await secrets.warning('team-c/name', 'Conflict');
  await secrets.delete('team-b/name');
  await secrets.holds('team-a/name', { a: 'team-c' });
});

it('if the next rule is of another controller, a copy with keys of somebody else becomes theirs', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/mixed', { a: 'source' }, { to: 'team-a' });
  await secrets.holds('team-a/mixed', { a: 'source' });
  await scene.set(secrets, 'team-a/mixed', { own: 'x' });
  const list = { [`${REFLECTOR}/reflection-auto-namespaces`]: 'team-a' };
  await scene.put(secrets, 'team-b/mixed', { a: 'team-b' }, { ...AUTO, ...list });
  await secrets.warning('team-b/mixed', 'Conflict');
  await secrets.delete('source/mixed');
  const left = await secrets.holds('team-a/mixed', { own: 'x' });
  assert.deepEqual(marksOf({ metadata: { annotations: {}, ...left.metadata } }), []);
});

it('a request to fill is refused on a copy of another controller, and with another source', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/other', { a: 'other' }, OPEN);
  await mirror('held', ['team-b']);
  await scene.put(secrets, 'source/held', { a: '1' });
  await secrets.holds('team-b/held', { a: '1' });
  await scene.say(secrets, 'team-b/held', { from: 'source/other' });
  await secrets.warning('team-b/held', 'Conflict');
  await secrets.holds('team-b/held', { a: '1' });
  await scene.put(secrets, 'source/first', { a: 'first' }, { [`${REFLECTOR}/reflection-allowed`]: 'true' });
  await scene.put(secrets, 'team-a/filled', {}, { [`${REFLECTOR}/reflects`]: 'source/first' });
  await secrets.holds('team-a/filled', { a: 'first' });
  await scene.say(secrets, 'team-a/filled', { from: 'source/other' });
  await secrets.warning('team-a/filled', 'Conflict');
  await secrets.stayUnchanged(['team-a/filled'], 'an object with two sources');
});

it('two requests with one permitted source fill once, with both bookkeepings, and the object keeps its own keys', async () => {
  const { secrets } = scene;
  await scene.put(secrets, 'source/both', { a: '1' }, { ...OPEN, 'k8s-replicator/replication-allowed': 'true' });
  const from = { from: 'source/both', 'k8s-replicator/replicate-from': 'source/both' };
  await scene.put(secrets, 'team-a/both', { own: 'x' }, from);
  await secrets.becomes(
    'team-a/both',
    (filled) =>
      mark(filled, 'replicated-keys') === 'a' &&
      'k8s-replicator/replicated-from-version' in filled.metadata.annotations,
    'filled with both bookkeepings',
  );
  await scene.set(secrets, 'source/both', { a: '2' });
  await secrets.holds('team-a/both', { a: '2', own: 'x' });
  await secrets.stayUnchanged(['team-a/both'], 'an object that two annotations fill');
});

it('rules of two controllers that copy in a ring write nothing; no mark of any system travels', async () => {
  const { secrets } = scene;
  const allowed = { 'k8s-replicator/replication-allowed': 'true' };
  await scene.put(secrets, 'team-a/round', { a: 'a' }, { from: 'team-b/round', ...allowed });
  await scene.put(secrets, 'team-b/round', { b: 'b' }, { ...OPEN, 'k8s-replicator/replicate-from': 'team-a/round' });
  await secrets.warning('team-a/round', 'Cycle');
  await secrets.warning('team-b/round', 'Cycle');
  await secrets.holds('team-a/round', { a: 'a' });
  const foreign = { 'kubed.appscode.com/sync': '', 'k8s-replicator/replicate-to': 'x/y', 'my.org/note': 'x' };
  await scene.put(secrets, 'source/all', { a: '1' }, { to: 'team-c', ...foreign });
  const copy = await secrets.holds('team-c/all', { a: '1' });
  for (const key of Object.keys(foreign)) assert.equal(copy.metadata.annotations[key], undefined, key);
});
