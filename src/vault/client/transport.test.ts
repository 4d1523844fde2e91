import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';

import { LargeAnswers, largeAnswerSlots } from './transport.ts';

const never = new AbortController().signal;

describe('large answers', () => {
  it('at most four large answers are read at a time, at most two of them from servers that never finished a large answer', async () => {
    const slots = largeAnswerSlots();
    const proven = new LargeAnswers(slots);
    (await proven.begin(never)).end(true);
    const held = [];
    for (let i = 0; i < 2; i++) held.push(await new LargeAnswers(slots).begin(never));
    void new LargeAnswers(slots).begin(never);
    for (let i = 0; i < 2; i++) held.push(await proven.begin(never));
    void proven.begin(never);
    await setImmediate();
    assert.deepEqual([slots.all.taken, slots.all.waiting], [4, 1]);
    assert.deepEqual([slots.unproven.taken, slots.unproven.waiting], [2, 1]);
  });

  it('a server that stalls again and again must finish 1, 2, 4, then 8 large answers promptly to be proven again', async () => {
    const slots = largeAnswerSlots();
    const server = new LargeAnswers(slots);
    const needed: number[] = [];
    for (let round = 0; round < 4; round++) {
      for (let finished = 0; ; finished++) {
        const answer = await server.begin(never);
        const isProven = slots.unproven.taken === 0;
        answer.end(!isProven);
        if (!isProven) continue;
        needed.push(finished);
        break;
      }
    }
    assert.deepEqual(needed, [1, 2, 4, 8]);
  });

  it('the large answer of a new server is read before the large answer of a server that was slow', async (t) => {
    const slots = largeAnswerSlots();
    const now = t.mock.method(performance, 'now', () => 0);
    const slow = new LargeAnswers(slots);
    const first = await slow.begin(never);
    now.mock.mockImplementation(() => 5000);
    first.end(false);
    const held = [await new LargeAnswers(slots).begin(never), await new LargeAnswers(slots).begin(never)];
    const order: string[] = [];
    const waits = [slow, new LargeAnswers(slots)].map(async (server, index) => {
      const answer = await server.begin(never);
      order.push(index === 0 ? 'slow' : 'new');
      answer.end(true);
    });
    held[0]?.end(true);
    await Promise.all(waits);
    assert.deepEqual(order, ['new', 'slow']);
  });
});
