import assert from 'node:assert/strict';
import { test } from 'node:test';

import { nextCondition, sameConditions } from './rule-statuses.ts';

const THEN = '2026-11-21T10:00:00Z';
const NOW = Date.parse('2026-11-21T11:00:00Z');
const BEFORE = { type: 'Ready', status: 'False', lastTransitionTime: THEN, reason: 'A', message: 'a' } as const;

test('lastTransitionTime of a condition changes only if the status of the condition changes', () => {
  const other = { type: 'Ready', status: 'False', reason: 'B', message: 'b' } as const;
  assert.deepEqual(nextCondition(BEFORE, other, 3, NOW), { ...BEFORE, ...other, observedGeneration: 3 });
  const changed = { type: 'Ready', status: 'True', reason: 'B', message: 'b' } as const;
  const time = { lastTransitionTime: '2026-11-21T11:00:00Z' };
  assert.deepEqual(nextCondition(BEFORE, changed, undefined, NOW), { ...changed, ...time });
  assert.deepEqual(nextCondition(undefined, other, undefined, NOW), { ...other, ...time });
});

test('a message of a condition above the limit is shortened; a character that is cut in half becomes U+FFFD', () => {
  const messageOf = (message: string, max?: number): string =>
    nextCondition(undefined, { ...BEFORE, message }, 1, NOW, max).message;
  assert.equal(messageOf('abcd', 4), 'abcd');
  assert.equal(messageOf('abcde', 4), 'abc…');
  assert.equal(messageOf('ab\u{1f511}cd', 4), 'ab\ufffd…');
  assert.equal(messageOf('x'.repeat(40_000)).length, 32_768);
});

test('sameConditions is true if conditions differ only in lastTransitionTime or in the order of their fields', () => {
  const { reason, ...rest } = BEFORE;
  assert.ok(sameConditions([BEFORE], [{ reason, ...rest, lastTransitionTime: 'now' }]));
  assert.ok(sameConditions(undefined, []));
  for (const other of [
    { status: 'True' },
    { reason: 'B' },
    { message: 'b' },
    { observedGeneration: 1 },
    { type: 'X' },
  ] as const) {
    assert.ok(!sameConditions([BEFORE], [{ ...BEFORE, ...other }]));
  }
  assert.ok(!sameConditions([BEFORE], [BEFORE, BEFORE]));
});
