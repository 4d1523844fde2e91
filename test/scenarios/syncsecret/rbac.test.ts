/** The permissions in deploy/ for SyncSecret: exactly these, and a tenant can neither read Secrets nor reach another tenant. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';

import type { Json, TestApi } from '../../support/api.ts';
import { readAuditLog } from '../../support/audit-log.ts';
import { bindingsIn, reviewRights, rolesIn } from '../../support/permissions.ts';
import { requestToken } from '../../support/service-account.ts';
import type { Tenant } from '../../support/sync-secret-clusters.ts';
import { CCM_ACCOUNT, MANAGER_ACCOUNT } from '../../support/sync-secret-install.ts';
import { secretPath, syncSecretPath, syncSecretsPath, SyncSecretScene } from './support.ts';

const DEPLOY = new URL('../../../deploy/', import.meta.url);

const CCM = [
  'kubelb.k8c.io/syncsecrets: get list watch patch',
  'kubelb.k8c.io/syncsecrets/status: patch',
  'core/namespaces kube-system: get',
  'core/events: create patch',
];
const SYNCHRONIZER = ['core/secrets: get list watch patch', 'kubelb.k8c.io/syncsecrets: create delete'];
const TENANT = ['kubelb.k8c.io/syncsecrets: get list watch create patch delete'];
/** The uid tells a CCM whether this is its own cluster. */
const IDENTITY = ['core/namespaces kube-system: get'];
const MANAGER = [
  'kubelb.k8c.io/syncsecrets: get list watch patch',
  'kubelb.k8c.io/syncsecrets/status: patch',
  'core/secrets: get list watch create patch delete',
  'core/events: create patch',
];
const LEASES = ['coordination.k8s.io/leases: get create update'];

/** Every permission by file and role. A change must be visible in a diff, with its reason. */
const GOLDEN: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  'rbac-syncsecret-ccm.yaml': {
    'ClusterRole keyferry-syncsecret-ccm': CCM,
    'Role keyferry-syncsecret-ccm': LEASES,
  },
  'rbac-syncsecret-synchronizer.yaml': { 'ClusterRole keyferry-syncsecret-synchronizer': SYNCHRONIZER },
  'rbac-syncsecret-tenant.yaml': {
    'ClusterRole keyferry-syncsecret-tenant': IDENTITY,
    'Role keyferry-syncsecret-ccm': TENANT,
  },
  'rbac-syncsecret-manager.yaml': {
    'ClusterRole keyferry-syncsecret-manager': MANAGER,
    'Role keyferry-syncsecret-manager': LEASES,
  },
};

const ccm = { kind: 'ServiceAccount', name: CCM_ACCOUNT, namespace: 'keyferry' };
const SUBJECTS: Readonly<Record<string, object>> = {
  'rbac-syncsecret-ccm.yaml': ccm,
  'rbac-syncsecret-synchronizer.yaml': ccm,
  'rbac-syncsecret-tenant.yaml': { ...ccm, namespace: 'tenant-primary' },
  'rbac-syncsecret-manager.yaml': { ...ccm, name: MANAGER_ACCOUNT },
};

const manifest = (file: string): string => readFileSync(new URL(file, DEPLOY), 'utf8');

describe('the manifests', () => {
  it('the manifests of roles for SyncSecrets are those that this test compares', () => {
    assert.deepEqual(
      globSync('rbac-syncsecret-*.yaml', { cwd: DEPLOY.pathname }).toSorted(),
      Object.keys(GOLDEN).sort(),
    );
  });

  for (const [file, roles] of Object.entries(GOLDEN)) {
    it(`${file} grants these permissions and no other, each bound to the ServiceAccount`, () => {
      assert.deepEqual(rolesIn(manifest(file)), roles);
      const bindings = bindingsIn(manifest(file));
      assert.deepEqual(
        bindings.map(({ text }) => text).toSorted(),
        Object.keys(roles)
          .map((role) => `${role.split(' ')[0]}Binding ${role}`)
          .toSorted(),
      );
      for (const { subjects } of bindings) assert.deepEqual(subjects, [SUBJECTS[file]]);
    });
  }
});

describe('on real clusters', () => {
  let scene: SyncSecretScene;
  let tenant: Tenant;
  let other: Tenant;
  /** With the token of the tenant. */
  let user: TestApi;
  before(async () => {
    scene = await SyncSecretScene.open();
    [tenant, other] = await Promise.all([scene.tenant(), scene.tenant()]);
    user = scene.clusters.managementPlane.client({ token: tenant.token });
  });
  after(async () => {
    user.close();
    await scene.close();
  });

  it('the server reports these permissions, and no other', async () => {
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
      ccm: [...CCM, ...SYNCHRONIZER],
      'ccm at home': [...CCM, ...SYNCHRONIZER, ...LEASES],
      manager: MANAGER,
      'manager at home': [...MANAGER, ...LEASES],
      tenant: [...TENANT, ...IDENTITY],
      'tenant elsewhere': IDENTITY,
    };
    const sorted = (one: typeof rights): Json =>
      Object.fromEntries(Object.entries(one).map(([who, list]) => [who, list.toSorted()]));
    assert.deepEqual(sorted(rights), sorted(expected));
  });

  it('the token of a tenant reads and writes SyncSecrets of its namespace, and nothing else but the identity of the cluster', async () => {
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
});
