import assert from 'node:assert/strict';
import { test } from 'node:test';

import { userCause } from '../../../copy/model/cause.ts';
import { PENDING, LeaveShape } from '../../../copy/model/claim.ts';
import type { Entry } from '../../../copy/book/claim-book.ts';
import { Deletions, type DeletionStep } from './finalizer.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';

const RULE: RuleKey = asKey('test:default/x');
const LIMIT_MS = 60_000;
const MINUTES_10 = 10 * 60_000;
/** Time of the monotonic clock when the process first sees the deletion, ms. */
const SEEN = 12_345;
const active = { name: 'x', uid: 'u', resourceVersion: '1', creationTimestamp: '' };

/** A claim whose target is not released. */
const REMAINING: Entry = {
  target: asKey('c:Secret/team/x'),
  claim: {
    owner: { key: RULE, title: 'Test default/x', rank: '' },
    mode: 'release',
    source: undefined,
    shape: new LeaveShape(userCause('Reason', 'message')),
  },
  outcome: PENDING,
};

/** The deletion of one rule, seen by a process whose clock is `now`. */
class Scene {
  now = SEEN;
  readonly #deletions = new Deletions({ monotonic: () => this.now }, LIMIT_MS);

  /** @param skewMs how far the server's clock is ahead of the clock of this process, ms */
  step({ remaining = [REMAINING], skewMs = 0, uid = 'u', mayBecomeOrphan = true } = {}): DeletionStep {
    const deletionTimestamp = new Date(Date.now() + skewMs).toISOString();
    const metadata = { ...active, uid, deletionTimestamp };
    return this.#deletions.step(RULE, { metadata }, remaining, () => mayBecomeOrphan);
  }

  release(): DeletionStep {
    return this.#deletions.step(RULE, { metadata: active }, [REMAINING]);
  }
}

test('a rule that is being deleted waits for its targets until the time limit, even if the clock of the server is 10 minutes off', () => {
  for (const skewMs of [0, MINUTES_10, -MINUTES_10]) {
    const scene = new Scene();
    const step = (): DeletionStep => scene.step({ skewMs });
    assert.deepEqual(step(), { isDone: false, isTimedOut: false, remainingMs: LIMIT_MS });
    scene.now += LIMIT_MS - 1;
    assert.deepEqual(step(), { isDone: false, isTimedOut: false, remainingMs: 1 });
    assert.deepEqual(scene.step({ skewMs, remaining: [] }), { isDone: true, isTimedOut: false, remainingMs: 1 });
    scene.now += 1;
    assert.deepEqual(step(), { isDone: true, isTimedOut: true, remainingMs: 0 });
    const waits = scene.step({ skewMs, mayBecomeOrphan: false });
    assert.deepEqual(waits, { isDone: false, isTimedOut: false, remainingMs: 0 });
  }
});

test('after the time limit, a rule still waits if one of its targets must not become an orphan', () => {
  let now = SEEN;
  const deletions = new Deletions({ monotonic: () => now }, LIMIT_MS);
  const metadata = { ...active, deletionTimestamp: new Date().toISOString() };
  const kept: Entry = { ...REMAINING };
  const step = (remaining: readonly Entry[]): DeletionStep =>
    deletions.step(RULE, { metadata }, remaining, (entry) => entry !== kept);
  step([REMAINING, kept]);
  now += LIMIT_MS;
  assert.deepEqual(step([REMAINING, kept]), { isDone: false, isTimedOut: false, remainingMs: 0 });
  assert.deepEqual(step([REMAINING]), { isDone: true, isTimedOut: true, remainingMs: 0 });
});

test('if a rule is deleted, recreated with the same name and deleted again, the time limit begins again', () => {
  const scene = new Scene();
  scene.step();
  scene.now += LIMIT_MS;
  assert.equal(scene.step({ uid: 'other' }).remainingMs, LIMIT_MS);
});

test('an active rule that releases its copies waits without a time limit', () => {
  const scene = new Scene();
  for (let round = 0; round < 3; round += 1) {
    assert.deepEqual(scene.release(), { isDone: false, isTimedOut: false, remainingMs: LIMIT_MS });
    scene.now += LIMIT_MS;
  }
  assert.equal(scene.step().remainingMs, LIMIT_MS, 'the limit begins with the deletion');
});
