/** Half-open watches: the connection stays open, but no events arrive. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';

import { waitFor } from '../support/wait-for.ts';
import type { ProbeLog } from './probe-log.ts';
import { FaultScene } from './scene.ts';

const WATCHES = { isWatch: true };
const COPIES_WATCH = { isWatch: true, path: /labelSelector=keyferry/ };
/** Idle timeout of watches in this test, ms. The default is 90 s, because servers send a bookmark every minute. */
const IDLE_MS = 4000;

let scene: FaultScene;
let probes: ProbeLog;

before(async () => {
  scene = await FaultScene.open();
});
beforeEach(async () => {
  ({ probes } = await scene.restart(`--watch-idle-timeout=${IDLE_MS}ms`));
});
after(async () => {
  await scene.close();
});

async function watchesOpen(): Promise<void> {
  await waitFor(() => scene.proxy.live(WATCHES).filter(({ status }) => status === 200).length === 8, {
    message: 'eight open watches',
  });
}

test('if no events arrive on half-open watches, the operator notices it and /readyz fails', async (t) => {
  const from = performance.now();
  scene.proxy.rule({ match: WATCHES, fault: { kind: 'stall' } });
  assert.ok(scene.proxy.stallAll(WATCHES) > 0);
  await scene.changeSources();
  t.diagnostic(`unready after ${Math.round(await probes.ready(503))} ms`);
  assert.ok((await scene.missing()).length > 0);
  scene.proxy.clearRules();
  scene.proxy.cutAll(WATCHES);
  t.diagnostic(`right after ${Math.round(await scene.converged())} ms`);
  await scene.assertWrites(from, 1);
  await probes.ready(200);
});

test('if watches stay half-open, the operator opens new watches', async (t) => {
  const from = performance.now();
  assert.ok(scene.proxy.stallAll(WATCHES) > 0);
  await scene.changeSources();
  const tookMs = await scene.converged(IDLE_MS + 4000);
  t.diagnostic(`right after ${Math.round(tookMs)} ms, of which ${IDLE_MS} are the limit of silence`);
  await scene.assertWrites(from, 1);
  await watchesOpen();
});

test('the operator notices a half-open watch of copies long before the idle timeout, because events of its own writes are missing', async (t) => {
  ({ probes } = await scene.restart());
  const from = performance.now();
  assert.equal(scene.proxy.stallAll(COPIES_WATCH), 1);
  await scene.changeSources();
  await scene.converged();
  await scene.api.delete('/api/v1/namespaces/team-3/secrets/source-1');
  t.diagnostic(`right after ${Math.round(await scene.converged())} ms`);
  const writes = await scene.writesSince(from);
  writes.forEach((n, key) => assert.equal(n, key === 'team-3/source-1' ? 3 : 1, key));
});
