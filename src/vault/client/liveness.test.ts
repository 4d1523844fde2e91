import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';

import { ManualClock } from '../../../test/support/manual-clock.ts';
import { Liveness } from './liveness.ts';

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
  const liveness = new Liveness({ clock, random: () => 0.999, maxMs: 4_000, sendCheck });
  return { clock, server, liveness };
}

describe('Liveness', () => {
  it('if several calls fail at once, Liveness sends one health check; if it is answered, the server stays up', async () => {
    const { server, liveness } = setUp(true);
    assert.deepEqual(await Promise.all([liveness.check(), liveness.check(), liveness.check()]), [true, true, true]);
    assert.equal(server.asked, 1);
    assert.equal(await liveness.admit(never), undefined);
  });

  it('if a call fails within 1 s after an answer, Liveness sends no health check', async () => {
    const { clock, server, liveness } = setUp(true);
    liveness.recordAnswer();
    assert.equal(await liveness.check(), true);
    assert.equal(server.asked, 0);
    await clock.advance(1_000);
    await liveness.check();
    assert.equal(server.asked, 1);
  });

  it('calls wait for the health check that runs; if it fails, Liveness refuses them', async () => {
    const { server, liveness } = setUp('silent');
    const check = liveness.check();
    const waiting = liveness.admit(never);
    assert.equal(liveness.state, 'checking');
    server.reply(false);
    assert.equal(await check, false);
    assert.equal((await waiting)?.because, 'failed');
    assert.equal(await liveness.check(), false);
    assert.equal(server.asked, 1);
  });

  it('while a server is down, the first call after each wait sends a health check and others are refused; waits double', async () => {
    const { clock, server, liveness } = setUp(false);
    await liveness.check();
    const waits: number[] = [];
    for (let round = 2; round <= 5; round++) {
      const refusal = await liveness.admit(never);
      waits.push(Math.round((refusal?.retryAfterMs ?? 0) / 1_000));
      await clock.advance(refusal?.retryAfterMs ?? 0);
      server.alive = 'silent';
      const first = liveness.admit(never);
      assert.equal((await liveness.admit(never))?.because, 'failed');
      assert.equal(server.asked, round);
      server.reply(false);
      await first;
    }
    assert.deepEqual(waits, [1, 2, 4, 4]);
    await clock.advance(4_000);
    server.alive = true;
    assert.equal(await liveness.admit(never), undefined);
    assert.equal(liveness.state, 'up');
  });

  it('if a call is answered while a health check runs, the server is up, and the result of the check is ignored', async () => {
    const { server, liveness } = setUp('silent');
    const check = liveness.check();
    liveness.recordAnswer();
    assert.equal(await check, true);
    server.reply(false);
    // Lets Liveness handle the result of the check.
    await setImmediate();
    assert.equal(liveness.state, 'up');
  });

  it('if the signal of a call is aborted, the call stops waiting for the health check', async () => {
    const { liveness } = setUp('silent');
    void liveness.check();
    const controller = new AbortController();
    const waiting = liveness.admit(controller.signal);
    controller.abort();
    await assert.rejects(waiting, { name: 'AbortError' });
  });
});
