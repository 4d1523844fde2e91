/**
 * Tests both programs with the permissions in deploy/ alone, and with the flags and environment of KubeLB: these
 * permissions suffice for the life of a SyncSecret, and each of them is used.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, it } from 'node:test';

import { kubernetesFault } from '../../servers/fault-rules.ts';
import { freePort } from '../../servers/ports.ts';
import type { Json } from '../../support/api.ts';
import { type AuditEntry, readAuditLog } from '../../support/audit-log.ts';
import { callsIn, type RoleFile } from '../../support/granted.ts';
import { HttpClient } from '../../support/http.ts';
import { assertUsed } from '../../support/permissions.ts';
import type { Tenant } from '../../support/sync-secret-clusters.ts';
import { HOME } from '../../support/sync-secret-install.ts';
import { waitFor } from '../../support/wait-for.ts';
import {
  OFFERED,
  ORIGINAL_FINALIZER,
  secretPath,
  syncSecretPath,
  syncSecretsPath,
  SyncSecretScene,
} from './support.ts';

const LEASES = `/apis/coordination.k8s.io/v1/namespaces/${HOME}/leases`;
const ELECTION = '--enable-leader-election=true';

let scene: SyncSecretScene;

before(async () => {
  scene = await SyncSecretScene.open();
});
after(() => scene.close());
afterEach(() => scene.clear());

/** Flags of both programs for the addresses of metrics and probes, and a check that these addresses answer. */
async function addresses(): Promise<{
  readonly args: readonly string[];
  readonly check: (series: string) => Promise<void>;
}> {
  const [metrics, probes] = [await freePort(), await freePort()];
  const check = async (series: string): Promise<void> => {
    const [ofMetrics, ofProbes] = [metrics, probes].map((port) => new HttpClient(`http://127.0.0.1:${port}`));
    try {
      const text = async (): Promise<string> => (await ofMetrics!.send('/metrics')).text;
      await waitFor(async () => (await text()).includes(series), { message: series });
      for (const path of ['/healthz', '/readyz']) assert.equal((await ofProbes!.send(path)).status, 200, path);
    } finally {
      ofMetrics!.close();
      ofProbes!.close();
    }
  };
  return {
    args: [`--metrics-addr=127.0.0.1:${metrics}`, `--health-probe-bind-address=127.0.0.1:${probes}`],
    check,
  };
}

/**
 * Takes SyncSecrets from creation to deletion: changes them, lets copy and Secret be repaired, and creates one whose
 * data do not fit its type.
 */
async function life(tenant: Tenant): Promise<void> {
  const { managementApi: management, tenantApi } = scene;
  const { link, managerProxy } = scene.clusters;
  const object = await scene.create('default', 'one', { a: '1' });
  await scene.arrived(tenant, object, { a: '1' });
  await scene.phase(object, 'Synced');
  // After a 409 to a patch, the program reads the object again. This read needs a permission, too.
  link.rule({ match: { method: 'PATCH', path: '/syncsecrets/' }, fault: kubernetesFault(409), times: 1 });
  managerProxy.rule({ match: { method: 'PATCH', path: '/secrets/' }, fault: kubernetesFault(409), times: 1 });
  await scene.change(tenantApi, object, { a: '2', b: '1' });
  const { copy, secret } = await scene.arrived(tenant, object, { a: '2', b: '1' });
  await scene.change(management, secret, { a: 'edited' });
  await scene.arrived(tenant, object, { a: '2', b: '1' });
  await management.delete(secretPath(secret.metadata.namespace, secret.metadata.name));
  await scene.arrived(tenant, object, { a: '2', b: '1' });
  await scene.change(management, copy, { a: 'edited' });
  await scene.arrived(tenant, object, { a: '2', b: '1' });
  const refused = await scene.create('default', 'refused', { a: '1' }, { type: 'kubernetes.io/tls' });
  await scene.phase(refused, 'Failed');
  await scene.event(refused, 'SyncFailed');
  const refusedCopy = await scene.findCopy(tenant, refused);
  await scene.event(refusedCopy, 'SyncFailed', undefined, management);
  for (const name of ['one', 'refused']) await tenantApi.delete(syncSecretPath('default', name));
  await scene.gone(tenantApi, object, refused);
  await scene.gone(management, copy, refusedCopy, secret);
}

/** Makes an orphan: a copy whose SyncSecret is deleted while the CCM does not run. @returns the copy */
async function orphan(tenant: Tenant, stop: () => Promise<unknown>): Promise<Json> {
  const object = await scene.create('default', 'orphan', { a: '1' });
  const { copy } = await scene.arrived(tenant, object, { a: '1' });
  await scene.phase(object, 'Synced');
  await stop();
  const path = syncSecretPath('default', 'orphan');
  await scene.tenantApi.delete(path);
  await scene.tenantApi.patch(path, { metadata: { finalizers: null } });
  return copy;
}

/** Makes an orphan: a Secret whose SyncSecret is deleted while the manager does not run. @returns the Secret */
async function orphanedSecret(stop: () => Promise<unknown>): Promise<Json> {
  const api = scene.managementApi;
  const object = await scene.create('default', 'orphan', { a: '1' }, {}, api);
  const { secret } = await scene.made(object, { a: '1' });
  await stop();
  const path = syncSecretPath('default', 'orphan');
  await api.delete(path);
  await api.patch(path, { metadata: { finalizers: null } });
  return secret;
}

