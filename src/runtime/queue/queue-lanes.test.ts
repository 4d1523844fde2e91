import assert from 'node:assert/strict';
import { test } from 'node:test';

import { fixRandom } from '../../../test/support/fixed-random.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { QueueLanes } from './queue-lanes.ts';

test('if there are many lanes, unused lanes are removed; lanes with a failed or delayed key stay', async () => {
  const clock = new ManualClock();
  fixRandom(0);
  const worked: string[] = [];
  const lanes = new QueueLanes({ name: 'lanes', clock, onError: () => undefined });
  lanes.start(async (key) => {
    worked.push(key);
    if (key === 'fails') throw new Error('no');
    return await Promise.resolve(key === 'polled' ? { requeueAfterMs: 60_000 } : undefined);
  });
  const all: Promise<void>[] = [];
  for (const key of ['fails', 'polled']) {
    lanes.of(key).add(key);
    all.push(lanes.of(key).idle());
  }
  for (let n = 0; n < 20_000; n += 1) {
    const queue = lanes.of(`server-${n}`);
    queue.add('key');
    await queue.idle();
  }
  await Promise.all(all);
  assert.equal(worked.length, 20_002);
  assert.ok(lanes.all.length <= 130, `${lanes.all.length} lanes`);
  const names = new Set(lanes.all.map(({ name }) => name));
  assert.ok(names.has('lanes fails') && names.has('lanes polled'));
  await lanes.stop();
});
