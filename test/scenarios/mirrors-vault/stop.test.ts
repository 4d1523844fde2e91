/** A leader stops in time while Vault and the API server hang. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { within } from '../../support/yardstick.ts';
import { type FaultProxy, startFaultProxy } from '../../servers/fault-proxy.ts';
import { HOME } from '../mirrors/support.ts';
import { ALL, VaultScene } from './support.ts';

describe('a stop while Vault hangs', () => {
  let scene: VaultScene;
  let proxy: FaultProxy;
  let cluster: FaultProxy;
  before(async () => {
    scene = await VaultScene.open();
    proxy = await startFaultProxy({ upstream: scene.vault.addr });
    const { plane } = scene.mirrors;
    cluster = await startFaultProxy({ upstream: plane.url, upstreamCaPem: plane.caPem });
    for (const name of ['one', 'two']) await scene.approle(name, ALL);
    await scene.mirrors.secret(HOME, 'written', { a: '0' });
    await scene.put('secret/data/app', { a: '0' });
    await scene.mirrors.namespaces('target');
  });
  after(async () => {
    await scene.close();
    await proxy.stop();
    await cluster.stop();
  });

  it('while writes, a login and Vault hang, a stop takes less than 5 s, exits with code 0 and releases the Lease', async () => {
    const { mirrors } = scene;
    const kubeconfig = await mirrors.plane.writeKubeconfig({ server: cluster.url, caPem: cluster.caPem });
    // This Lease has the default durations. With shorter ones, two late responses of a busy server could lose the Lease
    // during the stop.
    const operator = await mirrors.operator({ kubeconfig, args: ['--leader-elect'] });
    const behind = (path: string, name: string): Json => ({
      addr: proxy.url,
      path,
      auth: { approle: { secretRef: { name } } },
    });
    await scene.fromVault('from', behind('secret/data/app', 'one'), ['target']);
    await scene.toVault('to', { name: 'written' }, behind('secret/data/to', 'one'));
    await mirrors.mirror('written', ['target']);
    await mirrors.copied('target', 'from', { a: '0' });
    await mirrors.copied('target', 'written', { a: '0' });
    await scene.holds('secret/data/to', { a: '0' });
    await mirrors.ready('to', 'Synced');
    await mirrors.ready('written', 'Synced');
    const logins = 'keyferry_vault_logins_total';
    assert.ok(((await operator.metric(logins)) ?? 0) > 0);
    const standby = await mirrors.operator({ kubeconfig, args: ['--leader-elect'] });
    assert.equal(await standby.metric('keyferry_leader'), 0);
    const isNotLoggedIn = async (): Promise<boolean> => ((await standby.metric(logins)) ?? 0) === 0;
    await staysTrue(isNotLoggedIn, 1000, 'a standby does not log in');
    await standby.kill9();
    proxy.rule({ fault: { kind: 'stall' } });
    cluster.rule({
      match: ({ method, path }) => method !== 'GET' && !path.includes('/leases/'),
      fault: { kind: 'stall' },
    });
    await scene.toVault('other', { name: 'written' }, behind('secret/data/other', 'two'));
    await mirrors.change(HOME, 'written', { a: '1' });
    await waitFor(() => proxy.live().length >= 2 && cluster.live({ method: ['PATCH', 'PUT', 'POST'] }).length > 0);
    const ending = await within(5000, 'the stop', async () => await operator.stop());
    assert.deepEqual([ending.code, ending.signal], [0, null], operator.output.slice(-2000));
    const lease = await mirrors.api.get('/apis/coordination.k8s.io/v1/namespaces/default/leases/keyferry');
    assert.equal(lease.spec.holderIdentity ?? '', '');
  });
});

failOnLeaks();
