/** The API server restarts, or etcd is down for some time. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';

import type { ProbeLog } from './probe-log.ts';
import { FaultScene } from './scene.ts';

const ETCD_DOWN_MS = 60_000;

let scene: FaultScene;
let probes: ProbeLog;

before(async () => {
  scene = await FaultScene.open({ own: true });
});
beforeEach(async () => {
  ({ probes } = await scene.restart());
});
after(async () => {
  await scene.close();
});

const until = async (at: number): Promise<void> => {
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, at - performance.now())));
};

for (const graceful of [true, false]) {
  test(`after the API server was ${graceful ? 'stopped' : 'killed'} and down for 8 s, the operator brings all copies up to date`, async (t) => {
    const from = performance.now();
    await (graceful ? scene.plane.servers.stopApiServer() : scene.plane.servers.killApiServer());
    t.diagnostic(`unready after ${Math.round(await probes.ready(503))} ms`);
    await until(from + 8000);
    const busiest = scene.busiestSecond(from);
    await scene.plane.servers.startApiServer();
    await scene.changeSources();
    await scene.api.delete('/api/v1/namespaces/team-1/secrets/source-1');
    t.diagnostic(`right after ${Math.round(await scene.converged())} ms; busiest second ${busiest}`);
    assert.ok(busiest <= 20, `${busiest} requests in one second`);
    const writes = await scene.writesSince(from);
    writes.forEach((n, key) => assert.ok(n === 1 || (key === 'team-1/source-1' && n <= 3), `${key}: ${n}`));
    await probes.ready(200);
  });
}

test(`after etcd was down for ${ETCD_DOWN_MS / 1000} s, the operator brings all copies up to date`, async (t) => {
  const from = performance.now();
  await scene.plane.servers.killEtcd();
  await until(from + ETCD_DOWN_MS);
  const busiest = scene.busiestSecond(from + 1000);
  const wasUnready = probes.wasUnready(from);
  await scene.plane.servers.startEtcd();
  await scene.plane.servers.apiServerReady();
  await scene.changeSources();
  t.diagnostic(
    `right after ${Math.round(await scene.converged())} ms; busiest second ${busiest}; unready meanwhile: ${wasUnready}`,
  );
  assert.ok(busiest <= 20, `${busiest} requests in one second`);
  await scene.assertWrites(from, 1);
  await probes.ready(200);
});
