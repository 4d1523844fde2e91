/**
 * Two replicas and dynamic credentials: a new leader keeps the Vault lease of the old one. A leader also stops in time
 * while Vault and the API server hang.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { longDescribe } from '../../support/long.ts';
import { waitFor } from '../../support/wait-for.ts';
import { currentStretch, within } from '../../support/yardstick.ts';
import { type FaultProxy, startFaultProxy } from '../../servers/fault-proxy.ts';
import { findPostgres } from '../../servers/postgres.ts';
import { databaseRole } from '../../servers/vault-database.ts';
import { HOME } from '../mirrors/support.ts';
import { documentedPolicy, LEASE_ID, policy, VaultScene } from './support.ts';

const postgres = findPostgres();
const skip = 'missing' in postgres ? postgres.missing : false;
/** Factor for all durations on a busy machine, where renewals take longer even without a change of the leader. */
const slower = Math.min(3, Math.ceil(await currentStretch()));
/** Lifetime of the credentials, s: longer than a change of the leader takes. */
const LEASE_S = 20 * slower;
const ELECTION = [
  '--leader-elect',
  `--leader-elect-lease-duration=${4 * slower}s`,
  `--leader-elect-renew-deadline=${3 * slower}s`,
  '--leader-elect-retry-period=500ms',
];
const isLeading = async (keyferry: Keyferry): Promise<boolean> => (await keyferry.metric('keyferry_leader')) === 1;

longDescribe('a change of the leader', { skip }, () => {
  let scene: VaultScene;
  before(async () => {
    ({ scene } = await VaultScene.openWithDatabase('mongodb'));
    await databaseRole(scene.vault, 'mongodb', 'somedb', { ttl: `${LEASE_S}s`, maxTtl: '2h' });
    await scene.approle('vault-approle', await documentedPolicy('Dynamic credentials to namespaces'));
  });
  after(() => scene.close());

  it('after a kill -9 or a clean stop of the leader, the new leader keeps the dynamic credentials and renews their Vault lease', async () => {
    const { mirrors, vault } = scene;
    let leader = await mirrors.operator({ args: ELECTION });
    await waitFor(() => isLeading(leader));
    const auth = { approle: { secretRef: { name: 'vault-approle' } } };
    const block = { addr: vault.addr, path: 'mongodb/creds/somedb', auth };
    await scene.fromVault('creds', block, ['default', 'later-.+'], { pollPeriodSeconds: 600 });
    const copy = async (namespace: string): Promise<Json> =>
      await waitFor(() => mirrors.find(namespace, 'creds'), { message: `credentials in ${namespace}` });
    const first = await copy('default');
    await mirrors.ready('creds', 'Synced');
    for (const end of ['kill9', 'stop'] as const) {
      const standby = await mirrors.operator({ args: ELECTION });
      assert.equal(await isLeading(standby), false);
      assert.equal((await standby.metric('keyferry_vault_logins_total')) ?? 0, 0);
      await leader[end]();
      await waitFor(() => isLeading(standby), { message: 'another leader' });
      const namespace = `later-${end.toLowerCase()}`;
      await mirrors.namespaces(namespace);
      const second = await copy(namespace);
      assert.deepEqual(second.data, first.data);
      assert.equal(second.metadata.annotations[LEASE_ID], first.metadata.annotations[LEASE_ID]);
      const renewed = async (): Promise<boolean> =>
        ((await standby.metric('mirrors_vault_lease_renew_ok_total')) ?? 0) > 0;
      await waitFor(renewed, { message: 'the lease to be renewed' });
      assert.equal(standby.logs().filter(({ reason }) => reason === 'VaultNewCreds').length, 0);
      leader = standby;
    }
    assert.deepEqual((await copy('default')).data, first.data);
    const { status } = await vault.raw('PUT', 'sys/leases/lookup', { lease_id: first.metadata.annotations[LEASE_ID] });
    assert.equal(status, 200);
  });
});

describe('a stop while Vault hangs', () => {
  let scene: VaultScene;
  let proxy: FaultProxy;
  let cluster: FaultProxy;
  before(async () => {
    scene = await VaultScene.open();
    proxy = await startFaultProxy({ upstream: scene.vault.addr });
    const { plane } = scene.mirrors;
    cluster = await startFaultProxy({ upstream: plane.url, upstreamCaPem: plane.caPem });
    const all = policy({ '*': ['create', 'read', 'update', 'list'] });
    for (const name of ['one', 'two']) await scene.approle(name, all);
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
