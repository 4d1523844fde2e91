import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Pending } from './pending.ts';

test('a state that is not final is written if it lasts', () => {
  const pending = new Pending();
  assert.equal(pending.waitMs('a', true, 1000), 1500);
  assert.equal(pending.waitMs('a', true, 2000), 500);
  assert.equal(pending.waitMs('a', true, 2500), 0);
  pending.done('a', 2600);
  assert.equal(pending.waitMs('a', false, 10_000), 1500, 'a later one counts anew');
});

test('a rule waits for its turn while others get done, but not for ever, and not if something is wrong', () => {
  const pending = new Pending();
  pending.waitMs('a', true, 0);
  pending.waitMs('b', true, 0);
  pending.done('b', 1000);
  assert.equal(pending.waitMs('a', true, 2000), 3000);
  assert.equal(pending.waitMs('a', false, 2000), 0);
  assert.equal(pending.waitMs('a', true, 4500), 0, 'nothing was done for a while');
  pending.waitMs('c', true, 14_000);
  pending.done('c', 14_900);
  assert.ok(pending.waitMs('a', true, 14_950) > 0);
  assert.equal(pending.waitMs('a', true, 15_000), 0);
});

test('a rule that was done before it was pending is no sign of progress', () => {
  const pending = new Pending();
  pending.waitMs('a', true, 0);
  pending.done('settled', 2000);
  assert.equal(pending.waitMs('a', true, 2500), 0);
});
