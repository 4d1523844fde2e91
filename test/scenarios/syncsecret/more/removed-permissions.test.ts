/** Tests CCM, synchronizer and manager without single permissions of their manifests. */
import assert from 'node:assert/strict';
import { after, afterEach, before, it } from 'node:test';

import { kubernetesFault } from '../../../servers/fault-rules.ts';
import type { Json } from '../../../support/api.ts';
import type { Keyferry } from '../../../support/keyferry.ts';
import { type Role, roleOf, Trial } from '../../../support/permission-trial.ts';
import type { Tenant } from '../../../support/sync-secret-clusters.ts';
import { HOME } from '../../../support/sync-secret-install.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { OFFERED, ORIGINAL_FINALIZER, secretPath, syncSecretPath, SyncSecretScene } from '../support.ts';

const FILE = 'rbac-syncsecret-ccm.yaml';
const SYNCHRONIZER_FILE = 'rbac-syncsecret-synchronizer.yaml';
/** The manifest with the rights of a tenant in the management cluster. */
const TENANT_FILE = 'rbac-syncsecret-tenant.yaml';
const trial = new Trial();
const managerTrial = new Trial();
let scene: SyncSecretScene;
let tenant: Tenant;
let roles: Readonly<Record<'role' | 'home' | 'synchronizer' | 'remote' | 'identity', Role>>;
let manager: Role;
let one: Json;
const at = (name: string): string => syncSecretPath('default', name);

before(async () => {
  scene = await SyncSecretScene.open();
  tenant = await scene.tenant();
  const { tenantPlane, managementPlane, ccmUser, managerUser } = scene.clusters;
  const name = 'keyferry-syncsecret-ccm';
  roles = {
    role: roleOf(FILE, name, tenantPlane, ccmUser),
    home: roleOf(FILE, name, tenantPlane, ccmUser, HOME),
    synchronizer: roleOf(SYNCHRONIZER_FILE, 'keyferry-syncsecret-synchronizer', tenantPlane, ccmUser),
    remote: roleOf(TENANT_FILE, name, managementPlane, tenant.user, tenant.namespace),
    identity: roleOf(TENANT_FILE, 'keyferry-syncsecret-tenant', managementPlane, tenant.user),
  };
  manager = roleOf('rbac-syncsecret-manager.yaml', 'keyferry-syncsecret-manager', managementPlane, managerUser);
  await managerTrial.start(scene.manager());
});
afterEach(async () => await Promise.all([trial.restoreAll(), managerTrial.restoreAll()]));
after(async () => {
  await trial.program.kill9();
  await scene.close();
});

async function start(): Promise<Keyferry> {
  return await scene.clusters.ccm(tenant, {
    args: ['--enable-secret-synchronizer', '--enable-leader-election=true', `--leader-election-namespace=${HOME}`],
  });
}

async function create(name: string): Promise<Json> {
  return await scene.create('default', name, { a: '1' });
}

/** Creates a Secret with the label that offers it to the synchronizer. */
async function offer(name: string, finalizers: readonly string[] = []): Promise<Json> {
  return await scene.tenantApi.create({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { namespace: 'default', name, labels: OFFERED, finalizers },
    data: scene.data({ a: '1' }),
  });
}

/** Creates a copy whose SyncSecret does not exist. */
async function orphan(name: string): Promise<Json> {
  const { metadata } = await scene.tenantApi.get('/api/v1/namespaces/kube-system');
  const annotations = {
    'keyferry.dev/origin': `${metadata.uid}/default/gone`,
    'keyferry.dev/target': `${tenant.namespace}/${name}`,
  };
  return await scene.create(tenant.namespace, name, { a: '1' }, { metadata: { annotations } }, scene.managementApi);
}

