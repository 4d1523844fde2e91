/**
 * A mirror is replaced by another one that makes the same copies, or is deleted before it has a finalizer. No copy that
 * a mirror wants is deleted, and none is left that no mirror wants.
 */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
import { refuse } from '../engine/admission.ts';
import { FINALIZER, HOME, mirrorPath, MirrorScene, OWNED_BY, RETAIN, secretPath } from './support.ts';

let scene: MirrorScene;
let watcher: AsyncDisposable;
/** The paths of the Secrets that were deleted. */
const deleted: string[] = [];

before(async () => {
  scene = await MirrorScene.open({ controllerManager: false });
  await scene.operator();
  watcher = await scene.api.watch('/api/v1/secrets', ({ type, object: { metadata } }) => {
    if (type === 'DELETED') deleted.push(secretPath(metadata.namespace, metadata.name));
  });
});
beforeEach(() => deleted.splice(0));
after(async () => {
  await watcher[Symbol.asyncDispose]();
  await scene.close();
});

const eachOf = <T>(names: readonly string[], act: (name: string) => Promise<T>): Promise<T[]> =>
  Promise.all(names.map(act));

/** The uids of the copies. Each copy has the name of its namespace. */
async function uids(names: readonly string[]): Promise<string[]> {
  return await eachOf(names, async (name) => (await scene.find(name, name))?.metadata.uid);
}

/** Creates sources and mirrors `<name>` with copies in the namespaces `<name>`. @returns the names */
async function mirrored(prefix: string, count: number): Promise<string[]> {
  const names = Array.from({ length: count }, (_, index) => `${prefix}-${index}`);
  await scene.namespaces(...names);
  await eachOf(names, async (name) => {
    await scene.secret(HOME, name, { a: '1' });
    await mirror(name, name);
  });
  await eachOf(names, async (name) => await scene.ready(name, 'Synced'));
  return names;
}

async function mirror(name: string, source: string, spec: Json = {}): Promise<void> {
  await scene.mirror(name, [source], { ...spec, source: { name: source } });
}

/** Waits until the copies belong to the mirrors, and the mirrors are Synced. */
async function owned(names: readonly string[], ownerOf: (name: string) => string): Promise<void> {
  await eachOf(names, async (name) => {
    const owner = ownerOf(name);
    const isOwned = async (): Promise<boolean> =>
      (await scene.find(name, name))?.metadata.annotations?.[OWNED_BY] === `${HOME}/${owner}`;
    await waitFor(isOwned, { message: `the copy ${name} to belong to ${owner}` });
    await scene.ready(owner, 'Synced');
  });
}

const successor = (name: string): string => `${name}-new`;

describe('mirrors that are renamed, as Helm does it: first all new ones are created, then all old ones deleted', () => {
  it('all copies of 30 renamed mirrors stay: none gets another uid, and none is deleted', async () => {
    const names = await mirrored('renamed', 30);
    const before = await uids(names);
    for (const name of names) await mirror(successor(name), name);
    for (const name of names) await scene.api.delete(mirrorPath(name));
    await scene.gone(...names.map((name) => mirrorPath(name)));
    await owned(names, successor);
    assert.deepEqual(await uids(names), before);
    assert.deepEqual(deleted, []);
  });

  it('all copies stay if the mirrors are renamed while no operator runs', async () => {
    const names = await mirrored('offline', 20);
    const before = await uids(names);
    await scene.operators.at(-1)?.kill9();
    for (const name of names) await mirror(successor(name), name);
    for (const name of names) await scene.api.delete(mirrorPath(name));
    await scene.operator();
    await scene.gone(...names.map((name) => mirrorPath(name)));
    await owned(names, successor);
    assert.deepEqual(await uids(names), before);
    assert.deepEqual(deleted, []);
  });
});

