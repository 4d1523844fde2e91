/**
 * Copies follow their mirror and the namespaces: edits of the spec, delete policies, and namespaces that are deleted
 * and created again.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { longIt } from '../../support/long.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { FINALIZER, HOME, mirrorPath, MirrorScene, OWNED_BY, secretPath } from './support.ts';

let scene: MirrorScene;

before(async () => {
  scene = await MirrorScene.open();
  await scene.operator();
});
after(() => scene.close());

/** Creates a mirror, and waits for its copies in `<name>-a` and `<name>-b`. @returns the copies */
const settled = async (name: string, spec: Json = {}): Promise<Json[]> => {
  const namespaces = [`${name}-a`, `${name}-b`];
  await scene.namespaces(...namespaces);
  await scene.secret(HOME, name, { a: '1' });
  await scene.mirror(name, namespaces, spec);
  const copies = await Promise.all(namespaces.map((namespace) => scene.copied(namespace, name, { a: '1' })));
  await scene.ready(name, 'Synced', /^2 copies/);
  return copies;
};

const spec = (name: string, patch: Json): Promise<Json> => scene.api.patch(mirrorPath(name), { spec: patch });
const copies = (name: string): readonly [string, string] => [
  secretPath(`${name}-a`, name),
  secretPath(`${name}-b`, name),
];
const isThere = async (path: string): Promise<boolean> => (await scene.api.find(path)) !== undefined;

describe('a mirror that is deleted', { concurrency: 4 }, () => {
  it('if a mirror is deleted, its copies are deleted; the mirror waits for a copy with a finalizer', async () => {
    await settled('gone');
    const [first, second] = copies('gone');
    await scene.api.patch(first, { metadata: { finalizers: ['example.com/hold'] } });
    await scene.api.delete(mirrorPath('gone'));
    await scene.gone(second);
    await waitFor(async () => (await scene.api.get(first)).metadata.deletionTimestamp !== undefined);
    assert.deepEqual((await scene.api.get(mirrorPath('gone'))).metadata.finalizers, [FINALIZER]);
    await scene.api.patch(first, { metadata: { finalizers: null } });
    await scene.gone(first, mirrorPath('gone'));
    assert.ok(await isThere(secretPath(HOME, 'gone')), 'the source stays');
  });

  it('if a mirror with deletePolicy retain is deleted, its copies stay; if it is created again, it owns them again', async () => {
    await settled('stay', { deletePolicy: 'retain' });
    await scene.api.delete(mirrorPath('stay'));
    await scene.gone(mirrorPath('stay'));
    const [path] = copies('stay');
    const left = await scene.api.get(path);
    assert.equal(left.metadata.annotations[OWNED_BY], `${HOME}/stay`);
    await scene.mirror('stay', ['stay-.'], { deletePolicy: 'retain' });
    await scene.ready('stay', 'Synced', /^2 copies/);
    assert.equal((await scene.api.get(path)).metadata.uid, left.metadata.uid);
    await scene.change(HOME, 'stay', { a: '2' });
    await scene.copied('stay-a', 'stay', { a: '2' });
    await spec('stay', { deletePolicy: 'delete' });
    await scene.ready('stay', 'Synced');
    await scene.api.delete(mirrorPath('stay'));
    await scene.gone(...copies('stay'), mirrorPath('stay'));
  });

  it('if a user removed the finalizer of a mirror by hand, its copies are still deleted with it', async () => {
    await settled('torn');
    await scene.api.patch(mirrorPath('torn'), { metadata: { finalizers: ['example.com/hold', FINALIZER] } });
    await scene.api.patch(mirrorPath('torn'), { metadata: { finalizers: null } });
    await scene.api.delete(mirrorPath('torn'));
    await scene.gone(...copies('torn'));
  });
});

