/**
 * KubeLB's own four end-to-end tests for SyncSecret, under their names. Two tenant clusters have labelled Secrets, and
 * their CCMs write to one management cluster at the same time.
 */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { isDeepStrictEqual } from 'node:util';

import type { Json, TestApi } from '../../support/api.ts';
import { startTenantCluster, type TenantCluster } from '../../support/tenant-cluster.ts';
import { waitFor } from '../../support/wait-for.ts';
import { OFFERED, secretPath, syncSecretPath, syncSecretsPath, SyncSecretScene } from './support.ts';

let scene: SyncSecretScene;
let second: TenantCluster;
before(async () => {
  [scene, second] = await Promise.all([SyncSecretScene.open(), startTenantCluster()]);
  const [primary, secondary] = await Promise.all([scene.tenant('primary'), scene.tenant('secondary')]);
  const args = ['--enable-secret-synchronizer'];
  await Promise.all([
    scene.manager(),
    scene.ccm(primary, { args }),
    scene.ccm(secondary, { args, kubeconfig: second.kubeconfig }),
  ]);
});
after(async () => {
  await scene.close();
  await second.plane.stop();
});

type Values = Readonly<Record<string, string>>;

/** Creates a Secret of a tenant, with the label if the test names no other labels. */
async function create(
  api: TestApi,
  name: string,
  values: Values,
  more: Json = { metadata: { labels: OFFERED } },
): Promise<void> {
  await api.create({
    apiVersion: 'v1',
    kind: 'Secret',
    data: scene.data(values),
    ...more,
    metadata: { ...more.metadata, namespace: 'default', name },
  });
}

/** The Secrets in the management cluster whose origin labels name this object. */
async function find(namespace: string, name: string): Promise<Json[]> {
  const labelSelector = `kubelb.k8c.io/origin-name=${name}`;
  return await scene.managementApi.list(`/api/v1/namespaces/${namespace}/secrets`, { labelSelector });
}

/** Waits until exactly one Secret has this origin, with exactly these values. */
async function arrived(namespace: string, name: string, values: Values): Promise<Json> {
  const look = async (): Promise<Json> => {
    const [secret, ...others] = await find(namespace, name);
    assert.deepEqual(others, []);
    return isDeepStrictEqual(secret?.data, scene.data(values)) && secret;
  };
  return await waitFor(look, { message: () => `${name} to arrive in ${namespace}\n${scene.tail()}` });
}

it('syncsecret-crud: a labelled Secret is copied with its origin labels, follows changes, and leaves nothing when it is deleted', async () => {
  const { tenantApi: api } = scene;
  await create(api, 'crud', { key1: 'one', key2: 'two' });
  const made = await waitFor(() => api.find(syncSecretPath('default', 'crud')), { message: 'the SyncSecret' });
  const secret = await arrived('tenant-primary', 'crud', { key1: 'one', key2: 'two' });
  assert.equal(secret.type, 'Opaque');
  assert.equal(secret.metadata.labels['kubelb.k8c.io/origin-name'], 'crud');
  assert.equal(secret.metadata.labels['kubelb.k8c.io/origin-ns'], 'default');
  const path = secretPath('default', 'crud');
  await api.patch(path, { stringData: { key3: `${scene.canary}three` } });
  const changed = await arrived('tenant-primary', 'crud', { key1: 'one', key2: 'two', key3: 'three' });
  assert.equal(changed.metadata.uid, secret.metadata.uid);
  // KubeLB's test announces the deletion in its header, but does not check it. This test checks it.
  await api.delete(path);
  await scene.gone(api, { ...made, kind: 'SyncSecret' });
  await scene.gone(scene.managementApi, { ...secret, kind: 'Secret' });
  assert.deepEqual(await scene.managementApi.list(syncSecretsPath('tenant-primary')), []);
});

it('syncsecret-multi-tenant: Secrets with the same name in two clusters are copied side by side, and each is deleted with its own source', async () => {
  const tenants = [
    { namespace: 'tenant-primary', api: scene.tenantApi, values: { owner: 'primary' } },
    { namespace: 'tenant-secondary', api: second.api, values: { owner: 'secondary', more: 'x' } },
  ] as const;
  await Promise.all(tenants.map(({ api, values }) => create(api, 'shared', values)));
  const secrets = await Promise.all(
    tenants.map(async ({ namespace, values }) => await arrived(namespace, 'shared', values)),
  );
  const [first, other] = tenants;
  await first.api.delete(secretPath('default', 'shared'));
  await scene.gone(scene.managementApi, { ...secrets[0], kind: 'Secret' });
  await scene.change(
    other.api,
    { kind: 'Secret', metadata: { namespace: 'default', name: 'shared' } },
    { owner: 'new' },
  );
  const changed = await arrived(other.namespace, 'shared', { owner: 'new' });
  assert.equal(changed.metadata.uid, secrets[1]!.metadata.uid);
  assert.deepEqual(await find(first.namespace, 'shared'), []);
});

it('syncsecret-tls-type: a Secret of the type kubernetes.io/tls is copied with this type', async () => {
  const values = { 'tls.crt': 'certificate', 'tls.key': 'key' };
  const type = 'kubernetes.io/tls';
  await create(scene.tenantApi, 'certificate', values, { type, metadata: { labels: OFFERED } });
  assert.equal((await arrived('tenant-primary', 'certificate', values)).type, type);
  assert.equal((await scene.tenantApi.get(syncSecretPath('default', 'certificate'))).type, type);
});

it('syncsecret-unlabeled: a Secret without the label is not copied', async () => {
  const { tenantApi: api } = scene;
  await create(api, 'unlabeled', { key1: 'one' }, {});
  // This Secret is created later and is copied. By then the unlabelled Secret would have been copied, too.
  await create(api, 'later', { key1: 'one' });
  await arrived('tenant-primary', 'later', { key1: 'one' });
  assert.equal(await api.find(syncSecretPath('default', 'unlabeled')), undefined);
  assert.deepEqual(await find('tenant-primary', 'unlabeled'), []);
});
