/**
 * Nothing blocks the deletion of a mirror for ever, and copies that the mirror must retain stay. A user's object in
 * place of a copy blocks the copy only until its deletion ends.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { HOME, mirrorPath, MirrorScene, RETAIN, secretPath } from '../mirrors/support.ts';
import { refuse } from './admission.ts';

let scene: MirrorScene;

before(async () => {
  scene = await MirrorScene.open({ controllerManager: false });
  await scene.operator();
});
after(() => scene.close());

/** Longer than every automatic effect of a deletion takes, ms. */
const SETTLE_MS = 1500;

describe('a mirror whose target another mirror claims too', () => {
  it('if two mirrors claim a copy and the second has no source, deleting the first mirror deletes the copy', async () => {
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

  it("if a user's Secret blocks the copy of two mirrors, each mirror can still be deleted", async () => {
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
  it('if the server refuses to delete a copy, its deleted mirror reports it, and is gone once the server permits the deletion', async () => {
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
  it('if deletePolicy becomes retain just before the mirror is deleted, the copy stays, even if the source is missing', async () => {
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

  it('if deletePolicy becomes retain just before the mirror is deleted, all its 40 copies stay unchanged', async () => {
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
    it(`a mirror makes its copy once a user's Secret with the copy's name is gone, also if a finalizer delays its deletion${late ? ', which began before the operator started' : ''}`, async () => {
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