describe('a mirror that is edited', { concurrency: 4 }, () => {
  it('if the list of namespaces changes, the mirror deletes copies in unlisted namespaces and makes copies in new ones', async () => {
    const [kept] = await settled('narrow');
    await scene.namespaces('narrow-c');
    await spec('narrow', { destination: { namespaces: ['narrow-[ac]'] } });
    await scene.gone(copies('narrow')[1]);
    await scene.copied('narrow-c', 'narrow', { a: '1' });
    assert.equal((await scene.find('narrow-a', 'narrow')).metadata.uid, kept.metadata.uid);
    await scene.ready('narrow', 'Synced', /^2 copies/);
  });

  it('if the list of namespaces of a mirror with deletePolicy retain changes, copies in unlisted namespaces stay unchanged', async () => {
    const [, unlisted] = await settled('narrow-keep', { deletePolicy: 'retain' });
    await spec('narrow-keep', { destination: { namespaces: ['narrow-keep-a'] } });
    await scene.ready('narrow-keep', 'Synced', /^1 copy/);
    const path = copies('narrow-keep')[1];
    await staysTrue(async () => (await scene.api.get(path)).metadata.uid === unlisted.metadata.uid, 500, 'the copy');
    await scene.change(HOME, 'narrow-keep', { a: '2' });
    await scene.copied('narrow-keep-a', 'narrow-keep', { a: '2' });
    assert.deepEqual((await scene.api.get(path)).data, scene.data({ a: '1' }), 'it is no longer written');
    // The mark on the copy counts, also if the mirror has another policy when it is deleted.
    await spec('narrow-keep', { deletePolicy: 'delete' });
    await scene.ready('narrow-keep', 'Synced', /^1 copy/);
    await scene.api.delete(mirrorPath('narrow-keep'));
    await scene.gone(copies('narrow-keep')[0] ?? '', mirrorPath('narrow-keep'));
    await staysTrue(async () => (await scene.find('narrow-keep-b', 'narrow-keep')) !== undefined, 1000, 'the copy');
  });

  it('if a mirror gets another source, it copies that source, and deletes the copies of the old source', async () => {
    await settled('rename');
    await scene.secret(HOME, 'renamed', { b: '1' });
    await spec('rename', { source: { name: 'renamed' } });
    await scene.copied('rename-a', 'renamed', { b: '1' });
    await scene.copied('rename-b', 'renamed', { b: '1' });
    await scene.gone(...copies('rename'));
    await scene.ready('rename', 'Synced', /^2 copies/);
    await spec('rename', { source: { name: 'renamed-missing' } });
    await scene.ready('rename', 'NoSecret', /renamed-missing/);
    await scene.gone(secretPath('rename-a', 'renamed'), secretPath('rename-b', 'renamed'));
  });

  it("if deletePolicy changes from retain to delete, the copies of the mirror's old source are deleted without a restart", async () => {
    await settled('kept');
    await scene.secret(HOME, 'kept-v2', { a: '2' });
    await spec('kept', { source: { name: 'kept-v2' }, deletePolicy: 'retain' });
    await scene.copied('kept-a', 'kept-v2', { a: '2' });
    await scene.ready('kept', 'Synced', /^2 copies/);
    await staysTrue(() => isThere(copies('kept')[0]), 500, 'the copy of the old source');
    await spec('kept', { deletePolicy: 'delete' });
    await scene.gone(...copies('kept'));
    assert.ok(await isThere(secretPath(HOME, 'kept')), 'the old source stays');
    assert.ok(await isThere(secretPath('kept-a', 'kept-v2')), 'the new copy stays');
  });

  it('if an edit of a mirror changes no copy, the status gets the new observedGeneration, and no copy is written', async () => {
    const [copy] = await settled('period');
    await spec('period', { pollPeriodSeconds: 60 });
    const status = await scene.ready('period', 'Synced');
    assert.equal(status.observedGeneration, (await scene.api.get(mirrorPath('period'))).metadata.generation);
    const now = await scene.find('period-a', 'period');
    assert.equal(now.metadata.resourceVersion, copy.metadata.resourceVersion);
  });
});

describe('a namespace', { concurrency: 4 }, () => {
  it('a namespace that is created after the mirror gets its copy within 1 s', async () => {
    await scene.secret(HOME, 'late', { a: '1' });
    await scene.mirror('late', ['late-comer-.+']);
    await scene.ready('late', 'Synced', /^0 copies/);
    await scene.namespaces('late-comer-one');
    await scene.copied('late-comer-one', 'late', { a: '1' }, 1000);
    await scene.ready('late', 'Synced', /^1 copy/);
  });

  it('a namespace that is deleted and created again gets its copy again, and its deletion causes no Warning event', async () => {
    await settled('return');
    await scene.api.delete('/api/v1/namespaces/return-b');
    await scene.gone('/api/v1/namespaces/return-b');
    await scene.ready('return', 'Synced', /^1 copy/);
    await scene.namespaces('return-b');
    await scene.copied('return-b', 'return', { a: '1' }, 2000);
    await scene.ready('return', 'Synced', /^2 copies/);
    const warnings = (await scene.events('return')).filter(
      ({ type, reason }) => type === 'Warning' && reason !== 'NoSecret',
    );
    assert.deepEqual(warnings, []);
  });

  longIt('a namespace that hangs in Terminating does not delay the copies in other namespaces', async () => {
    await settled('hang');
    const anchor = { name: 'anchor', namespace: 'hang-b', finalizers: ['example.com/hold'] };
    await scene.api.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: anchor });
    await scene.api.delete('/api/v1/namespaces/hang-b');
    await scene.gone(copies('hang')[1]);
    await scene.ready('hang', 'Synced', /^1 copy/);
    await scene.change(HOME, 'hang', { a: '2' });
    await scene.copied('hang-a', 'hang', { a: '2' }, 2000);
    await scene.api.delete(mirrorPath('hang'));
    await scene.gone(mirrorPath('hang'), copies('hang')[0]);
    await scene.api.patch('/api/v1/namespaces/hang-b/configmaps/anchor', { metadata: { finalizers: null } });
    await scene.gone('/api/v1/namespaces/hang-b');
  });

  it("a namespace with a mirror can be deleted, and the mirror's copies in other namespaces are deleted, too", async () => {
    await scene.namespaces('tenant', 'tenant-target');
    await scene.secret('tenant', 'tenant', { a: '1' });
    await scene.mirror('tenant', ['tenant-target'], {}, 'tenant');
    await scene.copied('tenant-target', 'tenant', { a: '1' });
    await scene.api.delete('/api/v1/namespaces/tenant');
    // The test does not wait for the end of the namespace: after a finalizer kept an object, the namespace controller
    // tries again only some seconds later.
    await scene.gone(secretPath('tenant-target', 'tenant'), mirrorPath('tenant', 'tenant'));
  });
});
