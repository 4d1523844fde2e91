/**
 * Tests that the deletion of a tenant's SyncSecret removes its copy and Secret. If this is impossible, the SyncSecret
 * is gone after a time limit.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import type { Json, TestApi } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { longIt } from '../../support/long.ts';
import type { Tenant } from '../../support/sync-secret-clusters.ts';
import { installTenant } from '../../support/sync-secret-install.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import type { Chain } from './support.ts';
import { syncSecretPath, syncSecretsPath, SyncSecretScene } from './support.ts';

let scene: SyncSecretScene;
before(async () => (scene = await SyncSecretScene.open()));
afterEach(async () => await scene.clear());
after(async () => await scene.close());

const FOREIGN = 'example.com/foreign';
const VALUES = { a: 'one' };
/** Long enough to see a status before the deletion ends, ms. */
const LIMIT_MS = 6000;
const LIMITED = { args: [`--deletion-timeout=${LIMIT_MS}ms`] };
/** A wait, ms, that is longer than all automatic effects of a deletion take. */
const SETTLE_MS = 1500;

interface Running {
  readonly tenant: Tenant;
  readonly ccm: Keyferry;
  readonly manager: Keyferry;
  readonly object: Json;
  readonly chain: Chain;
}

/** Creates a SyncSecret with its copy and Secret. */
async function running(name: string): Promise<Running> {
  const programs = await scene.kept(LIMITED);
  const object = await scene.create('default', name, VALUES);
  const chain = await scene.arrived(programs.tenant, object, VALUES);
  await scene.phase(object, 'Synced');
  return { ...programs, object, chain };
}

const remove = async (object: Json, api: TestApi = scene.tenantApi): Promise<boolean> =>
  await api.delete(syncSecretPath(object.metadata.namespace, object.metadata.name));
const removeFinalizers = async (object: Json, api: TestApi): Promise<void> => {
  await api.patch(syncSecretPath(object.metadata.namespace, object.metadata.name), { metadata: { finalizers: null } });
};

/** Waits until the status of a SyncSecret that is being deleted has this message. */
async function says(object: Json, message: RegExp): Promise<void> {
  const done = await scene.phase(object, 'Terminating', { reason: 'Terminating', message });
  assert.notEqual(done.metadata.deletionTimestamp, undefined);
}

/**
 * Waits until the SyncSecret is gone, with a Warning event that has this message. Checks that its copy is still there.
 */
async function abandoned({ tenant, object }: Running, message: RegExp): Promise<void> {
  await scene.gone(scene.tenantApi, object);
  const event = await scene.event(object, 'DeletionTimeout', message);
  assert.equal(event.type, 'Warning');
  assert.notEqual(await scene.findCopy(tenant, object), undefined);
}

async function allGone({ object, chain }: Running): Promise<void> {
  await scene.gone(scene.tenantApi, object);
  await scene.gone(scene.managementApi, chain.copy, chain.secret);
}

async function disconnect({ ccm }: Pick<Running, 'ccm'>): Promise<void> {
  await scene.clusters.link.refuse();
  await waitFor(async () => (await ccm.metric('kubelb_ccm_kubelb_cluster_connected')) === 0);
}

