import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';

import { ManualClock } from '../../../test/support/manual-clock.ts';
import { Health } from './health.ts';

const never = new AbortController().signal;

/**
 * Makes a server that answers health checks with its field `alive`, at the beginning `first`. If `alive` is 'silent',
 * the server answers only when the test calls `reply`.
 */
function setUp(first: boolean | 'silent') {
  const clock = new ManualClock();
  const server = { alive: first, asked: 0, reply: (_alive: boolean): void => undefined };
  const sendCheck = async (): Promise<boolean> => {
    server.asked++;
    if (server.alive !== 'silent') return await Promise.resolve(server.alive);
    return await new Promise<boolean>((resolve) => (server.reply = resolve));
  };
  const health = new Health({ clock, random: () => 0.999, maxMs: 4_000, sendCheck });
  return { clock, server, health };
}

describe('Health', () => {
  it('if several calls fail at once, Health sends one health check; if it is answered, the server stays up', async () => {
    const { server, health } = setUp(true);
    await Promise.all([health.check(), health.check(), health.check()]);
    assert.deepEqual([server.asked, health.state], [1, 'up']);
    assert.equal(await health.admit(never), undefined);
  });

  it('calls wait for the health check that runs; if it fails, Health refuses them', async () => {
    const { server, health } = setUp('silent');
    const check = health.check();
    const waiting = health.admit(never);
    assert.equal(health.state, 'checking');
    server.reply(false);
    await check;
    assert.ok(((await waiting) ?? 0) > 0);
    await health.check();
    assert.deepEqual([server.asked, health.state], [1, 'down']);
  });

  it('while a server is down, the first call after each wait sends a health check for which others wait; waits double', async () => {
    const { clock, server, health } = setUp(false);
    await health.check();
    const waits: number[] = [];
    for (let round = 2; round <= 5; round++) {
      const waitMs = (await health.admit(never)) ?? 0;
      waits.push(Math.round(waitMs / 1_000));
      await clock.advance(waitMs);
      server.alive = 'silent';
      const first = health.admit(never);
      const other = health.admit(never);
      assert.equal(server.asked, round);
      server.reply(false);
      assert.equal(await first, await other);
    }
    assert.deepEqual(waits, [1, 2, 4, 4]);
    await clock.advance(4_000);
    server.alive = true;
    assert.equal(await health.admit(never), undefined);
    assert.equal(health.state, 'up');
  });

  it('if a call is answered while a health check runs, the server is up, and the result of the check is ignored', async () => {
    const { server, health } = setUp('silent');
    const check = health.check();
    health.recordAnswer();
    await check;
    assert.equal(health.state, 'up');
    server.reply(false);
    // Lets Health handle the result of the check.
    await setImmediate();
    assert.equal(health.state, 'up');
  });

  it('if the signal of a call is aborted, the call stops waiting for the health check', async () => {
    const { health } = setUp('silent');
    void health.check();
    const controller = new AbortController();
    const waiting = health.admit(controller.signal);
    controller.abort();
    await assert.rejects(waiting, { name: 'AbortError' });
  });
});
