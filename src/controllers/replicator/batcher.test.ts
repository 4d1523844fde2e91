import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { Batcher } from './batcher.ts';

test('handles a single item at once and the items of a burst together, each once', async () => {
  const clock = new ManualClock();
  const handled: string[] = [];
  const bursts = new Batcher<string>(clock, 100, (item) => handled.push(item));
  bursts.add(['a', 'b']);
  assert.deepEqual(handled.splice(0), ['a', 'b']);
  for (let event = 0; event < 50; event += 1) bursts.add(['b', 'c']);
  assert.deepEqual(handled, []);
  await clock.advance(100);
  assert.deepEqual(handled.splice(0), ['b', 'c']);
  bursts.add(['a']);
  assert.deepEqual(handled, []);
  await clock.advance(100);
  assert.deepEqual(handled.splice(0), ['a']);
  await clock.advance(100);
  bursts.add(['d']);
  assert.deepEqual(handled.splice(0), ['d']);
  bursts.add(['e']);
  bursts.stop();
  await clock.advance(1000);
  bursts.add(['f']);
  assert.deepEqual(handled, []);
});
