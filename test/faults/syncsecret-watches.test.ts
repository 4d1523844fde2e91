/** SyncSecret: on every connection of CCM and manager, watches break, expire or become silent, or writes get 429. */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, it } from 'node:test';

import { isWrite, lineOf } from '../scenarios/syncsecret/requests.ts';
import { secretPath, syncSecretPath, SyncSecretScene } from '../scenarios/syncsecret/support.ts';
import type { Chain } from '../scenarios/syncsecret/support.ts';
import type { FaultProxy } from '../servers/fault-proxy.ts';
import { kubernetesFault, type FaultRule } from '../servers/fault-rules.ts';
import type { Json } from '../support/api.ts';
import type { Keyferry } from '../support/keyferry.ts';
import type { Tenant } from '../support/sync-secret-clusters.ts';
import { waitFor } from '../support/wait-for.ts';

const WATCHES = { isWatch: true };
const NAMESPACE = 'watched';
/** Idle timeout of watches in this test. The default is 90 s, because servers send a bookmark every minute. */
const IDLE = '--watch-idle-timeout=2s';

let scene: SyncSecretScene;
let tenant: Tenant;
let ccm: Keyferry;
let proxies: readonly FaultProxy[];
let object: Json;
let chain: Chain;

before(async () => {
  scene = await SyncSecretScene.open();
  await scene.namespaces(NAMESPACE);
  tenant = await scene.tenant();
  const { link, tenantProxy, managerProxy } = scene.clusters;
  proxies = [link, tenantProxy, managerProxy];
});
beforeEach(async () => {
  [ccm] = await Promise.all([scene.ccm(tenant, { args: [IDLE] }), scene.manager({ args: [IDLE] })]);
  object = await scene.create(NAMESPACE, 'one', { a: 'first' });
  chain = await scene.arrived(tenant, object, { a: 'first' });
  await scene.phase(object, 'Synced');
  await waitFor(() => proxies.every((proxy) => proxy.live(WATCHES).length > 0), { message: 'the watches' });
});
afterEach(() => scene.clear());
after(() => scene.close());

/**
 * Calls `fault`, then changes a SyncSecret, creates another one, and deletes a Secret. Calls `end`, and checks that all
 * objects are right and that nothing was created or deleted twice.
 */
async function survives(fault: () => void, end: () => Promise<unknown>): Promise<void> {
  const later = scene.requests(tenant).fromNow();
  fault();
  await scene.managementApi.delete(secretPath(tenant.namespace, chain.secret.metadata.name));
  const made = await scene.create(NAMESPACE, 'two', { a: 'new' });
  await scene.change(scene.tenantApi, object, { a: 'second' });
  await end();
  for (const [one, value] of [
    [object, 'second'],
    [made, 'new'],
  ]) {
    await scene.arrived(tenant, one, { a: value });
    await scene.phase(one, 'Synced');
  }
  const deleted = await scene.arrived(tenant, object, { a: 'second' });
  await scene.tenantApi.delete(syncSecretPath(NAMESPACE, 'one'));
  await scene.gone(scene.tenantApi, object);
  await scene.gone(scene.managementApi, deleted.copy, deleted.secret);
  const counts = new Map<string, number>();
  for (const entry of later()) {
    const isContent = entry.verb === 'create' || entry.verb === 'delete';
    if (isContent && isWrite(entry) && entry.code < 300)
      counts.set(lineOf(entry), (counts.get(lineOf(entry)) ?? 0) + 1);
  }
  assert.deepEqual(
    [...counts].filter(([, count]) => count > 1),
    [],
    'nothing is made or deleted twice',
  );
}

function everywhere(rule: FaultRule): () => Promise<void> {
  const rules = proxies.map((proxy) => proxy.rule(rule));
  return async () => {
    await waitFor(() => rules.every(({ hits }) => hits > 0), { message: () => `the faults\n${scene.tail()}` });
    for (const one of rules) one.clear();
  };
}

it('after watches get 410, CCM and manager list again, and notice all changes since then', async () => {
  let end: (() => Promise<void>) | undefined;
  await survives(
    () => {
      const expires: FaultRule['match'] = ({ isWatch, query }) => isWatch && query.has('resourceVersion');
      end = everywhere({ match: expires, fault: kubernetesFault(410), times: 2 });
      for (const proxy of proxies) assert.ok(proxy.cutAll(WATCHES) > 0);
    },
    async () => await end?.(),
  );
});

it('after writes get 429, CCM and manager wait as long as Retry-After says, and then do all their work', async () => {
  let end: (() => Promise<void>) | undefined;
  await survives(
    () => {
      const isWork: FaultRule['match'] = ({ method, path }) => method !== 'GET' && !path.includes('/events');
      end = everywhere({ match: isWork, fault: kubernetesFault(429, 1), times: 2 });
    },
    async () => await end?.(),
  );
});

it('CCM and manager replace silent watches, and the CCM stays ready if the management cluster is silent', async () => {
  await survives(
    () => {
      for (const proxy of proxies) assert.ok(proxy.stallAll(WATCHES) > 0);
    },
    () => Promise.resolve(),
  );
  const { link } = scene.clusters;
  link.rule({ match: WATCHES, fault: { kind: 'stall' } });
  assert.ok(link.stallAll(WATCHES) > 0);
  const other = await scene.create(NAMESPACE, 'three', { a: 'silent' });
  await waitFor(async () => (await ccm.metric('kubelb_ccm_kubelb_cluster_connected')) === 0, {
    message: 'the CCM to notice',
  });
  assert.ok(await ccm.isReady());
  link.clearRules();
  link.cutAll(WATCHES);
  await scene.arrived(tenant, other, { a: 'silent' });
  await scene.phase(other, 'Synced');
});
