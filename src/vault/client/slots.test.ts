import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { AbortedError } from '../../runtime/abort.ts';
import { Slots } from './slots.ts';

const never = new AbortController().signal;

describe('Slots', () => {
  it('admits up to the limit, then in order of arrival', async () => {
    const slots = new Slots(2);
    const [first, second] = [await slots.take(never), await slots.take(never)];
    const order: number[] = [];
    const waits = [1, 2].map(async (n) => {
      const slot = await slots.take(never);
      order.push(n);
      slot[Symbol.dispose]();
    });
    assert.deepEqual([slots.taken, slots.waiting, order.length], [2, 2, 0]);
    first[Symbol.dispose]();
    first[Symbol.dispose]();
    await Promise.all(waits);
    assert.deepEqual([order, slots.taken, slots.waiting], [[1, 2], 1, 0]);
    second[Symbol.dispose]();
    assert.equal(slots.taken, 0);
  });

  it('drops a waiter that aborts', async () => {
    const slots = new Slots(1);
    const held = await slots.take(never);
    const controller = new AbortController();
    const waiting = slots.take(controller.signal);
    controller.abort();
    await assert.rejects(waiting, AbortedError);
    assert.equal(slots.waiting, 0);
    held[Symbol.dispose]();
    assert.equal(slots.taken, 0);
    await assert.rejects(slots.take(AbortSignal.abort()), AbortedError);
  });

  it('refuses an invalid limit', () => {
    assert.throws(() => new Slots(0), /limit.*0/);
  });
});