it('a CCM without a permission that it needs at its start waits, names the permission in the log, and deletes no orphans', async () => {
  const { tenantApi, managementApi } = scene;
  one = await create('one');
  const left = await orphan('left');
  let missing = await trial.take(roles.role, 'syncsecrets list');
  await trial.start(start());
  await missing.isNamed();
  assert.equal(await trial.isReady(), false);
  missing = await missing.next(roles.synchronizer, 'secrets list');
  await trial.program.kill9();
  await trial.start(start());
  await missing.isNamed();
  assert.equal(await trial.isReady(), false);
  missing = await missing.next(roles.home, 'leases get');
  await missing.isNamed();
  assert.equal(await trial.isReady(), false);
  missing = await missing.next(roles.home, 'leases create');
  await missing.isNamed();
  assert.equal((await tenantApi.get(at('one'))).metadata.finalizers, undefined);
  missing = await missing.next(roles.remote, 'syncsecrets list');
  await trial.program.stop();
  await trial.start(start());
  await missing.isNamed();
  await scene.phase(one, 'Pending', { reason: 'Forbidden', message: /no permission to watch syncsecrets/ });
  await missing.giveBack();
  await scene.arrived(tenant, one, { a: '1' });
  await scene.gone(managementApi, left);
  missing = await trial.take(roles.home, 'leases update');
  await missing.isNamed();
  await missing.giveBack();
  await trial.program.stop();

  const again = await orphan('again');
  missing = await trial.take(roles.role, 'namespaces get');
  await trial.start(start());
  await missing.isNamed();
  await scene.change(tenantApi, one, { a: '2' });
  await scene.arrived(tenant, one, { a: '2' });
  await missing.giveBack();
  assert.ok(await managementApi.find(syncSecretPath(tenant.namespace, 'again')));
  await trial.program.stop();
  await trial.start(start());
  await scene.gone(managementApi, again);
  await scene.phase(one, 'Synced');
});

it("without the permission to read the management cluster's identity, the CCM copies SyncSecrets of every namespace", async () => {
  await scene.namespaces('tenant-named');
  await trial.program.stop();
  const missing = await trial.take(roles.identity, 'namespaces get');
  await trial.start(start());
  const object = await scene.create('tenant-named', 'named', { a: '1' });
  await scene.arrived(tenant, await create('unnamed'), { a: '1' });
  await scene.arrived(tenant, object, { a: '1' });
  await missing.giveBack();
});

it('without the permission to patch syncsecrets, the CCM makes no copy, because it cannot write its finalizer first', async () => {
  let object: Json;
  const use = async (): Promise<void> => {
    object = await create('unprepared');
    await scene.phase(object, 'Failed', { message: /no permission to patch syncsecrets$/ });
    assert.equal(await scene.findCopy(tenant, object), undefined);
  };
  await trial.without(roles.role, 'syncsecrets patch', use, () => scene.arrived(tenant, object, { a: '1' }));
});

it('without the permission to patch syncsecrets/status, the CCM makes copies; when it gets the permission, it writes the status', async () => {
  const missing = await trial.take(roles.role, 'syncsecrets/status patch');
  const object = await create('unseen');
  await scene.arrived(tenant, object, { a: '1' });
  await missing.isNamed();
  assert.equal((await scene.tenantApi.get(at('unseen'))).status, undefined);
  await missing.giveBack();
  await scene.phase(object, 'Synced');
});

it('without the permission to get syncsecrets, the CCM keeps an orphan, because it cannot check whether the SyncSecret exists', async () => {
  let left: Json;
  const use = async (): Promise<void> => {
    left = await orphan('left');
  };
  await trial.without(roles.role, 'syncsecrets get', use, () => scene.gone(scene.managementApi, left));
});

it('without the permission to watch syncsecrets, the CCM does not see changes and is not ready', async () => {
  let object: Json;
  const use = async (): Promise<void> => {
    scene.clusters.tenantProxy.cutAll({ isWatch: true });
    object = await create('watched');
    await trial.isUnready();
    assert.equal(await scene.findCopy(tenant, object), undefined);
  };
  await trial.without(roles.role, 'syncsecrets watch', use, () => scene.arrived(tenant, object, { a: '1' }));
  await trial.program.ready();
});

it('if the CCM lacks a permission in the management cluster, the status of the SyncSecret names the permission', async () => {
  const { tenantApi, clusters } = scene;
  const { remote } = roles;
  let object: Json;
  const use = async (): Promise<void> => {
    object = await create('created');
    await scene.phase(object, 'Failed', { message: /no permission to create syncsecrets$/ });
  };
  await trial.without(remote, 'syncsecrets create', use, () => scene.arrived(tenant, object, { a: '1' }));
  const change = async (): Promise<void> => {
    await scene.change(tenantApi, object, { a: '2' });
    await scene.phase(object, 'Failed', { message: /no permission to patch syncsecrets$/ });
  };
  await trial.without(remote, 'syncsecrets patch', change, () => scene.arrived(tenant, object, { a: '2' }));
  // The 409 makes the CCM read the copy again. For this it needs the permission `get`.
  const changeAgain = async (): Promise<void> => {
    clusters.link.rule({ match: { method: 'PATCH', path: '/syncsecrets/' }, fault: kubernetesFault(409), times: 1 });
    await scene.change(tenantApi, object, { a: '3' });
  };
  await trial.without(remote, 'syncsecrets get', changeAgain, () => scene.arrived(tenant, object, { a: '3' }));
  const watch = async (): Promise<void> => {
    clusters.link.cutAll({ isWatch: true });
    await waitFor(async () => (await trial.program.metric('kubelb_ccm_kubelb_cluster_connected')) === 0);
    await scene.change(tenantApi, object, { a: '4' });
    await scene.phase(object, 'Pending', { reason: 'Forbidden', message: /no permission to watch syncsecrets/ });
  };
  await trial.without(remote, 'syncsecrets watch', watch, () => scene.arrived(tenant, object, { a: '4' }));
  const remove = async (): Promise<void> => {
    await tenantApi.delete(at('created'));
    await scene.phase(object, 'Terminating', { message: /no permission to delete syncsecrets$/ });
  };
  await trial.without(remote, 'syncsecrets delete', remove, () => scene.gone(tenantApi, object));
});

