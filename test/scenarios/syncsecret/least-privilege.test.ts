/** Both programs with the permissions of deploy/ alone: these suffice for the life of a SyncSecret, and each of them is used. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, afterEach, before, it } from 'node:test';

import type { ControlPlane } from '../../servers/control-plane.ts';
import { kubernetesFault } from '../../servers/fault-rules.ts';
import type { Json } from '../../support/api.ts';
import { readAuditLog } from '../../support/audit-log.ts';
import type { AuditEntry } from '../../support/audit-log.ts';
import { callsOf, rolesIn } from '../../support/permissions.ts';
import type { Tenant } from '../../support/sync-secret-clusters.ts';
import { HOME } from '../../support/sync-secret-install.ts';
import { waitFor } from '../../support/wait-for.ts';
import { OFFERED, ORIGINAL_FINALIZER, secretPath, syncSecretPath, SyncSecretScene } from './support.ts';

const DEPLOY = new URL('../../../deploy/', import.meta.url);
const CCM_ELECTION = ['--enable-leader-election=true', `--leader-election-namespace=${HOME}`];
const MANAGER_ELECTION = ['--enable-leader-election=true', `--namespace=${HOME}`];
/** Repeated events are patched only after minutes. Lists are used only on servers before Kubernetes 1.34, which cannot stream the first list. */
const RARE = new Set(['events patch', 'syncsecrets list', 'secrets list']);

let scene: SyncSecretScene;

before(async () => {
  scene = await SyncSecretScene.open();
});
after(() => scene.close());
afterEach(() => scene.clear());

/** A SyncSecret from its creation to its deletion: changed, of a forbidden type, repaired on both sides. */
async function life(tenant: Tenant): Promise<void> {
  const { managementApi: management, tenantApi } = scene;
  const { link, managerProxy } = scene.clusters;
  const object = await scene.create('default', 'one', { a: '1' });
  await scene.arrived(tenant, object, { a: '1' });
  await scene.phase(object, 'Synced');
  // After a conflict the programs read the object again.
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

/** A SyncSecret that disappears while the CCM does not run: its copy is an orphan. @returns the copy */
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

/** A Secret without owner reference, whose SyncSecret disappears while the manager does not run. @returns the Secret */
async function orphanedSecret(stop: () => Promise<unknown>): Promise<Json> {
  const api = scene.managementApi;
  const object = await scene.create('default', 'orphan', { a: '1' }, {}, api);
  const { secret } = await scene.made(object, { a: '1' });
  await stop();
  // Otherwise the garbage collector would delete it.
  await api.patch(secretPath('default', secret.metadata.name), { metadata: { ownerReferences: null } });
  const path = syncSecretPath('default', 'orphan');
  await api.delete(path);
  await api.patch(path, { metadata: { finalizers: null } });
  return secret;
}

function requestsOf(plane: ControlPlane, user: string): AuditEntry[] {
  return readAuditLog(plane, user).filter(({ resource }) => resource !== '');
}

/**
 * Checks that no request was refused, and that each permission of a file was used, and no other.
 * @param more files whose permissions need not be used
 */
async function assertExact(requests: readonly AuditEntry[], file: string, ...more: readonly string[]): Promise<void> {
  const refused = requests.filter(({ code }) => code === 403).map(({ verb, uri }) => `${verb} ${uri}`);
  assert.deepEqual(refused, []);
  const used = new Set(requests.map(({ resource, verb }) => `${resource} ${verb}`));
  const needed = await callsIn(file);
  const granted = new Set([...needed, ...(await callsIn(...more))]);
  assert.deepEqual(
    [...used].filter((call) => !granted.has(call)),
    [],
    'done without a rule',
  );
  assert.deepEqual(
    [...needed].filter((call) => !used.has(call) && !RARE.has(call)),
    [],
    'granted and never used',
  );
}

/** What the files of deploy/ permit. */
async function callsIn(...files: readonly string[]): Promise<Set<string>> {
  const manifests = await Promise.all(files.map((file) => readFile(new URL(file, DEPLOY), 'utf8')));
  return callsOf(manifests.flatMap((manifest) => Object.values(rolesIn(manifest)).flat()));
}

it('CCM and manager need the permissions of their manifests, and the CCM requests no Secrets in either cluster', async () => {
  const { tenantPlane, managementPlane, ccmUser, managerUser } = scene.clusters;
  const tenant = await scene.tenant();
  const [ccm, manager] = await Promise.all([
    scene.ccm(tenant, { args: CCM_ELECTION }),
    scene.manager({ args: MANAGER_ELECTION }),
  ]);
  await life(tenant);
  const copy = await orphan(tenant, () => ccm.stop());
  await scene.ccm(tenant, { args: CCM_ELECTION });
  await scene.gone(scene.managementApi, copy);
  const secret = await orphanedSecret(() => manager.stop());
  await scene.manager({ args: MANAGER_ELECTION });
  await scene.gone(scene.managementApi, secret);
  const atHome = requestsOf(tenantPlane, ccmUser);
  const away = requestsOf(managementPlane, tenant.user);
  for (const { resource, verb, uri } of [...atHome, ...away]) assert.notEqual(resource, 'secrets', `${verb} ${uri}`);
  await assertExact(atHome, 'rbac-syncsecret-ccm.yaml');
  await assertExact(away, 'rbac-syncsecret-tenant.yaml');
  await assertExact(requestsOf(managementPlane, managerUser), 'rbac-syncsecret-manager.yaml');
});

it('the secret synchronizer needs its additional permissions', async () => {
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
  const requests = requestsOf(tenantPlane, ccmUser);
  await assertExact(requests, 'rbac-syncsecret-synchronizer.yaml', 'rbac-syncsecret-ccm.yaml');
});
