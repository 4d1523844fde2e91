/**
 * Tests two tenant clusters with the same tenant name. Neither touches the copies of the other, even without permission
 * to read its own identity (the uid of kube-system).
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import type { Json, TestApi } from '../../../support/api.ts';
import type { Keyferry } from '../../../support/keyferry.ts';
import type { Tenant } from '../../../support/sync-secret-clusters.ts';
import { requestToken } from '../../../support/service-account.ts';
import { CCM_ACCOUNT, HOME } from '../../../support/sync-secret-install.ts';
import { startTenantCluster, type TenantCluster } from '../../../support/tenant-cluster.ts';
import { staysTrue, waitFor } from '../../../support/wait-for.ts';
import { syncSecretPath, SyncSecretScene } from '../support.ts';

let scene: SyncSecretScene;
/** A second cluster, whose CCM has the name of the same tenant. */
let other: TenantCluster;
before(async () => {
  [scene, other] = await Promise.all([SyncSecretScene.open(), startTenantCluster()]);
  await scene.keptManager();
});
afterEach(async () => {
  await scene.clear();
  for (const object of await other.api.list('/apis/kubelb.k8c.io/v1alpha1/syncsecrets')) {
    await remove(object, other.api, null);
  }
});
after(async () => {
  await other.plane.stop();
  await scene.close();
});

const VALUES = { a: 'one' };
const ORIGIN = 'keyferry.dev/origin';
/** A wait, ms, that is longer than all automatic effects take. */
const SETTLE_MS = 1500;

interface Pair {
  readonly tenant: Tenant;
  /** The running CCM of the first cluster. */
  ccm: Keyferry;
  otherCcm: Keyferry;
  /** The SyncSecret in the first cluster. `others` is the SyncSecret with the same name in the second cluster. */
  readonly own: Json;
  readonly others: Json;
}

/** Starts a CCM in each cluster, and creates a SyncSecret with the same name in each, with its copy and Secret. */
async function running(name: string): Promise<Pair> {
  const tenant = await scene.tenant();
  const [ccm, otherCcm] = await Promise.all([scene.ccm(tenant), scene.ccm(tenant, { kubeconfig: other.kubeconfig })]);
  const own = await scene.create('default', name, { a: 'own' });
  const others = await scene.create('default', name, { a: 'others' }, {}, other.api);
  await scene.arrived(tenant, own, { a: 'own' });
  await scene.arrived(tenant, others, { a: 'others' });
  await scene.phase(own, 'Synced');
  await scene.phase(others, 'Synced', { api: other.api });
  return { tenant, ccm, otherCcm, own, others };
}

/** Deletes a SyncSecret. @param finalizers `null` removes them first, so that no program can act on the deletion */
async function remove({ metadata: { namespace, name } }: Json, api: TestApi, finalizers?: null): Promise<void> {
  const path = syncSecretPath(namespace, name);
  if (finalizers === null) await api.patch(path, { metadata: { finalizers } });
  await api.delete(path);
}

/** Checks that the copy of a SyncSecret exists and is not written for some time. */
async function untouched({ tenant }: Pair, object: Json): Promise<void> {
  const version = async (): Promise<string> => (await scene.findCopy(tenant, object))?.metadata.resourceVersion;
  const before = await version();
  assert.notEqual(before, undefined);
  await staysTrue(async () => (await version()) === before, SETTLE_MS, 'the copy is left alone');
}

async function copyGone({ tenant }: Pair, object: Json): Promise<void> {
  await waitFor(async () => (await scene.findCopy(tenant, object)) === undefined, {
    message: () => `the copy of ${object.metadata.name} to be gone\n${scene.tail()}`,
  });
}

describe('two clusters with one tenant name', () => {
  it('two clusters with the same tenant name each delete their own copies and orphans, and never those of the other cluster', async () => {
    const pair = await running('same');
    await remove(pair.own, scene.tenantApi);
    await copyGone(pair, pair.own);
    await untouched(pair, pair.others);
    // The SyncSecret of the second cluster is deleted while its CCM does not run. So its copy is an orphan of that
    // cluster.
    await pair.otherCcm.kill9();
    await remove(pair.others, other.api, null);
    await pair.ccm.kill9();
    pair.ccm = await scene.ccm(pair.tenant);
    await untouched(pair, pair.others);
    await scene.create('default', 'same', VALUES);
    await untouched(pair, pair.others);
    await scene.ccm(pair.tenant, { kubeconfig: other.kubeconfig });
    await copyGone(pair, pair.others);
  });
});