it('the copies of a mirror that is deleted by force, without its finalizer, and made again at once stay', async () => {
  const names = await mirrored('forced', 10);
  const before = await uids(names);
  {
    // Until the mirrors are made again, nobody can add the finalizer. Otherwise the deletion would wait for it.
    await using _ = await noFinalizers('forced');
    for (const name of names) {
      await scene.api.patch(mirrorPath(name), { metadata: { finalizers: null } });
      await scene.api.delete(mirrorPath(name));
      await mirror(name, name);
    }
  }
  await owned(names, (name) => name);
  assert.deepEqual(await uids(names), before);
  assert.deepEqual(deleted, []);
});

/** Lets the server refuse to add the finalizer of Keyferry. */
async function noFinalizers(name: string): Promise<AsyncDisposable> {
  const isHeld = `object.metadata.?finalizers.orValue([]).exists(one, one == '${FINALIZER}')`;
  return await refuse(scene.api, `${name}-held`, {
    groupVersion: 'mirrors.kts.studio/v1alpha2',
    resource: 'secretmirrors',
    required: {
      apiVersion: 'mirrors.kts.studio/v1alpha2',
      kind: 'SecretMirror',
      spec: { source: { name: 'x' }, destination: { namespaces: ['x'] } },
    },
    operations: ['UPDATE'],
    when: isHeld,
  });
}

describe('a mirror whose finalizer cannot be written', () => {
  it('makes its copies but is not ready; when it is deleted, they go, or stay and are marked if its last version retains them', async () => {
    const names = ['gap-deleted', 'gap-retained'];
    await scene.namespaces(...names);
    await eachOf(names, async (name) => await scene.secret(HOME, name, { a: '1' }));
    await using _ = await noFinalizers('gap');
    await eachOf(names, async (name) => await mirror(name, name));
    await eachOf(names, async (name) => await scene.copied(name, name, { a: '1' }));
    const { mirrorStatus } = await scene.ready('gap-deleted', 'SyncError', /finalizer.*refused by gap-held/);
    assert.equal(mirrorStatus, 'Error');
    const [, before] = await uids(names);
    await scene.api.patch(mirrorPath('gap-retained'), { spec: { deletePolicy: 'retain' } });
    await eachOf(names, async (name) => await scene.api.delete(mirrorPath(name)));
    await eachOf(names, async (name) => await scene.gone(mirrorPath(name)));
    await scene.gone(secretPath('gap-deleted', 'gap-deleted'));
    const retained = async (): Promise<Json> => {
      const copy = await scene.find('gap-retained', 'gap-retained');
      return copy?.metadata.annotations[RETAIN] === 'true' && copy;
    };
    const copy = await waitFor(retained, { message: 'the mark on the retained copy' });
    assert.equal(copy.metadata.uid, before);
    await scene.operators.at(-1)?.kill9();
    await scene.operator();
    await scene.secret(HOME, 'gap-after', { a: '1' });
    await scene.namespaces('gap-after');
    await mirror('gap-after', 'gap-after');
    await scene.copied('gap-after', 'gap-after', { a: '1' });
    assert.equal((await scene.find('gap-retained', 'gap-retained')).metadata.uid, before, 'also after a restart');
  });

  it('a mirror that is created, set to retain and deleted at once loses no copy', async () => {
    const names = Array.from({ length: 30 }, (_, index) => `hasty-${index}`);
    await scene.namespaces(...names);
    await eachOf(names, async (name) => await scene.secret(HOME, name, { a: '1' }));
    for (const name of names) {
      await mirror(name, name);
      await scene.api.patch(mirrorPath(name), { spec: { deletePolicy: 'retain' } });
      await scene.api.delete(mirrorPath(name));
    }
    await scene.gone(...names.map((name) => mirrorPath(name)));
    const made = await eachOf(names, async (name) => await scene.find(name, name));
    await waitFor(async () => (await uids(names)).every((uid, index) => uid === made[index]?.metadata.uid));
    await eachOf(names, async (name) => {
      const isMarked = async (): Promise<boolean> => {
        const copy = await scene.find(name, name);
        return copy === undefined || copy.metadata.annotations[RETAIN] === 'true';
      };
      await waitFor(isMarked, { message: `the mark on ${name}` });
    });
    assert.deepEqual(deleted, []);
  });
});
