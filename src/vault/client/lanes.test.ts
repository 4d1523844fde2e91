import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ManualClock } from '../../../test/support/manual-clock.ts';
import { Lane, lanes } from './lanes.ts';

const clock = new ManualClock();

test('if an identity calls 1,000 mounts, the lanes of mounts that are used often are kept, and the oldest are forgotten', () => {
  const laneOf = lanes(clock);
  const inUse = laneOf('secret');
  const first = laneOf('mount-0');
  for (let index = 1; index < 1000; index += 1) {
    laneOf(`mount-${index}`);
    assert.equal(laneOf('secret'), inUse);
  }
  assert.equal(laneOf('mount-999'), laneOf('mount-999'));
  assert.notEqual(laneOf('mount-0'), first);
});

test('after two failures in a row a lane pauses, then one call at a time tries; pauses grow to 5 s, and an answer ends them', async () => {
  const lane = new Lane(clock);
  const refusal = (): Lane['refusal'] => lane.refusal;
  lane.failed('a');
  lane.answered();
  lane.failed('a');
  assert.equal(refusal(), undefined);
  // Calls that fail together begin one pause.
  for (let call = 0; call < 5; call += 1) lane.failed('b');
  for (const seconds of [1, 2, 4, 5, 5]) {
    const paused = refusal();
    const waitMs = paused?.retryAfterMs ?? 0;
    assert.equal(paused?.reason, 'not sent, after b');
    assert.ok(waitMs >= seconds * 500 && waitMs <= seconds * 1000, `${waitMs} ms`);
    await clock.advance(seconds * 1000);
    await lane.run(async () => {
      assert.equal(refusal()?.retryAfterMs, 1000);
      await Promise.resolve();
    });
    assert.equal(refusal(), undefined);
    lane.failed('b');
  }
  lane.answered();
  assert.equal(refusal(), undefined);
});
