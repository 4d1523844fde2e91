/** Of two replicas, only one works, and it never works while the other one may hold the Lease. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';

import type { Keyferry } from '../support/keyferry.ts';
import { staysTrue, waitFor } from '../support/wait-for.ts';
import { within } from '../support/yardstick.ts';
import { kubernetesFault } from '../servers/fault-rules.ts';
import { FaultScene } from './scene.ts';

/** The Lease. It is in the namespace of the kubeconfig's context. */
const LEASE = '/apis/coordination.k8s.io/v1/namespaces/default/leases/keyferry';

let scene: FaultScene;
let leader: Keyferry;
let standby: Keyferry;

before(async () => {
  scene = await FaultScene.open({ keyferryArgs: ['--leader-elect'] });
  leader = await scene.operator();
  await waitFor(() => isLeading(leader));
  standby = await scene.operator();
  await standby.ready();
  await scene.converged();
});
beforeEach(async () => {
  if (!leader.running) leader = await scene.operator();
  if (!standby.running) standby = await scene.operator();
  await Promise.all([leader.ready(), standby.ready()]);
  await waitFor(async () => (await isLeading(leader)) || (await isLeading(standby)), { message: 'one to lead' });
  if (await isLeading(standby)) [leader, standby] = [standby, leader];
});
after(async () => {
  await scene.close();
});

const isLeading = async (keyferry: Keyferry): Promise<boolean> => (await keyferry.metric('keyferry_leader')) === 1;
const writesOf = async (keyferry: Keyferry): Promise<number> => (await keyferry.metric('keyferry_writes_total')) ?? 0;

test('a standby has read all objects into its caches, but writes nothing', async () => {
  const from = await scene.caughtUp();
  await scene.changeSources();
  await scene.converged();
  await scene.assertWrites(from, 1);
  assert.equal(await writesOf(standby), 0);
  assert.equal(await standby.isReady(), true);
  assert.match(standby.output, /caches are synced/);
  assert.ok(((await leader.metric('keyferry_writes_total')) ?? 0) >= 50);
});

test('after the leader was stopped with SIGTERM, the standby leads within 3 s, and repeats no write', async (t) => {
  const from = performance.now();
  await within(3000, 'the takeover', async () => {
    assert.equal((await leader.stop()).code, 0);
    await scene.changeSources();
    await waitFor(() => isLeading(standby));
  });
  t.diagnostic(`took over after ${Math.round(performance.now() - from)} ms`);
  await scene.converged();
  await scene.assertWrites(from, 1);
});

test('after the leader was killed with SIGKILL, the standby leads within 20 s', async (t) => {
  const from = performance.now();
  await within(20_000, 'the takeover', async () => {
    await leader.kill9();
    await scene.changeSources();
    await waitFor(() => isLeading(standby));
  });
  t.diagnostic(`took over after ${Math.round(performance.now() - from)} ms`);
  await scene.converged();
  await scene.assertWrites(from, 1);
});

test('if a leader is suspended until its Lease has expired, it writes nothing when it is resumed', async (t) => {
  await leader.suspend();
  const from = performance.now();
  await waitFor(() => isLeading(standby));
  t.diagnostic(`the other took over after ${Math.round(performance.now() - from)} ms`);
  await scene.changeSources();
  await scene.converged();
  // The suspended leader only knows older versions of the copies. So if it wrote, the copies would show it.
  await scene.changeSources();
  leader.resume();
  await scene.converged();
  const ending = await leader.ended();
  assert.equal(ending.code, 1);
  assert.match(leader.output, /lost leadership/);
  await scene.assertWrites(from, 2);
  const woke = leader.logs().filter(({ msg }) => msg === 'updated' || msg === 'created');
  assert.equal(woke.filter(({ time }) => Date.parse(time) > Date.now() - (performance.now() - from)).length, 0);
});

test("if a leader's requests get 429 for 20 s, it keeps its Lease", async () => {
  const holder = (await scene.api.get(LEASE)).spec.holderIdentity;
  const rule = scene.proxy.rule({
    match: ({ path, isWatch }) => !path.includes('/leases/') && !isWatch,
    fault: kubernetesFault(429, 20),
  });
  await scene.changeSources();
  await waitFor(() => rule.hits > 0);
  await staysTrue(() => isLeading(leader), 14_000, 'it leads');
  rule.clear();
  assert.equal((await scene.api.get(LEASE)).spec.holderIdentity, holder);
  await scene.converged(15_000);
});
