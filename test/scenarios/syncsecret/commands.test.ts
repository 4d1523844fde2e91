/**
 * Tests syncsecret-ccm and syncsecret-manager with the flags and environment of KubeLB, and the manager alone under
 * `run`.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, it } from 'node:test';

import { freePort } from '../../servers/ports.ts';
import { HttpClient } from '../../support/http.ts';
import { HOME } from '../../support/sync-secret-install.ts';
import { waitFor } from '../../support/wait-for.ts';
import { SyncSecretScene } from './support.ts';

let scene: SyncSecretScene;
before(async () => (scene = await SyncSecretScene.open({ controllerManager: false })));
afterEach(async () => await scene.clear());
after(async () => await scene.close());

const LEASES = '/apis/coordination.k8s.io/v1/namespaces';

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

it("with KubeLB's flags and environment, syncsecret-ccm and syncsecret-manager listen on the given addresses and hold KubeLB's Leases", async () => {
  const { tenantApi, managementApi } = scene;
  const [ofCcm, ofManager] = [await addresses(), await addresses()];
  const tenant = await scene.tenant();
  const { namespace } = tenant;
  const election = ['--enable-leader-election=true', `--leader-election-namespace=${HOME}`];
  const ignored = ['--use-gateway-class=false', '--zap-log-level=info'];
  await Promise.all([
    // The flag also accepts the tenant's name with the prefix `tenant-`.
    scene.ccm({ ...tenant, name: namespace }, { args: [...ofCcm.args, ...election, ...ignored] }),
    scene.manager({ args: [...ofManager.args, '--enable-leader-election=true', '--debug'], env: { NAMESPACE: HOME } }),
  ]);
  const object = await scene.create('default', 'flags', { a: 'one' });
  await scene.arrived(tenant, object, { a: 'one' });
  await scene.phase(object, 'Synced');
  await ofCcm.check('kubelb_ccm_sync_secret_reconcile_total{namespace="default",result="success"} 1');
  await ofManager.check(`kubelb_manager_sync_secret_reconcile_total{namespace="${namespace}",result="success"} 1`);
  const leases = [
    [tenantApi, '19f32e7b.ccm.kubelb.k8c.io'],
    [managementApi, '19f32e7b.kubelb.k8c.io'],
  ] as const;
  for (const [api, name] of leases) {
    assert.ok((await api.get(`${LEASES}/${HOME}/leases/${name}`)).spec.holderIdentity, name);
  }
});
