/**
 * SyncSecret with two replicas of each program. In both clusters only one replica works, and never while the other one
 * may hold the Lease.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, it } from 'node:test';

import { isWrite, lineOf } from '../scenarios/syncsecret/requests.ts';
import { SyncSecretScene } from '../scenarios/syncsecret/support.ts';
import { kubernetesFault } from '../servers/fault-rules.ts';
import type { Json } from '../support/api.ts';
import type { AuditEntry } from '../support/audit-log.ts';
import type { Keyferry } from '../support/keyferry.ts';
import type { Tenant } from '../support/sync-secret-clusters.ts';
import { waitFor } from '../support/wait-for.ts';
import { currentStretch } from '../support/yardstick.ts';

const NAMESPACE = 'elected';

let scene: SyncSecretScene;
let tenant: Tenant;
let args: readonly string[];
let leaders: readonly Keyferry[];
let standbys: readonly Keyferry[];
let object: Json;

before(async () => {
  scene = await SyncSecretScene.open();
  await scene.namespaces(NAMESPACE);
  tenant = await scene.tenant();
  // Factor for all durations, because on a busy machine even normal renewals take longer.
  const slower = Math.min(4, Math.ceil(await currentStretch()));
  args = [
    '--leader-elect',
    '--leader-elect-namespace=keyferry',
    '--leader-elect-retry-period=500ms',
    `--leader-elect-lease-duration=${4 * slower}s`,
    `--leader-elect-renew-deadline=${3 * slower}s`,
  ];
});
beforeEach(async () => {
  leaders = await Promise.all([scene.ccm(tenant, { args }), scene.manager({ args })]);
  await lead(leaders);
  standbys = await Promise.all([scene.ccm(tenant, { args }), scene.manager({ args })]);
  object = await scene.create(NAMESPACE, 'one', { a: 'first' });
  await arrives({ a: 'first' });
});
afterEach(() => scene.clear());
after(() => scene.close());

async function lead(replicas: readonly Keyferry[]): Promise<void> {
  for (const one of replicas) {
    await waitFor(async () => (await one.metric('keyferry_leader')) === 1, {
      message: () => `a replica to lead\n${scene.tail()}`,
    });
  }
}

async function arrives(values: Record<string, string>): Promise<void> {
  await scene.arrived(tenant, object, values);
  await scene.phase(object, 'Synced');
}

const isWork = (entry: AuditEntry): boolean => isWrite(entry) && entry.resource !== 'leases';

it('after the leading CCM and the leading manager are killed with SIGKILL, their standbys lead and write each new object one time', async () => {
  for (const one of standbys) assert.equal((await one.metric('keyferry_writes_total')) ?? 0, 0);
  const later = scene.requests(tenant).fromNow();
  await Promise.all(leaders.map((one) => one.kill9()));
  await scene.change(scene.tenantApi, object, { a: 'second' });
  await lead(standbys);
  await arrives({ a: 'second' });
  const writes = later().filter((entry) => isWork(entry) && entry.resource !== 'syncsecrets/status');
  const { copy, secret } = await scene.arrived(tenant, object, { a: 'second' });
  const expected = [copy, secret].map(
    ({ metadata: { namespace, name } }, index) => `patch ${['syncsecrets', 'secrets'][index]} ${namespace}/${name}`,
  );
  assert.deepEqual(writes.map(lineOf).toSorted(), expected.toSorted());
});

it('if CCM and manager are suspended with waiting writes until others lead, they write nothing when they are resumed', async () => {
  const { link, tenantProxy, managerProxy } = scene.clusters;
  const direct = await scene.create(tenant.namespace, 'direct', { a: 'first' }, {}, scene.managementApi);
  await scene.made(direct, { a: 'first' });
  // Three writes wait for their Retry-After: the finalizer in the tenant cluster, the copy, and the Secret.
  const isThrottled = ({ method, path }: { method: string; path: string }): boolean =>
    method !== 'GET' && (path.includes('/syncsecrets') || path.includes('/secrets'));
  const rules = [link, tenantProxy, managerProxy].map((proxy) =>
    proxy.rule({ match: isThrottled, fault: kubernetesFault(429, 1) }),
  );
  const made = await scene.create(NAMESPACE, 'two', { a: 'new' });
  await scene.change(scene.tenantApi, object, { a: 'second' });
  await scene.change(scene.managementApi, direct, { a: 'second' });
  await waitFor(() => rules.every(({ hits }) => hits > 0), { message: () => `waiting writes\n${scene.tail()}` });
  await Promise.all(leaders.map((one) => one.suspend()));
  for (const rule of rules) rule.clear();
  await lead(standbys);
  await scene.arrived(tenant, made, { a: 'new' });
  await arrives({ a: 'second' });
  await scene.made(direct, { a: 'second' });
  // The suspended leaders only know older versions. So if they wrote, the objects would show it.
  await scene.change(scene.tenantApi, object, { a: 'third' });
  await scene.change(scene.managementApi, direct, { a: 'third' });
  await arrives({ a: 'third' });
  await scene.made(direct, { a: 'third' });
  // Waits until the new leaders have done their last writes.
  await scene.phase(made, 'Synced');
  await scene.phase(direct, 'Synced', { api: scene.managementApi });

  const later = scene.requests(tenant).fromNow();
  for (const one of leaders) one.resume();
  for (const one of leaders) {
    assert.equal((await one.ended()).code, 1, one.output);
    assert.match(one.output, /lost leadership/);
  }
  const late = later()
    .filter(isWork)
    .map((entry) => `${lineOf(entry)}: ${entry.code}`);
  assert.deepEqual(late, [], `no write after the Lease was lost\n${scene.tail()}`);
  await scene.arrived(tenant, object, { a: 'third' });
});
