import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Pending } from './pending.ts';
import { asKey } from '../../../test/support/keys.ts';

test('a state that is not final is written when it has lasted 1.5 s', () => {
  const pending = new Pending();
  assert.equal(pending.waitMs(asKey('a'), true, 1000), 1500);
  assert.equal(pending.waitMs(asKey('a'), true, 2000), 500);
  assert.equal(pending.waitMs(asKey('a'), true, 2500), 0);
  pending.done(asKey('a'), 2600);
  assert.equal(pending.waitMs(asKey('a'), false, 10_000), 1500, 'the time of a later state begins anew');
});

test('while other rules are completed, the state of a waiting rule is written only if a problem is known', () => {
  const pending = new Pending();
  pending.waitMs(asKey('a'), true, 0);
  pending.waitMs(asKey('b'), true, 0);
  pending.done(asKey('b'), 1000);
  assert.equal(pending.waitMs(asKey('a'), true, 2000), 3000);
  assert.equal(pending.waitMs(asKey('a'), false, 2000), 0);
  assert.equal(pending.waitMs(asKey('a'), true, 4500), 0, 'nothing was done for a while');
});

test('while other rules are completed, the state of a stuck rule is written after a minute', () => {
  const pending = new Pending();
  let writtenAt = 0;
  for (let now = 0; writtenAt === 0 && now < 100_000; now += 1000) {
    pending.waitMs(asKey(`other ${now}`), true, now);
    pending.done(asKey(`other ${now}`), now);
    if (pending.waitMs(asKey('stuck'), true, now) === 0) writtenAt = now;
  }
  assert.equal(writtenAt, 60_000);
});

test('if only a rule that never waited is completed, the state of a waiting rule is still written', () => {
  const pending = new Pending();
  pending.waitMs(asKey('a'), true, 0);
  pending.done(asKey('settled'), 2000);
  assert.equal(pending.waitMs(asKey('a'), true, 2500), 0);
});
