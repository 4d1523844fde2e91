/**
 * Tests the permissions in deploy/ for SyncSecret on real clusters: a tenant can read no Secrets and reach no other
 * tenant.
 */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import type { Json, TestApi } from '../../support/api.ts';
import { readAuditLog } from '../../support/audit-log.ts';
import { rightsIn } from '../../support/granted.ts';
import { reviewRights } from '../../support/permissions.ts';
import { requestToken } from '../../support/service-account.ts';
import type { Tenant } from '../../support/sync-secret-clusters.ts';
import { CCM_ACCOUNT, MANAGER_ACCOUNT } from '../../support/sync-secret-install.ts';
import { secretPath, syncSecretPath, syncSecretsPath, SyncSecretScene } from './support.ts';

const MANAGER = rightsIn(['rbac-syncsecret-manager.yaml'], 'ClusterRole');
const CCM = rightsIn(['rbac-syncsecret-ccm.yaml', 'rbac-syncsecret-synchronizer.yaml'], 'ClusterRole');
/** The rights of the manager in its own namespace, for leader election. */
const MANAGER_AT_HOME = rightsIn(['rbac-syncsecret-manager.yaml']);
const CCM_AT_HOME = rightsIn(['rbac-syncsecret-ccm.yaml', 'rbac-syncsecret-synchronizer.yaml']);
const TENANT = rightsIn(['rbac-syncsecret-tenant.yaml']);
const TENANT_ELSEWHERE = rightsIn(['rbac-syncsecret-tenant.yaml'], 'ClusterRole');

let scene: SyncSecretScene;
let tenant: Tenant;
let other: Tenant;
/** A client with the token of the tenant. */
let user: TestApi;
before(async () => {
  scene = await SyncSecretScene.open({ controllerManager: false });
  [tenant, other] = await Promise.all([scene.tenant(), scene.tenant()]);
  user = scene.clusters.managementPlane.client({ token: tenant.token });
});
after(async () => {
  user.close();
  await scene.close();
});

it('CCM, manager and tenant have exactly the permissions in their manifests, as the API server itself reports them', async () => {
  const { tenantPlane, managementPlane } = scene.clusters;
  using ccmUser = tenantPlane.client({ token: await requestToken(tenantPlane.api, 'keyferry', CCM_ACCOUNT) });
  using manager = managementPlane.client({
    token: await requestToken(managementPlane.api, 'keyferry', MANAGER_ACCOUNT),
  });
  const rights = {
    ccm: await reviewRights(ccmUser, 'default'),
    'ccm at home': await reviewRights(ccmUser, 'keyferry'),
    manager: await reviewRights(manager, tenant.namespace),
    'manager at home': await reviewRights(manager, 'keyferry'),
    tenant: await reviewRights(user, tenant.namespace),
    'tenant elsewhere': await reviewRights(user, other.namespace),
  };
  const expected: typeof rights = {
    ccm: CCM,
    'ccm at home': CCM_AT_HOME,
    manager: MANAGER,
    'manager at home': MANAGER_AT_HOME,
    tenant: TENANT,
    'tenant elsewhere': TENANT_ELSEWHERE,
  };
  const sorted = (one: typeof rights): Json =>
    Object.fromEntries(Object.entries(one).map(([who, list]) => [who, list.toSorted()]));
  assert.deepEqual(sorted(rights), sorted(expected));
});

it("with its token, a tenant can only read and write SyncSecrets in its own namespace and read the cluster's identity (the Namespace kube-system)", async () => {
  const { managementApi: admin } = scene;
  for (const { namespace } of [tenant, other]) {
    await scene.create(namespace, 'one', { a: '1' }, {}, admin);
    await admin.create({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'one', namespace } });
  }
  const names = (await user.list(syncSecretsPath(tenant.namespace))).map(({ metadata }) => metadata.name);
  assert.deepEqual(names, ['one']);
  await scene.change(user, await user.get(syncSecretPath(tenant.namespace, 'one')), { a: '2' });
  await scene.create(tenant.namespace, 'two', { a: '1' }, {}, user);
  assert.equal(await user.delete(syncSecretPath(tenant.namespace, 'two')), true);
  const refused = [
    secretPath(tenant.namespace, 'one'),
    `/api/v1/namespaces/${tenant.namespace}/secrets`,
    secretPath(other.namespace, 'one'),
    syncSecretPath(other.namespace, 'one'),
    syncSecretsPath(other.namespace),
    '/apis/kubelb.k8c.io/v1alpha1/syncsecrets',
    '/api/v1/namespaces',
  ];
  for (const path of refused) assert.equal((await user.raw('GET', path)).status, 403, path);
  const status = await user.raw('PATCH', `${syncSecretPath(tenant.namespace, 'one')}/status`, {
    body: { status: { phase: 'Synced' } },
    contentType: 'application/merge-patch+json',
  });
  assert.equal(status.status, 403, 'the status of a copy is written by the manager alone');
  const secrets = readAuditLog(scene.clusters.managementPlane, tenant.user).filter(
    ({ resource }) => resource === 'secrets',
  );
  assert.deepEqual(
    secrets.map(({ verb, namespace, name, code }) => `${verb} ${namespace}/${name} ${code}`),
    [`get ${tenant.namespace}/one 403`, `list ${tenant.namespace}/ 403`, `get ${other.namespace}/one 403`],
  );
});
