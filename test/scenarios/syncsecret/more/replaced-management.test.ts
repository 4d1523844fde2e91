/**
 * The kubeconfig of a running CCM names another management cluster. What the CCM knew of the first one does not count:
 * the versions of two clusters cannot be compared.
 */
import assert from 'node:assert/strict';
import { rename, writeFile } from 'node:fs/promises';
import { after, afterEach, before, it } from 'node:test';

import { type ControlPlane, startControlPlane } from '../../../servers/control-plane.ts';
import { kubeconfigYaml } from '../../../servers/kubeconfig.ts';
import type { Json } from '../../../support/api.ts';
import { Keyferry } from '../../../support/keyferry.ts';
import { installManager, installTenant } from '../../../support/sync-secret-install.ts';
import type { Tenant } from '../../../support/sync-secret-clusters.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { within } from '../../../support/yardstick.ts';
import { secretPath, syncSecretPath, SyncSecretScene } from '../support.ts';

/** Limit from the new kubeconfig to the copy in the other cluster on an idle machine, ms: a check every 2 s, and 3 s. */
const SOON_MS = 5000;
/** So many writes make the versions of the first cluster higher than those of the second one. */
const WRITES = 300;

let scene: SyncSecretScene;
let other: ControlPlane;
let otherKubeconfig: string;
before(async () => {
  [scene, other] = await Promise.all([
    SyncSecretScene.open(),
    startControlPlane({ controllerManager: false, crds: true }),
  ]);
  otherKubeconfig = await other.writeKubeconfig({ token: await installManager(other) });
  const { api } = scene.clusters.managementPlane;
  const names = Array.from({ length: WRITES }, (_, n) => `write-${n}`);
  await api.apply(
    names.map((name) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace: 'default' } })),
  );
  await scene.namespaces('apps', 'tenant-like');
});
afterEach(async () => await scene.clear());
after(async () => {
  await other.stop();
  await scene.close();
});

/** Writes a kubeconfig of the tenant in this cluster to the file of its CCM. */
async function point(tenant: Tenant, to: Parameters<typeof kubeconfigYaml>[0]): Promise<void> {
  await writeFile(`${tenant.kubeconfig}.new`, kubeconfigYaml(to));
  await rename(`${tenant.kubeconfig}.new`, tenant.kubeconfig);
}

async function copiedToOther(tenant: Tenant, { metadata }: Json): Promise<void> {
  const copy = syncSecretPath(tenant.namespace, metadata.uid);
  const find = async (): Promise<Json> => await other.api.find(copy);
  await within(SOON_MS, `the copy of ${metadata.name} in the other cluster`, () =>
    waitFor(find, { timeoutMs: 120_000, message: () => scene.tail() }),
  );
}

/** The Secret in the other cluster, which has the uid of the copy as its name. */
async function secretInOther(tenant: Tenant, object: Json): Promise<Json> {
  const { metadata } = await other.api.get(syncSecretPath(tenant.namespace, object.metadata.uid));
  return await other.api.find(secretPath(tenant.namespace, metadata.uid));
}

it('if the kubeconfig of the CCM names another management cluster, the CCM copies everything there at once, and the phases say what is missing; back at the first one, its copies are brought up to date', async () => {
  const { tenant, ccm } = await scene.running();
  const { managementPlane, link } = scene.clusters;
  const token = await installTenant(other, tenant.namespace);
  const objects = [
    await scene.create('apps', 'one', { a: 'one' }),
    await scene.create('apps', 'two', { a: 'one' }),
    await scene.create('tenant-like', 'three', { a: 'one' }),
  ];
  for (const object of objects) {
    await scene.arrived(tenant, object, { a: 'one' });
    await scene.phase(object, 'Synced');
  }

  await point(tenant, { server: other.url, caPem: other.caPem, token });
  await Promise.all(objects.map(async (object) => await copiedToOther(tenant, object)));
  // No manager runs there yet.
  for (const object of objects)
    await scene.phase(object, 'Pending', { message: /^the Secret in the management cluster is not made yet$/ });
  await using manager = await Keyferry.start({
    command: 'syncsecret-manager',
    kubeconfig: otherKubeconfig,
    args: ['--enable-leader-election=false'],
  });
  await manager.ready();
  for (const object of objects) {
    await scene.phase(object, 'Synced');
    assert.ok(await secretInOther(tenant, object));
  }
  const [one] = objects;
  await scene.change(scene.tenantApi, one, { a: 'two' });
  const value = scene.data({ a: 'two' })['a'];
  await waitFor(async () => (await secretInOther(tenant, one)).data.a === value, { message: () => scene.tail() });

  await point(tenant, { server: link.url, caPem: link.caPem, token: tenant.token });
  await scene.arrived(tenant, one, { a: 'two' }, SOON_MS);
  for (const object of objects) await scene.phase(object, 'Synced');
  const path = syncSecretPath(tenant.namespace, one.metadata.uid);
  await managementPlane.api.delete(path);
  await scene.arrived(tenant, one, { a: 'two' });
  assert.ok(ccm.running, ccm.output);
  const warnings = ccm.logs().filter(({ msg }) => /another one than before/.test(msg));
  assert.deepEqual([warnings.length, /etcd restore/.test(ccm.output)], [2, false]);
});

it('a new token for the same management cluster drops nothing that the CCM knows', async () => {
  const { tenant, ccm } = await scene.running();
  const object = await scene.create('apps', 'same', { a: 'one' });
  await scene.arrived(tenant, object, { a: 'one' });
  await scene.phase(object, 'Synced');
  const { link } = scene.clusters;
  const lists = (): number => link.requests.filter(({ url }) => url.includes('limit=')).length;
  const before = lists();
  const token = await installTenant(scene.clusters.managementPlane, tenant.namespace);
  await point(tenant, { server: link.url, caPem: link.caPem, token });
  await waitFor(() => ccm.logs().some(({ msg }) => msg.startsWith('the kubeconfig has changed')));
  await scene.change(scene.tenantApi, object, { a: 'two' });
  await scene.arrived(tenant, object, { a: 'two' });
  await waitFor(async () => (await ccm.metric('kubelb_ccm_kubelb_cluster_connected')) === 1);
  assert.equal(lists(), before);
  assert.doesNotMatch(ccm.output, /another one than before/);
});
