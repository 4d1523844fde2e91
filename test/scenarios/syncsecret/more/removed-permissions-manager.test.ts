/** Tests the manager without single permissions; for what it shares with the CCM, see the test of the CCM. */
import assert from 'node:assert/strict';
import { after, afterEach, before, it } from 'node:test';

import type { Json } from '../../../support/api.ts';
import type { Keyferry } from '../../../support/keyferry.ts';
import { NO_STREAMED_LISTS, type Role, roleOf, Trial } from '../../../support/permission-trial.ts';
import { HOME } from '../../../support/sync-secret-install.ts';
import { syncSecretPath, SyncSecretScene } from '../support.ts';

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

it('if the manager lacks a permission for Secrets, the status of the SyncSecret names it; an edited Secret waits for `get`', async () => {
  const { managementApi: api } = scene;
  let object: Json;
  const use = async (): Promise<void> => {
    object = await create('created');
    const message = /^failed to create Secret: .* no permission to create secrets$/;
    await scene.phase(object, 'Failed', { api, message });
  };
  await trial.without(role, 'secrets create', use, () => scene.made(object, { a: '1' }));
  const change = async (): Promise<void> => {
    await scene.change(api, object, { a: '2' });
    const message = /^failed to update Secret: .* no permission to patch secrets$/;
    await scene.phase(object, 'Failed', { api, message });
  };
  await trial.without(role, 'secrets patch', change, () => scene.made(object, { a: '2' }));
  const edit = async (): Promise<void> => {
    await scene.change(api, await scene.findSecret(object), { a: 'edited' });
  };
  await trial.without(role, 'secrets get', edit, () => scene.made(object, { a: '2' }));
  const remove = async (): Promise<void> => {
    await api.delete(at('created'));
    await scene.phase(object, 'Terminating', { api, message: /no permission to delete secrets$/ });
  };
  await trial.without(role, 'secrets delete', remove, () => scene.gone(api, object));
});
