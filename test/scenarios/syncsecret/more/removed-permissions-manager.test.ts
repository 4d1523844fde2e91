/** Tests the manager without single permissions: each permission in its manifest is missing one time. */
import assert from 'node:assert/strict';
import { after, afterEach, before, it } from 'node:test';

import type { Json } from '../../../support/api.ts';
import type { Keyferry } from '../../../support/keyferry.ts';
import { NO_STREAMED_LISTS, type Role, roleOf, Trial } from '../../../support/permission-trial.ts';
import { HOME } from '../../../support/sync-secret-install.ts';
import { withoutEvents } from '../event-permissions.ts';
import { secretPath, syncSecretPath, SyncSecretScene } from '../support.ts';

const FILE = 'rbac-syncsecret-manager.yaml';
const trial = new Trial();
let scene: SyncSecretScene;
let role: Role;
let home: Role;
let one: Json;
const at = (name: string): string => syncSecretPath('default', name);

before(async () => {
  scene = await SyncSecretScene.open({ controllerManager: false });
  const { managementPlane, managerUser } = scene.clusters;
  role = roleOf(FILE, 'keyferry-syncsecret-manager', managementPlane, managerUser);
  home = roleOf(FILE, 'keyferry-syncsecret-manager', managementPlane, managerUser, HOME);
});
afterEach(() => trial.restoreAll());
after(async () => {
  await trial.program.kill9();
  await scene.close();
});

async function create(name: string): Promise<Json> {
  return await scene.create('default', name, { a: '1' }, {}, scene.managementApi);
}

async function start(): Promise<Keyferry> {
  return await scene.clusters.manager({ args: ['--enable-leader-election=true', `--namespace=${HOME}`] });
}

it('a manager without a permission that it needs at its start waits, and names the permission in the log', async () => {
  const { managementApi: api, clusters } = scene;
  clusters.managerProxy.rule(NO_STREAMED_LISTS);
  one = await create('one');
  let missing = await trial.take(role, 'syncsecrets list');
  await trial.start(start());
  await missing.isNamed();
  assert.equal(await trial.isReady(), false);
  missing = await missing.next(role, 'secrets list');
  await trial.program.kill9();
  await trial.start(start());
  await missing.isNamed();
  assert.equal(await trial.isReady(), false);
  missing = await missing.next(home, 'leases get');
  await missing.isNamed();
  assert.equal(await trial.isReady(), false);
  missing = await missing.next(home, 'leases create');
  await missing.isNamed();
  assert.equal(await scene.findSecret(one), undefined);
  await missing.giveBack();
  await scene.made(one, { a: '1' });
  clusters.managerProxy.clearRules();
  missing = await trial.take(home, 'leases update');
  await missing.isNamed();
  await missing.giveBack();
  await scene.change(api, one, { a: '2' });
  await scene.made(one, { a: '2' });
  await scene.phase(one, 'Synced', { api });
});

it('without the permission to patch syncsecrets, the manager makes the Secret, but reports Failed, because it cannot write its finalizer', async () => {
  const { managementApi: api } = scene;
  let object: Json;
  const use = async (): Promise<void> => {
    object = await create('unprepared');
    await scene.phase(object, 'Failed', { api, message: /no permission to patch syncsecrets$/ });
    await scene.made(object, { a: '1' });
  };
  await trial.without(role, 'syncsecrets patch', use, () => scene.phase(object, 'Synced', { api }));
});

it('without the permission to patch syncsecrets/status, the manager makes Secrets; when it gets the permission, it writes the status', async () => {
  const { managementApi: api } = scene;
  const missing = await trial.take(role, 'syncsecrets/status patch');
  const object = await create('unseen');
  await scene.made(object, { a: '1' });
  await missing.isNamed();
  assert.equal((await api.get(at('unseen'))).status, undefined);
  await missing.giveBack();
  await scene.phase(object, 'Synced', { api });
});

it('without the permission to get syncsecrets, the manager keeps an orphan, because it cannot check whether the SyncSecret exists', async () => {
  const { managementApi: api } = scene;
  const metadata = {
    namespace: 'default',
    name: 'orphan',
    labels: { 'keyferry.dev/copy': 'syncsecret' },
    annotations: { 'keyferry.dev/syncsecret': 'gone', 'keyferry.dev/target': 'default/orphan' },
  };
  let orphan: Json;
  const use = async (): Promise<void> => {
    orphan = await api.create({ apiVersion: 'v1', kind: 'Secret', metadata });
  };
  await trial.without(role, 'syncsecrets get', use, () => scene.gone(api, orphan));
});

it('without the permission to create secrets, a SyncSecret is Failed; when the manager gets the permission, it makes the Secret', async () => {
  const { managementApi: api } = scene;
  const message = /^failed to create Secret: .* no permission to create secrets$/;
  let object: Json;
  const use = async (): Promise<void> => {
    object = await create('created');
    await scene.phase(object, 'Failed', { api, message });
  };
  await trial.without(role, 'secrets create', use, () => scene.made(object, { a: '1' }));
});

it('without the permission to patch secrets, a SyncSecret is Failed; when the manager gets the permission, it changes the Secret', async () => {
  const { managementApi: api } = scene;
  const use = async (): Promise<void> => {
    await scene.change(api, one, { a: '3' });
    await scene.phase(one, 'Failed', {
      api,
      message: /^failed to update Secret: .* no permission to patch secrets$/,
    });
  };
  await trial.without(role, 'secrets patch', use, () => scene.made(one, { a: '3' }));
});

it('without the permission to get secrets, the manager does not repair a Secret that a user edited', async () => {
  const { managementApi: api } = scene;
  const edit = async (): Promise<void> => {
    await scene.change(api, await scene.findSecret(one), { a: 'edited' });
  };
  await trial.without(role, 'secrets get', edit, () => scene.made(one, { a: '3' }));
});

it('without the permission to delete secrets, the manager keeps a deleted SyncSecret until its Secret can be deleted', async () => {
  const { managementApi: api } = scene;
  const object = await create('deleted');
  await scene.made(object, { a: '1' });
  const use = async (): Promise<void> => {
    await api.delete(at('deleted'));
    await scene.phase(object, 'Terminating', { api, message: /no permission to delete secrets$/ });
  };
  await trial.without(role, 'secrets delete', use, () => scene.gone(api, object));
});

it("without the permission to create events, the manager writes no event; without the permission to patch events, an event's count stays", async () => {
  const { managementApi: api } = scene;
  const object = await create('first');
  await withoutEvents(trial, role, scene, object, api, start);
});

it('without the permissions to watch, the manager does not see changes and is not ready', async () => {
  const { managementApi: api, clusters } = scene;
  let object: Json;
  const createUnseen = async (): Promise<void> => {
    clusters.managerProxy.cutAll({ isWatch: true });
    object = await create('watched');
    await trial.isUnready();
    assert.equal(await scene.findSecret(object), undefined);
  };
  await trial.without(role, 'syncsecrets watch', createUnseen, () => scene.made(object, { a: '1' }));
  const remove = async (): Promise<void> => {
    clusters.managerProxy.cutAll({ isWatch: true });
    await trial.isUnready();
    await api.delete(secretPath('default', object.metadata.uid));
  };
  await trial.without(role, 'secrets watch', remove, () => scene.made(object, { a: '1' }));
  await trial.program.ready();
});

it('the tests of missing permissions cover every permission in the manifest of the manager', () => {
  trial.assertComplete(FILE);
});
