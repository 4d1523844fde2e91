/** What users own survives what others ask for: objects that consented, keys beside ours, sources with old marks. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
import { MittwaldScene, OPEN } from './support.ts';

const REFLECTOR = 'reflector.v1.k8s.emberstack.com';
const SYNC = 'kubed.appscode.com/sync';
const ACCEPT_A = { 'keyferry.dev/accept-push': 'a' };

let scene: MittwaldScene;
before(async () => {
  scene = await MittwaldScene.open({ crds: true });
  await scene.namespaces('a', 'b', 'c', 't', 'u');
  const controllers = 'mirrors,replicator,reflector,mittwald,config-syncer';
  await scene.operator([], { command: 'run', args: [`--controllers=${controllers}`, '--source-grace=1s'] });
});
after(() => scene.close());

/** Waits until an object has exactly these data, and is the same object as before. */
async function keeps(before: Json, values: Readonly<Record<string, string>>): Promise<Json> {
  const { namespace, name, uid } = before.metadata;
  const now = await scene.secrets.holds(`${namespace}/${name}`, values);
  assert.equal(now.metadata.uid, uid);
  return now;
}

/** Waits until a copy has the mark of mittwald: it may have been made for another rule alone. */
async function joint(name: string): Promise<Json> {
  const isJoint = ({ metadata }: Json): boolean => 'keyferry.dev/replicated-from' in metadata.annotations;
  return await scene.secrets.becomes(name, isJoint, 'of both rules');
}