describe('a CCM that cannot read the identity of its cluster', () => {
  const role = '/apis/rbac.authorization.k8s.io/v1/clusterroles/keyferry-syncsecret-ccm';
  const complaint = 'the identity of the cluster cannot be read';

  /**
   * Starts the CCM of the first cluster again without the permission to read its identity.
   * @returns a function that grants the permission again
   */
  async function forbid(pair: Pair): Promise<() => Promise<unknown>> {
    await pair.ccm.kill9();
    const { rules } = await scene.tenantApi.get(role);
    const fewer = rules.filter(({ resources }: Json) => !resources.includes('namespaces'));
    assert.equal(fewer.length, rules.length - 1);
    await scene.tenantApi.patch(role, { rules: fewer });
    const { clusters } = scene;
    using client = clusters.tenantPlane.client({
      token: await requestToken(clusters.tenantPlane.api, HOME, CCM_ACCOUNT),
    });
    await waitFor(async () => (await client.raw('GET', '/api/v1/namespaces/kube-system')).status === 403);
    pair.ccm = await scene.ccm(pair.tenant);
    return async () => await scene.tenantApi.patch(role, { rules });
  }

  it("without the permission to read its cluster's identity, the CCM copies SyncSecrets, but deletes orphans only after it got the permission", async () => {
    const pair = await running('same');
    const { tenant, own, others } = pair;
    const orphan = await scene.create('default', 'orphan', VALUES);
    await scene.arrived(tenant, orphan, VALUES);
    await scene.phase(orphan, 'Synced');
    const { [ORIGIN]: mark } = (await scene.findCopy(tenant, own)).metadata.annotations;
    const permit = await forbid(pair);
    try {
      // Suspend the CCM. Otherwise it could write its finalizer again before the deletion, and the copy would not
      // become an orphan.
      await pair.ccm.suspend();
      await remove(orphan, scene.tenantApi, null);
      pair.ccm.resume();
      await untouched(pair, own);
      assert.equal((await scene.findCopy(tenant, own)).metadata.annotations[ORIGIN], mark, 'the mark stays');

      const fresh = await scene.create('default', 'fresh', VALUES);
      await scene.arrived(tenant, fresh, VALUES);
      const { metadata } = await scene.findCopy(tenant, fresh);
      assert.equal(metadata.annotations[ORIGIN], 'unknown/default/fresh');
      await remove(own, scene.tenantApi);
      await scene.gone(scene.tenantApi, own);
      await copyGone(pair, own);
      await untouched(pair, others);
      await untouched(pair, orphan);
      const warnings = pair.ccm.logs().filter(({ msg }) => msg === complaint);
      assert.deepEqual(
        warnings.map(({ level }) => level),
        ['warn'],
      );
      assert.match(warnings[0].advice, /kube-system/);

      await permit();
      await copyGone(pair, orphan);
      const isMarked = async (): Promise<boolean> =>
        (await scene.findCopy(tenant, fresh)).metadata.annotations[ORIGIN] === mark.replace(/\/same$/, '/fresh');
      await waitFor(isMarked, { message: () => `the mark with the identity\n${scene.tail()}` });
      await untouched(pair, others);
    } finally {
      await permit();
    }
  });
});

it("a copy without SyncSecret (an orphan) is deleted even if the CCM reads its cluster's identity late and no SyncSecret is left", async () => {
  const tenant = await scene.tenant();
  const ccm = await scene.ccm(tenant);
  const object = await scene.create('default', 'alone', VALUES);
  const { copy, secret } = await scene.arrived(tenant, object, VALUES);
  await scene.phase(object, 'Synced');
  await ccm.kill9();
  await remove(object, scene.tenantApi, null);
  const { promise, resolve } = Promise.withResolvers<void>();
  const { tenantProxy } = scene.clusters;
  tenantProxy.reset();
  tenantProxy.rule({ match: { path: '/kube-system' }, fault: { kind: 'hold', until: promise } });
  await scene.ccm(tenant);
  const isDecided = (): boolean => tenantProxy.requests.some(({ url }) => url.includes('/syncsecrets/alone'));
  await waitFor(isDecided, { message: 'the orphan to be looked at' });
  await staysTrue(async () => (await scene.findCopy(tenant, object)) !== undefined, SETTLE_MS, 'the copy is there');
  resolve();
  await scene.gone(scene.managementApi, copy, secret);
});
