/** The operator's watches break, expire, become silent (half-open: no events arrive), or get invalid data. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';

import { kubernetesFault } from '../servers/fault-rules.ts';
import { waitFor } from '../support/wait-for.ts';
import { CONTROLLERS } from './controllers.ts';
import { FaultScene } from './scene.ts';

const WATCHING = { isWatch: true };
/** If a watch is broken for longer than this (ms), Keyferry is not ready. On a busy machine, this happens here, too. */
const SHORT_GAP_MS = 3000;
/** Idle timeout of watches, ms. The default is 90 s, because servers send a bookmark every minute. */
const IDLE_MS = 4000;
const COPY = '/api/v1/namespaces/team-3/secrets/source-1';

/**
 * Checks that each copy was written one time. The copy that the test deletes may have three writes: an update, the
 * deletion and a creation.
 */
async function assertNothingTwice(scene: FaultScene, from: number): Promise<void> {
  const writes = await scene.writesSince(from);
  writes.forEach((n, key) => assert.ok(n === 1 || (key === 'team-3/source-1' && n <= 3), `${key}: ${n}`));
}

/** Answers the next watches that continue from a version with a 410. */
const expire = (scene: FaultScene, times: number) =>
  scene.proxy.rule({
    match: ({ isWatch, query }) => isWatch && query.has('resourceVersion'),
    fault: kubernetesFault(410),
    times,
  });

for (const controller of CONTROLLERS) {
  describe(controller.name, () => {
    let scene: FaultScene;
    before(async () => {
      scene = await FaultScene.open({ controller });
    });
    after(() => scene.close());

    test(`${controller.name}: while one watch or all watches are broken, the operator copies every change`, async (t) => {
      const { probes } = await scene.restart();
      let longestMs = 0;
      for (const match of [{ isWatch: true, path: controller.copyWatch }, WATCHING]) {
        await scene.watchesOpen();
        const from = performance.now();
        assert.ok(scene.proxy.cutAll(match) >= 1);
        await scene.changeSources();
        await scene.api.delete(COPY);
        t.diagnostic(`right after ${Math.round(await scene.converged())} ms`);
        await scene.watchesOpen();
        longestMs = Math.max(longestMs, performance.now() - from);
        await assertNothingTwice(scene, from);
      }
      assert.ok(!probes.wasUnready(0) || longestMs > SHORT_GAP_MS, 'a short gap does not make the operator unready');
    });

    test(`${controller.name}: after watches get 410, the operator lists again, and notices that a copy and a rule were deleted meanwhile`, async (t) => {
      const { probes } = await scene.restart();
      const from = await scene.caughtUp();
      const gone = expire(scene, 3);
      scene.proxy.cutAll(WATCHING);
      await controller.drop(scene, 0);
      await scene.api.delete(COPY);
      await scene.dropped(0);
      t.diagnostic(`no copy of the rule after ${Math.round(performance.now() - from)} ms`);
      await controller.restore(scene, 0);
      await scene.changeSources();
      await scene.converged();
      await waitFor(() => gone.hits === 3);
      await scene.watchesOpen();
      const writes = await scene.writesSince(from);
      writes.forEach((n, key) => assert.ok(n <= 3, `${key}: ${n}`));
      await probes.ready(200);
    });

    test(`${controller.name}: if watches are half-open, the operator opens new ones, and /readyz fails until these bring events`, async (t) => {
      const { probes } = await scene.restart(`--watch-idle-timeout=${IDLE_MS}ms`);
      const from = performance.now();
      scene.proxy.rule({ match: WATCHING, fault: { kind: 'stall' } });
      assert.ok(scene.proxy.stallAll(WATCHING) > 0);
      await scene.changeSources();
      t.diagnostic(`unready after ${Math.round(await probes.ready(503))} ms`);
      assert.ok((await scene.missing()).length > 0);
      // The new watches stay silent, too, and must be replaced by others.
      scene.proxy.clearRules();
      t.diagnostic(`right after ${Math.round(await scene.converged(IDLE_MS + 4000))} ms`);
      await scene.assertWrites(from, 1);
      await scene.watchesOpen();
      await probes.ready(200);
    });

    test(`${controller.name}: a half-open watch of copies is noticed long before the idle timeout, because events of own writes are missing`, async (t) => {
      await scene.restart();
      const from = performance.now();
      assert.equal(scene.proxy.stallAll({ isWatch: true, path: controller.copyWatch }), 1);
      await scene.changeSources();
      await scene.converged();
      await scene.api.delete(COPY);
      t.diagnostic(`right after ${Math.round(await scene.converged())} ms`);
      await assertNothingTwice(scene, from);
    });

    test(`${controller.name}: after a truncated list and truncated lines of watches, the operator brings all copies up to date`, async (t) => {
      const { probes } = await scene.restart();
      const from = performance.now();
      expire(scene, controller.watches);
      const cut = scene.proxy.rule({
        match: { isWatch: true, path: /sendInitialEvents/ },
        fault: { kind: 'truncate', lines: 3 },
        times: controller.watches,
      });
      scene.proxy.truncateAll(WATCHING);
      await scene.changeSources();
      t.diagnostic(`right after ${Math.round(await scene.converged())} ms`);
      await scene.watchesOpen();
      // The replicator has watches that see no change, so the rule for its lists may not be used.
      if (controller.name === 'mirrors') assert.ok(cut.hits > 0);
      await scene.assertWrites(from, 1);
      scene.proxy.clearRules();
      await probes.ready(200);
    });
  });
}

describe('one operator', () => {
  let scene: FaultScene;
  before(async () => {
    scene = await FaultScene.open();
  });
  after(() => scene.close());

  test('after 40 broken watches, the operator uses hardly more memory and file descriptors than before', async (t) => {
    const { keyferry, probes } = await scene.restart();
    const descriptors = async (): Promise<number> => (await readdir(`/proc/${keyferry.pid}/fd`)).length;
    const before = { ...(await keyferry.memory()), descriptors: await descriptors() };
    let cuts = 0;
    while (cuts < 40) {
      await waitFor(() => scene.proxy.live(WATCHING).length > 0, { intervalMs: 5 });
      cuts += scene.proxy.cutAll(WATCHING);
    }
    await scene.watchesOpen();
    await probes.ready(200);
    const afterwards = { ...(await keyferry.memory()), descriptors: await descriptors() };
    t.diagnostic(
      `private ${before.private >> 10} → ${afterwards.private >> 10} KiB, descriptors ${before.descriptors} → ${afterwards.descriptors}`,
    );
    assert.ok(afterwards.private < before.private + 8 * 1024 * 1024);
    assert.ok(afterwards.descriptors <= before.descriptors + 2);
  });
});
