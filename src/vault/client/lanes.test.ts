import assert from 'node:assert/strict';
import { test } from 'node:test';

import { lanes } from './lanes.ts';

test('if an identity calls 1,000 mounts, the lanes of mounts that are used often are kept, and the oldest are forgotten', () => {
  const laneOf = lanes();
  const inUse = laneOf('secret');
  const first = laneOf('mount-0');
  for (let index = 1; index < 1000; index += 1) {
    laneOf(`mount-${index}`);
    assert.equal(laneOf('secret'), inUse);
  }
  assert.equal(laneOf('mount-999'), laneOf('mount-999'));
  assert.notEqual(laneOf('mount-0'), first);
});
