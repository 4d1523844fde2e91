import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';

import { ManualClock } from '../../../test/support/manual-clock.ts';
import { Liveness } from './liveness.ts';

const never = new AbortController().signal;

/** A server whose health checks the test answers, at once or by `reply`. */
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
  it('Liveness sends one check for concurrent failures, and stays up if the check is answered', async () => {
    const { server, liveness } = setUp(true);
    assert.deepEqual(await Promise.all([liveness.check(), liveness.check(), liveness.check()]), [true, true, true]);
    assert.equal(server.asked, 1);
    assert.equal(await liveness.admit(never), undefined);
  });

  it('Liveness sends no check right after an answer', async () => {
    const { clock, server, liveness } = setUp(true);
    liveness.recordAnswer();
    assert.equal(await liveness.check(), true);
    assert.equal(server.asked, 0);
    await clock.advance(1_000);
    await liveness.check();
    assert.equal(server.asked, 1);
  });

  it('Liveness lets calls wait for the check, and refuses them if it is not answered', async () => {
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

  it('Liveness sends the next check with the first call after a growing wait, and refuses the others meanwhile', async () => {
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

  it('Liveness counts a server as up after any answer, also during a check', async () => {
    const { server, liveness } = setUp('silent');
    const check = liveness.check();
    liveness.recordAnswer();
    assert.equal(await check, true);
    server.reply(false);
    // Until the waiting calls have got the result.
    await setImmediate();
    assert.equal(liveness.state, 'up');
  });

  it("Liveness ends a caller's wait by its signal", async () => {
    const { liveness } = setUp('silent');
    void liveness.check();
    const controller = new AbortController();
    const waiting = liveness.admit(controller.signal);
    controller.abort();
    await assert.rejects(waiting, { name: 'AbortError' });
  });
});