describe('what users own', { concurrency: 6 }, () => {
  it('when the rule that an object accepted goes, another one gets nothing, and the object has what is its user’s', async () => {
    const { secrets } = scene;
    const mine = await scene.put(secrets, 't/consent', { own: '1', password: 'mine' }, ACCEPT_A);
    await scene.put(secrets, 'a/consent', { a: 'A' }, { to: 't' });
    await keeps(mine, { own: '1', password: 'mine', a: 'A' });
    await scene.put(secrets, 'b/consent', { password: 'THEIRS' }, { to: 't' });
    await secrets.warning('b/consent', 'Conflict');
    await secrets.delete('a/consent');
    const left = await keeps(mine, { own: '1', password: 'mine' });
    assert.equal(left.metadata.annotations['keyferry.dev/merged-from'], undefined);
    await secrets.stayUnchanged(['t/consent'], 'its user did not accept b');
  });

  it('an object that takes its consent back loses the keys of the source, and gets them again when it consents again', async () => {
    const { secrets } = scene;
    const mine = await scene.put(secrets, 't/back', { own: '1' }, ACCEPT_A);
    await scene.put(secrets, 'a/back', { a: 'A' }, { to: 't' });
    await keeps(mine, { own: '1', a: 'A' });
    const accept = 'keyferry.dev/accept-push';
    await scene.say(secrets, 't/back', { [accept]: null });
    const left = await keeps(mine, { own: '1' });
    assert.equal(left.metadata.annotations, undefined);
    await secrets.warning('a/back', 'Conflict');
    await scene.set(secrets, 'a/back', { b: 'B' });
    await secrets.stayUnchanged(['t/back'], 'its user took the consent back');
    await scene.say(secrets, 't/back', ACCEPT_A);
    await keeps(mine, { own: '1', a: 'A', b: 'B' });
  });

  it('the list that the original wrote is a consent that can be taken back by one annotation, and ends with the rule', async () => {
    const { secrets } = scene;
    const accept = 'keyferry.dev/accept-push';
    const listed = { 'replicated-keys': 'a', 'replicated-from-version': '1' };
    const objects = [
      await scene.put(secrets, 't/listed', { own: '1', a: 'old' }, listed),
      await scene.put(secrets, 'u/listed', { own: '1', a: 'old' }, listed),
    ] as const;
    await scene.put(secrets, 'a/listed', { a: 'A' }, { to: 't,u' });
    for (const one of objects) assert.equal((await keeps(one, { own: '1', a: 'A' })).metadata.annotations[accept], 'a');
    await scene.say(secrets, 't/listed', { [accept]: null });
    await scene.say(secrets, 'a/listed', { to: 't' });
    for (const one of objects) assert.equal((await keeps(one, { own: '1' })).metadata.annotations, undefined);
  });

  it('an object of a user is never deleted, if the next rule cannot write there', async () => {
    const { secrets } = scene;
    await scene.api.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { namespace: 'b', name: 'refused' } });
    const mine = await scene.put(secrets, 't/refused', { own: '1' }, ACCEPT_A);
    await scene.put(secrets, 'a/refused', { a: 'A' }, { to: 't' });
    await keeps(mine, { own: '1', a: 'A' });
    const token = { 'kubernetes.io/service-account.name': 'refused' };
    const type = 'kubernetes.io/service-account-token';
    await scene.put(secrets, 'b/refused', { b: 'B' }, { to: 't', ...token }, { type });
    await secrets.warning('b/refused', 'Conflict');
    await scene.say(secrets, 'a/refused', { to: null });
    await keeps(mine, { own: '1' });
  });

  it('a copy with keys of others is not replaced by a source of another type: the keys of others stay', async () => {
    const { secrets } = scene;
    await scene.put(secrets, 'a/typed', { a: 'A' }, { to: 't' });
    const copy = await secrets.holds('t/typed', { a: 'A' });
    await scene.set(secrets, 't/typed', { own: 'x' });
    await scene.put(secrets, 'b/typed', { b: 'B' }, { to: 't' }, { type: 'my/type' });
    await secrets.warning('b/typed', 'Conflict');
    await secrets.delete('a/typed');
    await keeps(copy, { own: 'x' });
  });

  for (const [title, marks] of [
    ['k8s-replicator', { 'k8s-replicator/replicated-by': 'c/old', 'k8s-replicator/replicated-from-version': '1' }],
    ['reflector', { [`${REFLECTOR}/reflects`]: 'c/old', [`${REFLECTOR}/auto-reflects`]: 'True' }],
    ['mirrors and config-syncer', { 'mirrors.kts.studio/owned-by': 'c/old', 'keyferry.dev/synced-from': 'c/old' }],
  ] as const)
    it(`on an object of a user that got keys, an old mark of ${title} does not count`, async () => {
      const { secrets } = scene;
      const name = `old-${title.split(' ', 1)[0] ?? ''}`;
      const mine = await scene.put(secrets, `t/${name}`, { own: '1' }, { ...ACCEPT_A, ...marks });
      await scene.put(secrets, `a/${name}`, { a: 'A' }, { to: 't' });
      await keeps(mine, { own: '1', a: 'A' });
      await scene.say(secrets, `a/${name}`, { to: null });
      await keeps(mine, { own: '1' });
      await secrets.stayUnchanged([`t/${name}`], 'it is an object of its user');
    });

  /** Rules of other controllers that ask for the copy in `t`. */
  const JOINT = [
    [
      'reflector',
      {
        [`${REFLECTOR}/reflection-allowed`]: 'true',
        [`${REFLECTOR}/reflection-auto-enabled`]: 'true',
        [`${REFLECTOR}/reflection-auto-namespaces`]: 't',
      },
    ],
    ['config-syncer', { [SYNC]: 'kubernetes.io/metadata.name=t' }],
    ['k8s-replicator', { 'k8s-replicator/replicate-to-namespaces': 't' }],
  ] as const;

  for (const [title, also] of JOINT)
    it(`a copy of mittwald's and ${title} ends as mittwald's does: the keys of others stay`, async () => {
      const { secrets } = scene;
      const name = `joint-${title}`;
      await scene.put(secrets, `a/${name}`, { a: 'A' }, { to: 't', ...also });
      const copy = await joint(`t/${name}`);
      await scene.set(secrets, `t/${name}`, { own: 'x' });
      await secrets.delete(`a/${name}`);
      await keeps(copy, { own: 'x' });
    });

  for (const [title, also] of JOINT)
    it(`keys of others stay in a copy of mittwald's and ${title} when replicate-to ends first, and when the other ends, too`, async () => {
      const { secrets } = scene;
      const name = `first-${title}`;
      await scene.put(secrets, `a/${name}`, { a: '1' }, { to: 't', ...also });
      const copy = await joint(`t/${name}`);
      await scene.set(secrets, `t/${name}`, { own: 'x' });
      await scene.say(secrets, `a/${name}`, { to: null });
      await scene.set(secrets, `a/${name}`, { a: '2', b: '2' });
      await keeps(copy, { a: '2', b: '2', own: 'x' });
      await scene.set(secrets, `a/${name}`, { a: null });
      await keeps(copy, { b: '2', own: 'x' });
      await secrets.stayUnchanged([`t/${name}`], 'a copy with keys of others');
      await secrets.delete(`a/${name}`);
      const { metadata } = await keeps(copy, { own: 'x' });
      assert.deepEqual([metadata.annotations ?? {}, metadata.labels ?? {}], [{}, {}]);
    });

  it('a copy that replicate-to has left is whole again when the last key of others is gone', async () => {
    const { secrets } = scene;
    await scene.put(secrets, 'a/whole', { a: '1' }, { to: 't', ...JOINT[0][1] });
    const copy = await joint('t/whole');
    await scene.set(secrets, 't/whole', { own: 'x' });
    await scene.say(secrets, 'a/whole', { to: null });
    await secrets.stayUnchanged(['t/whole'], 'a copy with keys of others');
    await scene.set(secrets, 't/whole', { own: null });
    await secrets.becomes(
      't/whole',
      (now) => !('keyferry.dev/replicated-from' in now.metadata.annotations),
      'without its mark',
    );
    await scene.set(secrets, 't/whole', { own: 'again' });
    await keeps(copy, { a: '1' });
  });

  it('a source that the original has stamped as its own copy accepts nothing', async () => {
    const { secrets } = scene;
    const stamp = { 'replicated-keys': 'password,user', 'replicated-from-version': '1' };
    const source = await scene.put(secrets, 'a/stamped', { password: 'real', user: 'x' }, { to: 'c', ...stamp });
    await secrets.holds('c/stamped', { password: 'real', user: 'x' });
    await scene.put(secrets, 'b/stamped', { password: 'THEIRS' }, { to: 'a' });
    await secrets.warning('b/stamped', 'Conflict');
    await keeps(source, { password: 'real', user: 'x' });
  });

  it('an empty list of keys, and one that is left from a pull, are no consent', async () => {
    const { secrets } = scene;
    const empty = await scene.put(secrets, 't/empty', { password: 'mine' }, { 'replicated-keys': '' });
    await scene.put(secrets, 'b/empty', { password: 'THEIRS' }, { to: 't' });
    await secrets.warning('b/empty', 'Conflict');
    await keeps(empty, { password: 'mine' });
    await scene.put(secrets, 'a/pulled', { k: 'v' }, OPEN);
    const pulled = await scene.put(secrets, 't/pulled', { password: 'mine' }, { from: 'a/pulled' });
    await keeps(pulled, { password: 'mine', k: 'v' });
    await scene.say(secrets, 't/pulled', { from: null });
    await scene.put(secrets, 'b/pulled', { password: 'THEIRS' }, { to: 't' });
    await secrets.warning('b/pulled', 'Conflict');
    await keeps(pulled, { password: 'mine', k: 'v' });
  });

  it('keys that a rule takes back leave an object that is itself a source, and its copies', async () => {
    const { secrets } = scene;
    const mine = await scene.put(secrets, 't/chain', { own: '1' }, { ...ACCEPT_A, to: 'u' });
    await scene.put(secrets, 'a/chain', { secret: 'revoked' }, { to: 't' });
    await secrets.holds('u/chain', { own: '1', secret: 'revoked' });
    await secrets.delete('a/chain');
    await keeps(mine, { own: '1' });
    await secrets.holds('u/chain', { own: '1' });
  });

  it('a pull from a name elsewhere keeps its data, whether the source is missing or only forbidden', async () => {
    const { secrets } = scene;
    await scene.put(secrets, 'a/open', { k: 'v' }, OPEN);
    await scene.put(secrets, 'b/closed', { k: 'closed' });
    const names = ['t/to-closed', 't/to-missing'] as const;
    for (const name of names) {
      await scene.put(secrets, name, {}, { from: 'a/open' });
      await secrets.holds(name, { k: 'v' });
    }
    await scene.say(secrets, names[0], { from: 'b/closed' });
    await scene.say(secrets, names[1], { from: 'b/missing' });
    for (const name of names) await secrets.warning(name, 'Denied');
    await secrets.stayUnchanged(names, 'neither source has filled them');
    // What its own source filled is emptied when that source goes.
    await scene.put(secrets, 't/own-source', {}, { from: 'a/open' });
    await secrets.holds('t/own-source', { k: 'v' });
    await secrets.delete('a/open');
    await secrets.holds('t/own-source', {});
  });

  it('a pull takes only keys away that it lists: what another rule left in the object stays', async () => {
    const { secrets } = scene;
    await scene.put(secrets, 'a/retained', { k: 'keep' });
    await scene.put(secrets, 'a/other', { y: 'Y' }, OPEN);
    const mirror = '/apis/mirrors.kts.studio/v1alpha2/namespaces/a/secretmirrors/retained';
    await scene.api.create({
      apiVersion: 'mirrors.kts.studio/v1alpha2',
      kind: 'SecretMirror',
      metadata: { namespace: 'a', name: 'retained' },
      spec: { source: { name: 'retained' }, destination: { namespaces: ['t'] }, deletePolicy: 'retain' },
    });
    const copy = await secrets.holds('t/retained', { k: 'keep' });
    await scene.api.delete(mirror);
    await waitFor(async () => (await scene.api.find(mirror)) === undefined, { message: 'the mirror to be gone' });
    await scene.say(secrets, 't/retained', { from: 'a/other' });
    await keeps(copy, { k: 'keep', y: 'Y' });
  });
});
