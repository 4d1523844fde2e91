/**
 * SyncSecret: the CCM starts while the management cluster lacks an object, and works as soon as the object is added.
 * Also: the CCM's kubeconfig changes.
 */
import assert from 'node:assert/strict';
import { rename, writeFile } from 'node:fs/promises';
import { after, afterEach, before, describe, it } from 'node:test';

import { readCrd } from '../../scripts/crd/read-crds.ts';
import { syncSecretPath, SyncSecretScene } from '../scenarios/syncsecret/support.ts';
import { kubeconfigYaml } from '../servers/kubeconfig.ts';
import type { Json } from '../support/api.ts';
import type { Tenant } from '../support/sync-secret-clusters.ts';
import { CCM_ACCOUNT } from '../support/sync-secret-install.ts';
import { waitFor } from '../support/wait-for.ts';

const NAMESPACE = 'early';
const FINALIZER = 'kubelb.k8c.io/lb-finalizer';
const CRD = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/syncsecrets.kubelb.k8c.io';
/** Limit from the time when the missing object is added until the Secret is right on an idle machine, ms. */
const RECOVERY_MS = 10_000;

/** An object that the management cluster lacks: how to remove and add it, and what SyncSecrets then report. */
interface Lack {
  readonly phase: 'Pending' | 'Failed';
  readonly reason: string;
  readonly take: (tenant: Tenant) => Promise<unknown>;
  readonly give: (tenant: Tenant) => Promise<unknown>;
}

let scene: SyncSecretScene;
before(async () => {
  scene = await SyncSecretScene.open();
  await scene.namespaces(NAMESPACE);
});
afterEach(() => scene.clear());
after(() => scene.close());

const bindingPath = ({ namespace }: Tenant): string =>
  `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/rolebindings/${CCM_ACCOUNT}`;

const LACKS: Readonly<Record<string, Lack>> = {
  permission: {
    phase: 'Pending',
    reason: 'Forbidden',
    take: (tenant) => scene.managementApi.delete(bindingPath(tenant)),
    give: (tenant) =>
      scene.managementApi.create({
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'RoleBinding',
        metadata: { name: CCM_ACCOUNT, namespace: tenant.namespace },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: CCM_ACCOUNT },
        subjects: [{ kind: 'ServiceAccount', name: CCM_ACCOUNT, namespace: tenant.namespace }],
      }),
  },
  namespace: {
    phase: 'Failed',
    reason: 'NamespaceNotFound',
    take: () => Promise.resolve(),
    give: ({ namespace }) => scene.managementApi.createNamespaces([namespace]),
  },
  CRD: {
    phase: 'Pending',
    reason: 'NotInstalled',
    take: async () => {
      await scene.managementApi.delete(CRD);
      await waitFor(async () => (await scene.managementApi.find(CRD)) === undefined, { message: 'the CRD to go' });
    },
    give: () => scene.managementApi.apply(readCrd('syncsecrets')),
  },
};

/** Creates a tenant that has no namespace in the management cluster. It has permissions in all namespaces. */
async function homelessTenant(): Promise<Tenant> {
  const { link, managementPlane } = scene.clusters;
  const kubeconfig = await managementPlane.writeKubeconfig({ server: link.url, caPem: link.caPem });
  return { name: 'late', namespace: 'tenant-late', user: 'admin', token: managementPlane.adminToken, kubeconfig };
}

describe('a CCM that starts while something is missing in the management cluster', () => {
  for (const [what, { phase, reason, take, give }] of Object.entries(LACKS)) {
    it(`if the management cluster lacks its ${what}, a CCM that starts is ready and reports that; it copies soon after the object is added`, async () => {
      const tenant = what === 'namespace' ? await homelessTenant() : await scene.tenant();
      await take(tenant);
      // `running` would wait until the manager is ready. Without the CRD it never is, so this starts the manager
      // itself.
      await using manager = await scene.clusters.manager();
      const ccm = await scene.ccm(tenant);
      const object = await scene.create(NAMESPACE, 'one', { a: 'first' });
      const { metadata }: Json = await scene.phase(object, phase, { reason });
      assert.deepEqual(metadata.finalizers, [FINALIZER]);
      assert.ok(await ccm.isReady());
      if (what === 'CRD') assert.equal(await manager.isReady(), false);
      await give(tenant);
      await scene.arrived(tenant, object, { a: 'first' }, RECOVERY_MS);
      await scene.phase(object, 'Synced');
      await manager.ready();
    });
  }
});

it("after the CCM's kubeconfig gets a new server, CA and client certificate, the CCM uses them", async () => {
  const { link, managementPlane } = scene.clusters;
  const { tenant } = await scene.running();
  const object = await scene.create(NAMESPACE, 'moved', { a: 'first' });
  await scene.arrived(tenant, object, { a: 'first' });
  const user = 'certified';
  await scene.managementApi.patch(bindingPath(tenant), {
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: user }],
  });
  const { certPem, keyPem } = await managementPlane.clientCertificate({ commonName: user });
  const { url: server, caPem } = managementPlane;
  const content = kubeconfigYaml({ server, caPem, clientCertPem: certPem, clientKeyPem: keyPem });
  await writeFile(`${tenant.kubeconfig}.new`, content);
  await rename(`${tenant.kubeconfig}.new`, tenant.kubeconfig);
  // After a 401, the CCM reads its kubeconfig immediately. (A real API server accepts the token of a deleted account
  // for 10 s more, so the proxy answers 401.)
  link.rule({ fault: { kind: 'respond', status: 401 } });
  link.cutAll();
  await scene.change(scene.tenantApi, object, { a: 'second' });
  const { copy, secret } = await scene.arrived(tenant, object, { a: 'second' });
  await scene.phase(object, 'Synced');
  assert.deepEqual(link.live(), [], 'nothing goes to the old server');
  await scene.tenantApi.delete(syncSecretPath(NAMESPACE, 'moved'));
  await scene.gone(scene.tenantApi, object);
  await scene.gone(scene.managementApi, copy, secret);
});
