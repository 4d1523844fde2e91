/**
 * Tests syncsecret-ccm and syncsecret-manager with the flags and environment of KubeLB, and the manager alone under
 * `run`.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, it } from 'node:test';

import { freePort } from '../../servers/ports.ts';
import type { Json } from '../../support/api.ts';
import { HttpClient } from '../../support/http.ts';
import { HOME } from '../../support/sync-secret-install.ts';
import { waitFor } from '../../support/wait-for.ts';
import { SyncSecretScene, syncSecretPath } from './support.ts';

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

it('under `keyferry run`, the manager makes the Secret of a SyncSecret in the same cluster, and reports the Secret in the status', async () => {
  await scene.manager({
    inRun: true,
    args: ['--syncsecret-propagate-labels=app', '--syncsecret-propagate-annotations=note'],
  });
  const api = scene.managementApi;
  const metadata = { labels: { app: 'web' }, annotations: { note: 'x' } };
  const object = await scene.create('default', 'direct', { a: 'one', b: 'two' }, { metadata }, api);
  const { copy, secret } = await scene.made(object, { a: 'one', b: 'two' });
  assert.equal(secret.metadata.name, object.metadata.uid);
  assert.equal(secret.type, 'Opaque');
  assert.equal(secret.immutable, undefined);
  const { uid } = object.metadata;
  assert.deepEqual(secret.metadata.ownerReferences, [
    { apiVersion: 'kubelb.k8c.io/v1alpha1', kind: 'SyncSecret', name: 'direct', uid },
  ]);
  assert.equal(secret.metadata.labels.app, 'web');
  assert.equal(secret.metadata.annotations.note, 'x');
  assert.deepEqual(copy.metadata.finalizers, ['kubelb.k8c.io/lb-finalizer']);
  const done: Json = await scene.phase(object, 'Synced', {
    api,
    reason: 'Synced',
    message: /^Secret synced successfully$/,
  });
  await scene.change(api, done, { b: 'three' });
  await scene.made(object, { b: 'three' });
  await api.delete(syncSecretPath('default', 'direct'));
  await scene.gone(api, object, secret);
});
