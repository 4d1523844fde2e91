import assert from 'node:assert/strict';
import { test } from 'node:test';

import { userCause } from '../../model/cause.ts';
import { LeaveShape, PENDING, RELEASED, SYNCED } from '../../model/claim.ts';
import type { Entry } from '../../book/claim-book.ts';
import { type Deletion, Deletions } from './deletions.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { RuleKey } from '../../model/keys.ts';

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
  step({ claims = [REMAINING], skewMs = 0, uid = 'u' } = {}): Omit<Deletion, 'remaining'> {
    const deletionTimestamp = new Date(Date.now() + skewMs).toISOString();
    const deletion = this.#deletions.step(RULE, { metadata: { ...active, uid, deletionTimestamp } }, claims);
    assert.ok(deletion !== undefined);
    const { remaining, ...step } = deletion;
    assert.equal(remaining.length === 0, step.isDone && !step.isTimedOut);
    return step;
  }
}

test('a rule that is being deleted waits for its targets until the time limit, even if the clock of the server is 10 minutes off', () => {
  for (const skewMs of [0, MINUTES_10, -MINUTES_10]) {
    const scene = new Scene();
    assert.deepEqual(scene.step({ skewMs }), { isDone: false, isTimedOut: false, remainingMs: LIMIT_MS });
    scene.now += LIMIT_MS - 1;
    assert.deepEqual(scene.step({ skewMs }), { isDone: false, isTimedOut: false, remainingMs: 1 });
    assert.deepEqual(scene.step({ skewMs, claims: [] }), { isDone: true, isTimedOut: false, remainingMs: 1 });
    scene.now += 1;
    assert.deepEqual(scene.step({ skewMs }), { isDone: true, isTimedOut: true, remainingMs: 0 });
  }
});

test('a target is released when it is gone; a copy that stays, when it is marked so, without a time limit', () => {
  const kept = (outcome: Entry['outcome']): Entry => ({
    ...REMAINING,
    claim: { ...REMAINING.claim, mode: 'own' },
    outcome,
  });
  const error = { state: 'error', ...userCause('Forbidden', 'no') } as const;
  const conflict = { state: 'conflict', ...userCause('NotOwned', 'of another') } as const;
  const isDone = (entry: Entry, waitedMs = 0): boolean => {
    const scene = new Scene();
    scene.step({ claims: [entry] });
    scene.now += waitedMs;
    return scene.step({ claims: [entry] }).isDone;
  };
  assert.equal(isDone({ ...REMAINING, outcome: RELEASED }), true);
  for (const outcome of [PENDING, error, conflict, SYNCED]) {
    assert.equal(isDone({ ...REMAINING, outcome }), false, outcome.state);
    assert.equal(isDone({ ...REMAINING, outcome }, LIMIT_MS), true, outcome.state);
  }
  for (const outcome of [SYNCED, conflict]) assert.equal(isDone(kept(outcome)), true, outcome.state);
  // It would be an orphan without the mark, and be deleted.
  for (const outcome of [PENDING, error]) assert.equal(isDone(kept(outcome), LIMIT_MS), false, outcome.state);
});

test('if a rule is deleted, recreated with the same name and deleted again, the time limit begins again', () => {
  const scene = new Scene();
  scene.step();
  scene.now += LIMIT_MS;
  assert.equal(scene.step({ uid: 'other' }).remainingMs, LIMIT_MS);
});
