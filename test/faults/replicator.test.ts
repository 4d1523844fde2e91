/**
 * The replicator watches whole kinds. These watches break, become silent or expire, or the server is gone. One test has
 * two replicas of the replicator.
 */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';

import { kubernetesFault } from '../servers/fault-rules.ts';
import type { Keyferry } from '../support/keyferry.ts';
import { waitFor } from '../support/wait-for.ts';
import type { ProbeLog } from './probe-log.ts';
import { FaultScene } from './scene.ts';
import { REPLICATING } from './controllers.ts';

const WATCHING = { isWatch: true };
const SECRETS_WATCH = { isWatch: true, path: '/api/v1/secrets' };
const COPY = '/api/v1/namespaces/team-3/secrets/source-1';
const IDLE_MS = 4000;

/**
 * Checks that each copy was written one time. The copy that the test deletes may have three writes: an update, the
 * deletion and a creation.
 */
async function assertNothingTwice(scene: FaultScene, from: number): Promise<void> {
  const writes = await scene.writesSince(from);
  writes.forEach((n, key) => assert.ok(n === 1 || (key === 'team-3/source-1' && n <= 3), `${key}: ${n}`));
}

describe('one replicator', () => {
  let scene: FaultScene;
  let probes: ProbeLog;
  before(async () => {
    scene = await FaultScene.open({ controller: REPLICATING, own: true });
  });
  beforeEach(async () => {
    ({ probes } = await scene.restart());
  });
  after(() => scene.close());

  test('while one of its watches or all are broken, the replicator copies every change and restores a deleted copy', async (t) => {
    for (const match of [SECRETS_WATCH, WATCHING]) {
      await scene.watchesOpen();
      const from = performance.now();
      assert.ok(scene.proxy.cutAll(match) >= 1);
      await scene.changeSources();
      await scene.api.delete(COPY);
      t.diagnostic(`right after ${Math.round(await scene.converged())} ms`);
      await assertNothingTwice(scene, from);
    }
  });

  test('the replicator notices a half-open watch because no events arrive, and writes each copy one time', async (t) => {
    ({ probes } = await scene.restart(`--watch-idle-timeout=${IDLE_MS}ms`));
    const from = performance.now();
    assert.ok(scene.proxy.stallAll(WATCHING) > 0);
    await scene.changeSources();
    t.diagnostic(`right after ${Math.round(await scene.converged(IDLE_MS + 4000))} ms`);
    await scene.assertWrites(from, 1);
    await scene.watchesOpen();
    await probes.ready(200);
  });

  test('after a watch gets 410, the replicator lists again, and notices that a copy and a rule were deleted meanwhile', async (t) => {
    const from = performance.now();
    const gone = scene.proxy.rule({
      match: ({ isWatch, query }) => isWatch && query.has('resourceVersion'),
      fault: kubernetesFault(410),
      times: 3,
    });
    await scene.api.create({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: {
        name: 'passing',
        namespace: 'default',
        annotations: { 'k8s-replicator/replicate-to': 'team-0/passing' },
      },
    });
    const passing = '/api/v1/namespaces/team-0/secrets/passing';
    await waitFor(async () => (await scene.api.find(passing)) !== undefined, { message: 'the copy of the fourth' });
    scene.proxy.cutAll(WATCHING);
    await scene.api.delete('/api/v1/namespaces/default/secrets/passing');
    await scene.api.delete(COPY);
    await scene.changeSources();
    t.diagnostic(`right after ${Math.round(await scene.converged())} ms`);
    await waitFor(async () => (await scene.api.find(passing)) === undefined);
    await waitFor(() => gone.hits === 3);
    await scene.watchesOpen();
    const writes = await scene.writesSince(from);
    assert.equal(writes.get('team-0/passing'), 2);
    await probes.ready(200);
  });

  test('after the API server was killed and down for 5 s, the replicator copies again', async (t) => {
    const from = performance.now();
    await scene.plane.servers.killApiServer();
    t.diagnostic(`unready after ${Math.round(await probes.ready(503))} ms`);
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, from + 5000 - performance.now())));
    const busiest = scene.busiestSecond(from);
    await scene.plane.servers.startApiServer();
    await scene.changeSources();
    await scene.api.delete(COPY);
    t.diagnostic(`right after ${Math.round(await scene.converged())} ms; busiest second ${busiest}`);
    assert.ok(busiest <= 20, `${busiest} requests in one second`);
    await assertNothingTwice(scene, from);
    await probes.ready(200);
  });
});

test('of two replicators only one works; after it is killed with SIGKILL, the other one works and repeats no write', async (t) => {
  await using scene = await FaultScene.open({ controller: REPLICATING, keyferryArgs: ['--leader-elect'] });
  const isLeading = async (one: Keyferry): Promise<boolean> => (await one.metric('keyferry_leader')) === 1;
  const leader = await scene.operator();
  await waitFor(() => isLeading(leader));
  const standby = await scene.operator();
  await standby.ready();
  await scene.converged();
  const from = await scene.caughtUp();
  await scene.changeSources();
  await scene.converged();
  await scene.assertWrites(from, 1);
  assert.equal((await standby.metric('keyferry_writes_total')) ?? 0, 0);
  const killed = performance.now();
  await leader.kill9();
  await scene.changeSources();
  await waitFor(() => isLeading(standby));
  t.diagnostic(`took over after ${Math.round(performance.now() - killed)} ms`);
  await scene.converged();
  await scene.assertWrites(killed, 1);
});
