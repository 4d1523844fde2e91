/**
 * A user deletes a mirror while a finalizer, or a server that refuses writes, blocks the deletion of its copies, its
 * namespace or the mirror itself.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { staysTrue, waitFor } from '../../support/wait-for.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { refuse } from '../engine/admission.ts';
import { FINALIZER, HOME, mirrorPath, MirrorScene, RETAIN, secretPath } from './support.ts';

const TIMEOUT_MS = 5000;
const THEIRS = 'example.com/tenant';
/** Keyferry retries a refused deletion after 1 min at most. This limit (ms) is longer. */
const RETRY_MS = 90_000;

let scene: MirrorScene;
let operator: Keyferry;

async function start(): Promise<void> {
  operator = await scene.operator({ args: [`--deletion-timeout=${TIMEOUT_MS}ms`] });
}

before(async () => {
  scene = await MirrorScene.open();
  await start();
});
after(() => scene.close());

/** Creates a mirror with one copy, in a namespace with the mirror's name. */
async function copied(name: string, home = HOME): Promise<void> {
  await scene.namespaces(name);
  await scene.secret(home, name, { a: '1' });
  await scene.mirror(name, [name], {}, home);
  await scene.copied(name, name, { a: '1' });
  await scene.ready(name, 'Synced', /(?:)/, home);
}

const addFinalizer = (name: string): Promise<unknown> =>
  scene.api.patch(secretPath(name, name), { metadata: { finalizers: [THEIRS] } });
const removeFinalizer = (name: string): Promise<unknown> =>
  scene.api.patch(secretPath(name, name), { metadata: { finalizers: null } });

describe('a mirror that is deleted while a finalizer holds its copy', () => {
  it('if a copy of a deleted mirror has a finalizer, the mirror names the copy and is gone after the timeout; the copy goes after its finalizer', async () => {
    await copied('bounded');
    await addFinalizer('bounded');
    await scene.api.delete(mirrorPath('bounded'));
    const { mirrorStatus } = await scene.ready('bounded', 'Terminating', /waiting in namespace bounded: .*finalizers/);
    assert.equal(mirrorStatus, 'Active');
    await scene.event('bounded', 'Terminating', /namespace bounded/);
    await scene.gone(mirrorPath('bounded'));
    await scene.event('bounded', 'DeletionTimeout', /namespace bounded/);
    assert.ok(await scene.find('bounded', 'bounded'));
    await removeFinalizer('bounded');
    await scene.gone(secretPath('bounded', 'bounded'));
  });

  it('if the operator is killed while a deleted mirror waits for a copy with a finalizer, the mirror is still gone after the timeout', async () => {
    await copied('killed');
    await addFinalizer('killed');
    await scene.api.delete(mirrorPath('killed'));
    await scene.ready('killed', 'Terminating');
    await operator.kill9();
    await start();
    await scene.gone(mirrorPath('killed'));
    await removeFinalizer('killed');
    await scene.gone(secretPath('killed', 'killed'));
  });
});

describe('a mirror that is deleted while the server refuses a write to its copy', () => {
  it('if the server refuses to delete a copy, its deleted mirror is gone after the timeout, and the copy once the server permits it', async () => {
    await copied('refused');
    {
      const when = `request.namespace == 'refused'`;
      await using _ = await refuse(scene.api, 'refused', { when, operations: ['DELETE'] });
      await scene.api.delete(mirrorPath('refused'));
      await scene.gone(mirrorPath('refused'));
      await scene.event('refused', 'DeletionTimeout', /namespace refused: .*refused by refused/);
      assert.ok(await scene.find('refused', 'refused'));
    }
    await waitFor(async () => (await scene.find('refused', 'refused')) === undefined, { timeoutMs: RETRY_MS });
  });

  it('if the server refuses the retain mark on a copy, its deleted mirror waits; without the mark, the copy would be deleted', async () => {
    await copied('marked');
    {
      await using _ = await refuse(scene.api, 'marked', { when: `request.namespace == 'marked'` });
      await scene.api.patch(mirrorPath('marked'), { spec: { deletePolicy: 'retain' } });
      await scene.api.delete(mirrorPath('marked'));
      await scene.ready('marked', 'SyncError', /cannot delete the copy in namespace marked: .*refused by marked/);
      const there = async (): Promise<boolean> => (await scene.api.find(mirrorPath('marked'))) !== undefined;
      await staysTrue(there, TIMEOUT_MS + 1000, 'the mirror is there');
    }
    await waitFor(async () => (await scene.api.find(mirrorPath('marked'))) === undefined, { timeoutMs: RETRY_MS });
    assert.equal((await scene.find('marked', 'marked')).metadata.annotations[RETAIN], 'true');
  });
});

describe('a mirror that retains a copy with no room for the retain mark', () => {
  it('if a copy has no room for the retain mark, its deleted mirror is gone, and the copy stays without an owner', async () => {
    await scene.namespaces('full');
    await scene.secret(HOME, 'full', { a: '1' });
    await scene.mirror('full', ['full'], { deletePolicy: 'retain' });
    await scene.ready('full', 'Synced');
    const { metadata } = await scene.find('full', 'full');
    const { [RETAIN]: _, ...annotations } = metadata.annotations;
    let room = 256 * 1024;
    for (const [key, value] of Object.entries<string>(annotations)) room -= key.length + value.length;
    // Fills the annotations up to the limit, which counts bytes: `é` has two. The key has a prefix that Keyferry reads.
    const key = 'keyferry.dev/stuffing';
    const text = 'é'.repeat(Math.floor((room - key.length) / 2));
    await scene.api.patch(secretPath('full', 'full'), { metadata: { annotations: { [RETAIN]: null, [key]: text } } });
    await scene.api.delete(mirrorPath('full'));
    await scene.gone(mirrorPath('full'));
    const isThere = async (): Promise<boolean> => (await scene.find('full', 'full'))?.metadata.uid === metadata.uid;
    await staysTrue(isThere, 2000, 'the copy is there');
    const { labels, annotations: left } = (await scene.find('full', 'full')).metadata;
    assert.deepEqual(
      [labels['keyferry.dev/copy'], left[RETAIN], left['mirrors.kts.studio/owned-by']],
      ['mirrors', 'true', undefined],
    );
  });
});

describe('a mirror with the finalizer of another program', () => {
  it('if a deleted mirror has the finalizer of another program, too, its copies are deleted and that finalizer stays', async () => {
    await copied('shared');
    await scene.api.patch(mirrorPath('shared'), { metadata: { finalizers: [THEIRS, FINALIZER] } });
    await scene.api.delete(mirrorPath('shared'));
    const { metadata } = await waitFor(async () => {
      const mirror = await scene.api.get(mirrorPath('shared'));
      return !mirror.metadata.finalizers.includes(FINALIZER) && mirror;
    });
    assert.deepEqual(metadata.finalizers, [THEIRS]);
    assert.equal(await scene.find('shared', 'shared'), undefined);
    await scene.api.patch(mirrorPath('shared'), { metadata: { finalizers: null } });
    await scene.gone(mirrorPath('shared'));
  });
});
