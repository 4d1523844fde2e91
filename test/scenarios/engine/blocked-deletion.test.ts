/**
 * The deletion of a mirror is never blocked for ever, and copies that it must retain stay. The same for an object that
 * blocks a copy.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { HOME, mirrorPath, MirrorScene, RETAIN, secretPath } from '../mirrors/support.ts';
import { refuse } from './admission.ts';

let scene: MirrorScene;

before(async () => {
  scene = await MirrorScene.open();
  await scene.operator();
});
after(() => scene.close());

/** Longer than all automatic effects of a deletion take. */
const SETTLE_MS = 1500;

describe('a mirror whose target another mirror claims too', () => {
  it('a mirror is deleted, with its copy, although another mirror that claims the copy has no source', async () => {
    await scene.namespaces('two-home', 'two-target');
    await scene.secret(HOME, 'two', { a: '1' });
    await scene.mirror('two', ['two-target']);
    await scene.copied('two-target', 'two', { a: '1' });
    await scene.mirror('two', ['two-target'], {}, 'two-home');
    await scene.ready('two', 'NoSecret', /(?:)/, 'two-home');
    await scene.api.delete(mirrorPath('two'));
    await scene.gone(mirrorPath('two'), secretPath('two-target', 'two'));
    await scene.secret('two-home', 'two', { b: '2' });
    await scene.copied('two-target', 'two', { b: '2' });
  });

  it("a mirror is deleted although a user's Secret blocks its copy and that of another mirror", async () => {
    await scene.namespaces('both-home', 'both-target');
    await scene.secret('both-target', 'both', { theirs: 'x' });
    for (const home of [HOME, 'both-home']) {
      await scene.secret(home, 'both', { a: '1' });
      await scene.mirror('both', ['both-target'], {}, home);
      await scene.ready('both', 'Conflict', /(?:)/, home);
    }
    await scene.api.delete(mirrorPath('both'));
    await scene.gone(mirrorPath('both'));
  });
});

describe('a mirror whose copy may not be deleted', () => {
  it('a deleted mirror reports that the server refuses to delete its copy, and is gone once the server permits it', async () => {
    await scene.namespaces('held');
    await scene.secret(HOME, 'held', { a: '1' });
    await scene.mirror('held', ['held']);
    await scene.ready('held', 'Synced');
    {
      await using _ = await refuse(scene.api, 'held', { when: `request.namespace == 'held'`, operations: ['DELETE'] });
      await scene.api.delete(mirrorPath('held'));
      await scene.ready('held', 'SyncError', /namespace held: .*refused by held/);
      await scene.event('held', 'SyncError', /refused by held/);
    }
    await waitFor(async () => (await scene.api.find(mirrorPath('held'))) === undefined, { timeoutMs: 70_000 });
    await scene.gone(secretPath('held', 'held'));
  });
});

describe('a mirror that is set to retain its copies just before its deletion', () => {
  it('a mirror set to retain its copies just before its deletion leaves them, also without a source', async () => {
    await scene.namespaces('keep');
    await scene.secret(HOME, 'keep', { a: '1' });
    await scene.mirror('keep', ['keep']);
    await scene.copied('keep', 'keep', { a: '1' });
    await scene.ready('keep', 'Synced');
    await scene.api.delete(secretPath(HOME, 'keep'));
    await scene.ready('keep', 'NoSecret');
    await scene.api.patch(mirrorPath('keep'), { spec: { deletePolicy: 'retain' } });
    await scene.api.delete(mirrorPath('keep'));
    await scene.gone(mirrorPath('keep'));
    await staysTrue(async () => (await scene.find('keep', 'keep')) !== undefined, SETTLE_MS, 'the copy is there');
    const copy = await scene.copied('keep', 'keep', { a: '1' });
    assert.equal(copy.metadata.annotations[RETAIN], 'true');
  });

  it('a mirror set to retain its 40 copies just before its deletion leaves all of them unchanged', async () => {
    const namespaces = Array.from({ length: 40 }, (_, index) => `keep-many-${index}`);
    await scene.namespaces(...namespaces);
    await scene.secret(HOME, 'keep-many', { a: '1' }, { metadata: { labels: { team: 'a' } } });
    await scene.mirror('keep-many', ['keep-many-.+']);
    for (const namespace of namespaces) await scene.copied(namespace, 'keep-many', { a: '1' });
    await scene.ready('keep-many', 'Synced');
    await scene.api.patch(mirrorPath('keep-many'), { spec: { deletePolicy: 'retain' } });
    await scene.api.delete(mirrorPath('keep-many'));
    await scene.gone(mirrorPath('keep-many'));
    const left = async (): Promise<number> =>
      (await Promise.all(namespaces.map((namespace) => scene.find(namespace, 'keep-many')))).filter(
        (copy) => copy?.metadata.labels.team === 'a' && copy.metadata.annotations[RETAIN] === 'true',
      ).length;
    await staysTrue(async () => (await left()) === namespaces.length, SETTLE_MS, 'all copies are there');
  });
});

describe("a user's Secret in the place of a copy whose deletion a finalizer delays", () => {
  for (const late of [false, true]) {
    it(`a user's Secret whose deletion a finalizer delays makes room for the copy in the end${late ? ', also when the deletion began before the operator started' : ''}`, async () => {
      const name = `slow-${late}`;
      await scene.namespaces(name);
      await scene.secret(name, name, { theirs: 'x' }, { metadata: { finalizers: ['example.com/slow'] } });
      await scene.secret(HOME, name, { a: '1' });
      if (late) await scene.api.delete(secretPath(name, name));
      await scene.mirror(name, [name]);
      if (!late) {
        await scene.ready(name, 'Conflict');
        await scene.api.delete(secretPath(name, name));
      }
      await waitFor(async () => /being deleted/.test(JSON.stringify(await scene.status(name))), {
        message: 'the status to report the wait',
      });
      await scene.api.patch(secretPath(name, name), { metadata: { finalizers: null } });
      await scene.copied(name, name, { a: '1' }, 3000);
    });
  }
});
