/** Tests the outcomes of claims on a target, and the worst outcome of a rule. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { userCause } from '../model/cause.ts';
import {
  type ClaimMode,
  type Outcome,
  type OutcomeState,
  PENDING,
  LeaveShape,
  RELEASED,
  SYNCED,
} from '../model/claim.ts';
import { ApiError } from '../../kube/errors.ts';
import type { RuleKey } from '../model/keys.ts';
import type { Entry } from '../book/claim-book.ts';
import type { Facts } from './facts.ts';
import { outcomesOf, shouldGiveUpTakeover, worstOutcome } from './contest.ts';
import { asKey } from '../../../test/support/keys.ts';

const RULE: RuleKey = asKey('mirrors:a/a');
const failed: Outcome = { state: 'error', ...userCause('Forbidden', 'no') };

function entryOf(key: RuleKey, mode: ClaimMode): Entry {
  const owner = { key, title: key, rank: key };
  const shape = new LeaveShape(userCause('Reason', 'message'));
  const claim = { owner, mode, source: undefined, shape };
  return { target: asKey('c:Secret/x/x'), claim, outcome: PENDING };
}

const UNSEEN = { observed: undefined, viewOf: () => ({ state: 'unknown' }) as const, now: 0 };

/** The outcome of a release claim of `RULE`, for these facts about the target and this outcome of its plan. */
function released(
  presence: Facts['presence'],
  markedBy: RuleKey | undefined,
  outcome: Outcome | undefined,
  ...others: readonly Entry[]
): OutcomeState | undefined {
  const release = entryOf(RULE, 'release');
  const contest = { ...UNSEEN, entries: [release, ...others], markedBy };
  const outcomes = new Map(outcomesOf({ ...contest, presence }, outcome));
  return outcomes.get(release)?.state;
}

test("a release claim is done if the target does not exist or lacks the mark of the claim's rule", () => {
  assert.equal(released('absent', undefined, failed), 'released');
  assert.equal(released('present', undefined, failed), 'released');
  assert.equal(released('present', asKey('mirrors:a/b'), failed), 'released');
  assert.equal(released('present', RULE, failed), 'error');
});

test('a release claim is not done if the target could not be read', () => {
  assert.equal(released('unknown', undefined, failed), 'error');
  assert.equal(released('unknown', undefined, undefined), 'released');
});

test('a release claim is done if another rule claims the target', () => {
  assert.equal(released('unknown', undefined, failed, entryOf(asKey('mirrors:a/b'), 'own')), 'released');
});

test('a failed takeover is given up at once after a permanent error, but after a transient one only when it was reported', () => {
  const isGivenUp = (error: unknown, outcome: Outcome): boolean => {
    const entries = [Object.assign(entryOf(asKey('mirrors:a/b'), 'own'), { outcome })];
    return shouldGiveUpTakeover(error, { ...UNSEEN, entries, markedBy: RULE });
  };
  const call = { cluster: 'c', method: 'PATCH', path: '/' };
  const [refused, unavailable] = [422, 503].map(
    (status) => new ApiError(call, status, { reason: '', message: '', causes: [] }),
  );
  assert.equal(isGivenUp(refused, PENDING), true);
  assert.equal(isGivenUp(unavailable, PENDING), false);
  assert.equal(isGivenUp(unavailable, WAITS), false);
  assert.equal(isGivenUp(unavailable, failed), true);
});

const worst = (...outcomes: Outcome[]): string | undefined =>
  worstOutcome(outcomes.map((outcome) => Object.assign(entryOf(RULE, 'own'), { outcome })))?.reason;

const CONFLICT: Outcome = { state: 'conflict', ...userCause('Conflict', '') };
const WAITS: Outcome = { state: 'waiting', for: 'source', ...userCause('NoSecret', '') };
const LOOKS: Outcome = { state: 'waiting', for: 'watch', ...userCause('Unknown', '') };

test('worstOutcome() prefers a failure to a conflict, a conflict to a wait for a source, and this wait to unfinished work', () => {
  assert.equal(worst(SYNCED, LOOKS, WAITS, CONFLICT, failed), 'Forbidden');
  assert.equal(worst(failed, CONFLICT, WAITS, LOOKS, SYNCED), 'Forbidden');
  assert.equal(worst(SYNCED, WAITS, CONFLICT), 'Conflict');
  assert.equal(worst(LOOKS, WAITS, SYNCED), 'NoSecret');
  assert.equal(worst(SYNCED, LOOKS), 'Pending');
  assert.equal(worst(PENDING, SYNCED), 'Pending');
});

test('a rule is ready if it has no claims, or if all its claims are done', () => {
  assert.equal(worst(), undefined);
  assert.equal(worst(SYNCED, RELEASED), undefined);
});
