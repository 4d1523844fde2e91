/**
 * Tests SyncSecrets between two clusters with real Pods: CCM and synchronizer run in the tenant's cluster, the manager
 * in the management cluster.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { kubeconfigYaml } from '../../../servers/kubeconfig.ts';
import type { RealCluster } from '../../../servers/real-cluster/cluster.ts';
import { installTenant } from '../../../support/sync-secret-install.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { HOME, install, rolledOut, skip, startCluster } from '../support.ts';

const TENANT = 'tenant-primary';

describe('SyncSecrets between Pods of two clusters', { skip }, () => {
  let tenant: RealCluster;
  let management: RealCluster;

  before(async () => {
    [tenant, management] = await Promise.all([startCluster(), startCluster()]);
    await tenant.namespace.reach(management.namespace);
  });
  after(async () => {
    await Promise.all([tenant?.stop(), management?.stop()]);
  });

  it("with CCM and manager in Pods, a tenant's labelled Secret becomes a Secret in the management cluster, and is deleted there with it", async () => {
    await install(management, { 'syncSecret.manager.enabled': true });
    const token = await installTenant(management, TENANT);
    const kubeconfig = kubeconfigYaml({ server: management.url, caPem: management.caPem, token });
    await tenant.api.createNamespaces([HOME, 'apps']);
    await tenant.api.create({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'kubelb-cluster', namespace: HOME },
      stringData: { kubelb: kubeconfig },
    });
    await install(tenant, {
      'syncSecret.ccm.enabled': true,
      'syncSecret.ccm.clusterName': 'primary',
      'syncSecret.ccm.secretSynchronizer': true,
    });
    await Promise.all([rolledOut(management), rolledOut(tenant)]);
    await tenant.api.create({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'labelled', namespace: 'apps', labels: { 'kubelb.k8c.io/managed-by': 'kubelb' } },
      stringData: { password: 'on' },
    });
    await waitFor(
      async () => {
        const found = await tenant.api.find('/apis/kubelb.k8c.io/v1alpha1/namespaces/apps/syncsecrets/labelled');
        return found?.status?.phase === 'Synced';
      },
      { message: 'the SyncSecret to be synced' },
    );
    const copies = await management.api.list(`/api/v1/namespaces/${TENANT}/secrets`);
    assert.deepEqual(
      copies.map(({ data }) => data),
      [{ password: 'b24=' }],
    );
    await tenant.api.delete('/api/v1/namespaces/apps/secrets/labelled');
    await waitFor(async () => (await management.api.list(`/api/v1/namespaces/${TENANT}/secrets`)).length === 0, {
      message: 'the Secret to be deleted',
    });
  });
});
