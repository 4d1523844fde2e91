import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Pending } from './pending.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import { asKey, asKeys } from '../../../test/support/keys.ts';

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

test('while 10,000 rules are completed one after the other, no state of a waiting rule is written', () => {
  const pending = new Pending();
  const rules = Array.from({ length: 10_000 }, (_, index) => asKey<RuleKey>(`r${index}`));
  for (const rule of rules) pending.waitMs(rule, true, 0);
  const msEach = 10;
  for (const [index, rule] of rules.entries()) {
    const now = 2000 + index * msEach;
    pending.done(rule, now);
    // The waiting rules are checked again from time to time, as in the status queue.
    if (index % 300 !== 0) continue;
    for (const waiting of rules.slice(index + 1)) assert.equal(pending.waitMs(waiting, true, now), 3000);
  }
});

test('if two rules are stuck while other rules are completed, their states are written one after the other', () => {
  const pending = new Pending();
  const stuck = asKeys<RuleKey>(['stuck', 'stuck too']);
  const written: string[] = [];
  for (const rule of stuck) pending.waitMs(rule, true, 0);
  for (let now = 1500; now <= 45_000; now += 1000) {
    pending.waitMs(asKey(`other ${now}`), true, now);
    pending.done(asKey(`other ${now}`), now);
    for (const rule of stuck)
      if (pending.waitMs(rule, true, now) === 0) written.push(`${rule} ${Math.floor(now / 10_000)}`);
  }
  assert.deepEqual(written, ['stuck 1', 'stuck too 3']);
});

test('if only a rule that never waited is completed, the state of a waiting rule is still written', () => {
  const pending = new Pending();
  pending.waitMs(asKey('a'), true, 0);
  pending.done(asKey('settled'), 2000);
  assert.equal(pending.waitMs(asKey('a'), true, 2500), 0);
});
