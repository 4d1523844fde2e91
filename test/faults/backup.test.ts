/** etcd is restored from a backup. The operator must then not act on objects that no longer exist in this form. */
import assert from 'node:assert/strict';
import { cp, rm } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { MirrorScene } from '../scenarios/mirrors/support.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { waitFor } from '../support/wait-for.ts';

const LATER_WRITES = 300;

let scene: MirrorScene;

before(async () => {
  scene = await MirrorScene.open({ controllerManager: false, own: true });
});
after(() => scene.close());

/** Stops the API server and etcd, changes the files of etcd, and starts both again. */
async function offline(work: (folder: string) => Promise<void>): Promise<void> {
  const { plane } = scene;
  await plane.servers.stopApiServer();
  await plane.servers.stopEtcd();
  await work(path.join(plane.folder, 'etcd'));
  await plane.servers.startEtcd();
  await plane.servers.startApiServer();
}

test('after etcd was restored from a backup, the operator exits with the reason; after its restart, it updates its copies', async () => {
  const { plane } = scene;
  const backup = path.join(plane.folder, 'backup');
  await scene.namespaces('target');
  await scene.secret('default', 'source', { key: 'old' });
  await scene.mirror('source', ['target']);
  const first = await scene.operator({ args: ['--watch-idle-timeout=2s'] });
  await scene.copied('target', 'source', { key: 'old' });
  await offline((folder) => cp(folder, backup, { recursive: true }));
  // The restored API server makes some writes at its start. With many writes now, the versions before the restore are
  // higher than all versions after it.
  await scene.namespaces(...Array.from({ length: LATER_WRITES }, (_, n) => `later-${n}`));
  await scene.change('default', 'source', { key: 'new' });
  await scene.copied('target', 'source', { key: 'new' });
  assert.ok(first.running, 'an outage of the API server does not end the operator');

  await offline(async (folder) => {
    await rm(folder, { recursive: true });
    await cp(backup, folder, { recursive: true });
  });
  await waitFor(() => !first.running, { message: 'the operator to notice the rollback' });
  assert.equal((await first.stop()).code, 1);
  assert.match(first.output, /the API server returned an older state than before \(.+\), as after an etcd restore/u);

  await scene.operator();
  await scene.change('default', 'source', { key: 'newer' });
  await scene.copied('target', 'source', { key: 'newer' });
});

failOnLeaks();
