/** How many mounts of one identity are remembered. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ManualClock } from '../runtime/manual-clock.ts';
import { Parties, Party, serverSlots } from './parties.ts';

test('mounts that users name over and over are not all remembered, and those in use are', () => {
  let made = 0;
  const slots = serverSlots(4);
  const parties = new Parties(() => {
    made += 1;
    return new Party(slots, { clock: new ManualClock() });
  });
  const inUse = parties.of('secret');
  const first = parties.of('mount-0');
  for (let index = 1; index < 1000; index += 1) {
    parties.of(`mount-${index}`);
    assert.equal(parties.of('secret'), inUse);
  }
  assert.equal(made, 1001);
  assert.equal(parties.of('mount-999'), parties.of('mount-999'));
  assert.equal(made, 1001);
  assert.notEqual(parties.of('mount-0'), first);
});