/**
 * Checks that the requests need exactly the permissions in `file`.
 * @param more files whose permissions may be used, too
 */
function assertExact(requests: readonly AuditEntry[], file: RoleFile, ...more: readonly RoleFile[]): void {
  assertUsed(requests, callsIn(file, ...more), callsIn(file));
}

it("with KubeLB's flags and environment, CCM and manager listen on the given addresses, hold KubeLB's Leases, and use each permission in their manifests and no others; the CCM requests no Secrets", async () => {
  const { tenantPlane, managementPlane, ccmUser, managerUser } = scene.clusters;
  const { tenantApi, managementApi } = scene;
  const [ofCcm, ofManager] = [await addresses(), await addresses()];
  const tenant = await scene.tenant();
  const { namespace } = tenant;
  const ignored = ['--use-gateway-class=false', '--zap-log-level=info'];
  const ccmArgs = [...ofCcm.args, ELECTION, `--leader-election-namespace=${HOME}`, ...ignored];
  const ofKubelb = { args: [...ofManager.args, ELECTION, '--debug'], env: { NAMESPACE: HOME } };
  const [ccm, manager] = await Promise.all([
    // The flag also accepts the tenant's name with the prefix `tenant-`.
    scene.ccm({ ...tenant, name: namespace }, { args: ccmArgs }),
    scene.manager(ofKubelb),
  ]);
  const metadata = { namespace: 'default', name: 'offered', labels: OFFERED };
  await tenantApi.create({ apiVersion: 'v1', kind: 'Secret', metadata });
  await life(tenant);
  assert.equal(await tenantApi.find(syncSecretPath('default', 'offered')), undefined, 'the synchronizer is off');
  await ofCcm.check('kubelb_ccm_sync_secret_reconcile_total{namespace="default",result="success"}');
  await ofManager.check(`kubelb_manager_sync_secret_reconcile_total{namespace="${namespace}",result="success"}`);
  for (const [api, name] of [
    [tenantApi, '19f32e7b.ccm.kubelb.k8c.io'],
    [managementApi, '19f32e7b.kubelb.k8c.io'],
  ] as const) {
    assert.ok((await api.get(`${LEASES}/${name}`)).spec.holderIdentity, name);
  }
  const copy = await orphan(tenant, () => ccm.stop());
  await scene.ccm(tenant, { args: ccmArgs });
  await scene.gone(managementApi, copy);
  const secret = await orphanedSecret(() => manager.stop());
  await scene.manager(ofKubelb);
  await scene.gone(managementApi, secret);
  const atHome = readAuditLog(tenantPlane, ccmUser);
  const away = readAuditLog(managementPlane, tenant.user);
  for (const { resource, verb, uri } of [...atHome, ...away]) assert.notEqual(resource, 'secrets', `${verb} ${uri}`);
  assertExact(atHome, 'rbac-syncsecret-ccm.yaml');
  assertExact(away, 'rbac-syncsecret-tenant.yaml');
  assertExact(readAuditLog(managementPlane, managerUser), 'rbac-syncsecret-manager.yaml');
});

it('the secret synchronizer uses each of its additional permissions and no others', async () => {
  const { tenantPlane, ccmUser } = scene.clusters;
  const tenant = await scene.tenant();
  await Promise.all([scene.ccm(tenant, { args: ['--enable-secret-synchronizer'] }), scene.manager()]);
  const secret = await scene.tenantApi.create({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'offered', namespace: 'default', labels: OFFERED, finalizers: [ORIGINAL_FINALIZER] },
    data: scene.data({ a: '1' }),
  });
  const made = await waitFor(() => scene.tenantApi.find(syncSecretPath('default', 'offered')));
  await scene.arrived(tenant, made, { a: '1' });
  await scene.change(scene.tenantApi, secret, { a: '2' });
  const { copy } = await scene.arrived(tenant, made, { a: '2' });
  await scene.tenantApi.delete(secretPath('default', 'offered'));
  await scene.gone(scene.tenantApi, secret, made);
  await scene.gone(scene.managementApi, copy);
  const requests = readAuditLog(tenantPlane, ccmUser);
  assertExact(requests, 'rbac-syncsecret-synchronizer.yaml', 'rbac-syncsecret-ccm.yaml');
});

it('with its token, a tenant can only read and write SyncSecrets in its own namespace, and not their status', async () => {
  const [tenant, other] = await Promise.all([scene.tenant(), scene.tenant()]);
  const { managementPlane } = scene.clusters;
  using user = managementPlane.client({ token: tenant.token });
  for (const { namespace } of [tenant, other]) {
    await scene.create(namespace, 'one', { a: '1' }, {}, scene.managementApi);
    await scene.managementApi.create({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'one', namespace } });
  }
  const own = syncSecretPath(tenant.namespace, 'one');
  await scene.change(user, await user.get(own), { a: '2' });
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
  const contentType = 'application/merge-patch+json';
  const { status } = await user.raw('PATCH', `${own}/status`, { body: { status: { phase: 'Synced' } }, contentType });
  assert.equal(status, 403, 'the status of a copy is written by the manager alone');
});