describe('the deletion of a SyncSecret', () => {
  const down = /^SyncSecret is being deleted; the management cluster does not answer$/;

  it('while the management cluster is down, a deleted SyncSecret is gone at the time limit; its copy is deleted when the cluster is back', async () => {
    const run = await running('down');
    await disconnect(run);
    await remove(run.object);
    await says(run.object, down);
    await abandoned(run, /Last state: the management cluster does not answer$/);
    await scene.clusters.link.accept();
    await allGone(run);
    assert.equal(await run.ccm.metric('kubelb_ccm_kubelb_cluster_connected'), 1);
  });

  it('if the CCM has no permission to delete a copy, the deleted SyncSecret is gone at the time limit; with the permission, the CCM deletes the copy', async () => {
    const run = await running('forbidden');
    const { namespace, token } = run.tenant;
    const binding = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/rolebindings/keyferry-syncsecret-ccm`;
    await scene.managementApi.delete(binding);
    using client = scene.clusters.managementPlane.client({ token });
    await waitFor(async () => (await client.raw('GET', syncSecretsPath(namespace))).status === 403);
    await remove(run.object);
    const refusal = 'the operator has no permission to delete syncsecrets$';
    await says(run.object, new RegExp(`^SyncSecret is being deleted; ${refusal}`));
    await abandoned(run, new RegExp(`Last state: ${refusal}`));
    await installTenant(scene.clusters.managementPlane, namespace);
    await allGone(run);
  });

  it('if no manager runs, a deleted SyncSecret is gone at the time limit; copy and Secret are deleted when a manager runs again', async () => {
    const run = await running('unmanaged');
    await run.manager.kill9();
    await remove(run.object);
    const held = 'the copy is being deleted and waits for its finalizers$';
    await says(run.object, new RegExp(`^SyncSecret is being deleted; ${held}`));
    await abandoned(run, new RegExp(`Last state: ${held}`));
    await scene.keptManager(LIMITED);
    await allGone(run);
  });

  longIt(
    'if a SyncSecret was deleted while no CCM ran, the next CCM deletes it with its copy, even after the time limit',
    async () => {
      const run = await running('late');
      await run.ccm.kill9();
      await remove(run.object);
      const { metadata } = await scene.tenantApi.get(syncSecretPath('default', 'late'));
      const end = Date.parse(metadata.deletionTimestamp) + LIMIT_MS;
      await waitFor(() => Date.now() > end, { message: 'the end of the time limit' });
      await scene.keptCcm(LIMITED);
      await allGone(run);
      const fieldSelector = 'involvedObject.name=late';
      const events = await scene.tenantApi.list('/api/v1/namespaces/default/events', { fieldSelector });
      assert.deepEqual(
        events.map(({ reason }) => reason),
        [],
      );
    },
  );

  longIt("while another client's finalizer keeps a deleted SyncSecret, the CCM makes no copy of it", async () => {
    const run = await running('held');
    const { object, chain, tenant } = run;
    const path = syncSecretPath('default', 'held');
    const finalizers = [...(await scene.tenantApi.get(path)).metadata.finalizers, FOREIGN];
    await scene.tenantApi.patch(path, { metadata: { finalizers } });
    await remove(object);
    await scene.gone(scene.managementApi, chain.copy, chain.secret);
    await says(object, /^SyncSecret is being deleted$/);
    assert.deepEqual((await scene.tenantApi.get(path)).metadata.finalizers, [FOREIGN]);
    await scene.change(scene.tenantApi, object, { a: 'two' });
    const isAbsent = async (): Promise<boolean> => (await scene.findCopy(tenant, object)) === undefined;
    await staysTrue(isAbsent, SETTLE_MS, 'there is no copy');
    await removeFinalizers(object, scene.tenantApi);
    await scene.gone(scene.tenantApi, object);
  });

  it('a deleted SyncSecret leaves no copy, even if the creation of the copy is still running or its answer is lost', async () => {
    const run = await running('first');
    const { link } = scene.clusters;
    for (const waits of [false, true]) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const rule = link.rule({
        match: { method: 'POST', path: '/syncsecrets' },
        fault: { kind: 'hold', until: promise },
        times: 1,
      });
      const object = await scene.create('default', `second-${waits}`, VALUES);
      await waitFor(() => rule.hits === 1, { message: 'the creation of the copy' });
      await remove(object);
      // In the second round the time limit passes first. So the SyncSecret is gone, and the copy becomes an orphan.
      if (waits) await scene.gone(scene.tenantApi, object);
      resolve();
      await scene.gone(scene.tenantApi, object);
      await waitFor(async () => (await scene.findCopy(run.tenant, object)) === undefined, { message: 'the copy' });
    }
    link.rule({ match: { method: 'POST', path: '/syncsecrets' }, fault: { kind: 'lose-answer' }, times: 1 });
    const object = await scene.create('default', 'third', VALUES);
    await remove(object);
    await scene.gone(scene.tenantApi, object);
    await remove(run.object);
    await allGone(run);
    assert.deepEqual(await scene.managementApi.list(syncSecretsPath(run.tenant.namespace)), []);
  });
});

describe('a SyncSecret that is created again', () => {
  it('a SyncSecret that is created again gets a new copy, even while a finalizer keeps the old copy', async () => {
    const run = await running('again');
    const { copy } = run.chain;
    const path = syncSecretPath(copy.metadata.namespace, copy.metadata.name);
    const finalizers = [...(await scene.managementApi.get(path)).metadata.finalizers, FOREIGN];
    await scene.managementApi.patch(path, { metadata: { finalizers } });
    await remove(run.object);
    await scene.gone(scene.tenantApi, run.object);
    const object = await scene.create('default', 'again', { b: 'two' });
    await scene.arrived(run.tenant, object, { b: 'two' });
    await scene.phase(object, 'Synced');
    await removeFinalizers(copy, scene.managementApi);
    await allGone({ ...run, object: copy });
    await scene.arrived(run.tenant, object, { b: 'two' });
  });
});

it('if a copy loses its finalizer and is deleted, the copy is made again, and its old Secret is deleted', async () => {
  const { object, chain, tenant, ...run } = await running('stripped');
  await run.manager.suspend();
  try {
    await removeFinalizers(chain.copy, scene.managementApi);
    await remove(chain.copy, scene.managementApi);
  } finally {
    run.manager.resume();
  }
  await scene.gone(scene.managementApi, { ...chain.secret, kind: 'Secret' });
  const renewed = await scene.arrived(tenant, object, VALUES);
  assert.notEqual(renewed.copy.metadata.uid, chain.copy.metadata.uid);
});

/** The number of SyncSecrets: more than a program deletes at the same time. */
const FULL = 24;

it(`while the management cluster is down, ${FULL} SyncSecrets that are deleted at once are gone at the time limit`, async () => {
  const { tenant, ...run } = await running('one-more');
  const names = Array.from({ length: FULL }, (_, index) => `n${index}`);
  const objects = await Promise.all(names.map((name) => scene.create('default', name, VALUES)));
  for (const object of objects) await scene.arrived(tenant, object, VALUES);
  await disconnect(run);
  for (const object of objects) await remove(object);
  await scene.gone(scene.tenantApi, ...objects);
  await scene.clusters.link.accept();
  await remove(run.object);
  const left = async (): Promise<Json[]> => [
    ...(await scene.managementApi.list(syncSecretsPath(tenant.namespace))),
    ...(await scene.managementApi.list(`/api/v1/namespaces/${tenant.namespace}/secrets`)),
  ];
  await waitFor(async () => (await left()).length === 0, { message: 'all copies and Secrets to be gone' });
});
