import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../../../../test/support/manual-clock.ts';
import { PendingWrites } from './pending-writes.ts';

function setUp() {
  const clock = new ManualClock();
  const said: string[] = [];
  const pendingWrites = new PendingWrites({
    clock,
    onLate: (sinceMs) => said.push(`late ${sinceMs}`),
    onGivenUp: (key) => said.push(`given up ${key}`),
  });
  return { clock, said, pendingWrites };
}

test('a write that a watch brings in time is not reported as late, and leaves no timer', async () => {
  const { clock, said, pendingWrites } = setUp();
  pendingWrites.expect('a');
  await clock.advance(4000);
  pendingWrites.arrived('a');
  await clock.advance(60_000);
  assert.deepEqual(said, []);
  assert.equal(clock.pendingTimers, 0);
});

test('a write that no watch brings is reported as late one time, and is then given up', async () => {
  const { clock, said, pendingWrites } = setUp();
  pendingWrites.expect('a');
  await clock.advance(3000);
  pendingWrites.expect('b');
  await clock.advance(60_000);
  assert.deepEqual(said, ['late 5000', 'late 5000', 'given up a', 'given up b']);
  assert.equal(clock.pendingTimers, 0);
});

test('if the same object is written again, the time until the write counts as late starts again', async () => {
  const { clock, said, pendingWrites } = setUp();
  pendingWrites.expect('a');
  await clock.advance(4000);
  pendingWrites.expect('a');
  await clock.advance(4000);
  assert.deepEqual(said, []);
  await clock.advance(1000);
  assert.deepEqual(said, ['late 5000']);
  pendingWrites.stop();
  assert.equal(clock.pendingTimers, 0);
});
