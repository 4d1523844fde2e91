import assert from 'node:assert/strict';
import { test } from 'node:test';

import { PENDING } from '../../copy/model/claim.ts';
import { LeaveShape } from '../../copy/model/leave-shape.ts';
import type { Entry } from '../../copy/plan/claim-book.ts';
import { deletionStep } from './deletion.ts';

const LIMIT_MS = 60_000;
const END = Date.parse('2026-11-21T10:01:00Z');
const object = { name: 'x', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
const deleted = { metadata: { ...object, deletionTimestamp: '2026-11-21T10:00:00Z' } };

/** A claim whose target is not released. */
const REMAINING: Entry = {
  claim: {
    owner: { key: 'test:default/x', title: 'Test default/x', rank: '' },
    target: 'c:Secret/team/x',
    mode: 'release',
    source: undefined,
    shape: new LeaveShape('Reason', 'message'),
  },
  outcome: PENDING,
};

test('a rule that is being deleted waits for its targets until the time limit', () => {
  const over = { isDone: true, isTimedOut: true, remainingMs: 0 };
  assert.deepEqual(deletionStep(deleted, [], LIMIT_MS, END - 1), { isDone: true, isTimedOut: false, remainingMs: 1 });
  assert.deepEqual(deletionStep(deleted, [], LIMIT_MS, END), { ...over, isTimedOut: false });
  assert.deepEqual(deletionStep(deleted, [REMAINING], LIMIT_MS, END - 1), {
    isDone: false,
    isTimedOut: false,
    remainingMs: 1,
  });
  assert.deepEqual(deletionStep(deleted, [REMAINING], LIMIT_MS, END), over);
  const waits = deletionStep(deleted, [REMAINING], LIMIT_MS, END, () => false);
  assert.deepEqual(waits, { ...over, isDone: false, isTimedOut: false });
});

test('an object that is released without being deleted waits without a limit', () => {
  const step = deletionStep({ metadata: object }, [REMAINING], LIMIT_MS, END);
  assert.deepEqual(step, { isDone: false, isTimedOut: false, remainingMs: LIMIT_MS });
});
