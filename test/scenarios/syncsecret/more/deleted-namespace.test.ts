/** A tenant's namespace in the management cluster is deleted, and created again. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import { waitFor } from '../../../support/wait-for.ts';
import { secretPath, SyncSecretScene } from '../support.ts';

let scene: SyncSecretScene;
before(async () => (scene = await SyncSecretScene.open({ management: { controllerManager: true } })));
after(async () => await scene.close());

const VALUES = { a: 'one' };
/** Time limit from the creation of a namespace to the right Secret in it, ms on an idle machine. */
const RECOVERY_MS = 10_000;

it("while a tenant's namespace in the management cluster is being deleted, its SyncSecrets are Failed; in a new namespace they become Secrets", async () => {
  const [tenant, other] = await Promise.all([scene.tenant(), scene.tenant()]);
  const { managementApi: api } = scene;
  const { link, managementPlane } = scene.clusters;
  // Use an administrator's account. The tenant's own account is in this namespace, and may be deleted at any time.
  const kubeconfig = await managementPlane.writeKubeconfig({ server: link.url, caPem: link.caPem });
  await Promise.all([scene.ccm({ ...tenant, kubeconfig }), scene.manager()]);
  const before = await scene.create('default', 'before', VALUES);
  const { copy, secret } = await scene.arrived(tenant, before, VALUES);
  const hold = { namespace: tenant.namespace, name: 'hold', finalizers: ['example.com/foreign'] };
  await api.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: hold });
  await api.delete(`/api/v1/namespaces/${tenant.namespace}`);
  await scene.gone(api, secret, copy);
  const object = await scene.create('default', 'during', VALUES);
  const failed = {
    reason: 'NamespaceTerminating',
    message: /^the namespace in the management cluster is being deleted$/,
  };
  for (const one of [before, object]) await scene.phase(one, 'Failed', failed);
  const direct = await scene.create(other.namespace, 'direct', VALUES, {}, api);
  await scene.made(direct, VALUES);
  await api.patch(`/api/v1/namespaces/${tenant.namespace}/configmaps/hold`, { metadata: { finalizers: null } });
  await waitFor(async () => (await api.find(`/api/v1/namespaces/${tenant.namespace}`)) === undefined, {
    message: 'the namespace to be gone',
  });
  assert.equal(await api.find(secretPath(tenant.namespace, secret.metadata.name)), undefined);
  await api.createNamespaces([tenant.namespace]);
  for (const one of [before, object]) {
    await scene.arrived(tenant, one, VALUES, RECOVERY_MS);
    await scene.phase(one, 'Synced');
  }
});