it("without one of its permissions, the synchronizer makes no SyncSecrets, does not update them, or leaves KubeLB's finalizer", async () => {
  const { tenantApi, clusters } = scene;
  const { synchronizer } = roles;
  let secret: Json;
  const madeOf = async (): Promise<Json> => await waitFor(() => tenantApi.find(at('offered')));
  const remove = async (): Promise<unknown> => await tenantApi.delete(secretPath('default', 'offered'));
  const use = async (): Promise<void> => {
    secret = await offer('offered');
  };
  await trial.without(synchronizer, 'syncsecrets create', use, madeOf);
  const isReleased = async (): Promise<boolean> =>
    (await tenantApi.get(secretPath('default', 'held'))).metadata.finalizers === undefined;
  await trial.without(
    synchronizer,
    'secrets patch',
    () => offer('held', [ORIGINAL_FINALIZER]),
    () => waitFor(isReleased),
  );
  const changeUnseen = async (): Promise<void> => {
    clusters.tenantProxy.cutAll({ isWatch: true });
    await trial.isUnready();
    await scene.change(tenantApi, secret, { a: '2' });
  };
  await trial.without(synchronizer, 'secrets watch', changeUnseen, async () =>
    scene.arrived(tenant, await madeOf(), { a: '2' }),
  );
  await trial.program.ready();
  const object = await madeOf();
  await trial.without(synchronizer, 'secrets get', remove, () => scene.gone(tenantApi, object));
  await offer('offered');
  const second = await madeOf();
  await trial.without(synchronizer, 'syncsecrets delete', remove, () => scene.gone(tenantApi, second));
});

it('without the permission to patch syncsecrets, the manager makes the Secret, but reports Failed, because it cannot write its finalizer', async () => {
  const { managementApi: api } = scene;
  let object: Json;
  const use = async (): Promise<void> => {
    object = await scene.create('default', 'unprepared', { a: '1' }, {}, api);
    await scene.phase(object, 'Failed', { api, message: /no permission to patch syncsecrets$/ });
    await scene.made(object, { a: '1' });
  };
  await managerTrial.without(manager, 'syncsecrets patch', use, () => scene.phase(object, 'Synced', { api }));
});

it('if the manager lacks a permission for Secrets, the status of the SyncSecret names it; an edited Secret waits for `get`', async () => {
  const { managementApi: api } = scene;
  let object: Json;
  const use = async (): Promise<void> => {
    object = await scene.create('default', 'created', { a: '1' }, {}, api);
    const message = /^failed to create Secret: .* no permission to create secrets$/;
    await scene.phase(object, 'Failed', { api, message });
  };
  await managerTrial.without(manager, 'secrets create', use, () => scene.made(object, { a: '1' }));
  const change = async (): Promise<void> => {
    await scene.change(api, object, { a: '2' });
    const message = /^failed to update Secret: .* no permission to patch secrets$/;
    await scene.phase(object, 'Failed', { api, message });
  };
  await managerTrial.without(manager, 'secrets patch', change, () => scene.made(object, { a: '2' }));
  const edit = async (): Promise<void> => {
    await scene.change(api, await scene.findSecret(object), { a: 'edited' });
  };
  await managerTrial.without(manager, 'secrets get', edit, () => scene.made(object, { a: '2' }));
  const remove = async (): Promise<void> => {
    await api.delete(at('created'));
    await scene.phase(object, 'Terminating', { api, message: /no permission to delete secrets$/ });
  };
  await managerTrial.without(manager, 'secrets delete', remove, () => scene.gone(api, object));
});
