/** Tests the outcomes of claims on a target, and the worst outcome of a rule. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';

import { userCause } from '../model/cause.ts';
import {
  type ClaimMode,
  type Outcome,
  type OutcomeState,
  PENDING,
  LeaveShape,
  RELEASED,
  type Shape,
  SYNCED,
} from '../model/claim.ts';
import { ApiError } from '../../kube/errors.ts';
import type { RuleKey } from '../model/keys.ts';
import type { Entry } from '../book/claim-book.ts';
import type { Contest, Facts } from './facts.ts';
import { fillerOf, outcomesOf, partnersOf, shouldGiveUpTakeover, worstOutcome } from './contest.ts';
import { asKey } from '../../../test/support/keys.ts';
import { observedObject } from '../../../test/support/observed-object.ts';

const RULE: RuleKey = asKey('mirrors:a/a');
const failed: Outcome = { state: 'error', ...userCause('Forbidden', 'no') };

function entryOf(key: RuleKey, mode: ClaimMode): Entry {
  const owner = { key, title: key, rank: key };
  const shape = new LeaveShape(userCause('Reason', 'message'));
  const claim = { owner, mode, source: undefined, shape };
  return { target: asKey('c:Secret/x/x'), claim, outcome: PENDING };
}

const UNSEEN = { leftBy: [], observed: undefined, viewOf: () => ({ state: 'unknown' }) as const, now: 0 };

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

describe('claims of several controllers with one source', () => {
  const observed = observedObject({ annotations: { version: '1' } });
  const copying = (more: Partial<Shape> = {}): Shape => ({
    id: 'copy',
    desiredState: () => ({ kind: 'be', labels: {}, annotations: {}, bookkeeping: {}, data: 'source' }),
    heldVersion: () => undefined,
    ...more,
  });
  const of = (rule: string, mode: ClaimMode, source: string, shape = copying()): Entry => {
    const key = asKey<RuleKey>(rule);
    return {
      target: asKey('t'),
      claim: { owner: { key, title: rule, rank: rule }, mode, source: asKey(source), shape },
      outcome: PENDING,
    };
  };
  const contestOf = (entries: readonly Entry[]): Contest => ({
    entries,
    markedBy: entries[0]?.claim.owner.key,
    leftBy: [],
    observed,
    viewOf: () => ({ state: 'present', version: '1', labels: {}, annotations: {} }),
    now: 0,
  });
  const outcomes = (entries: readonly Entry[]): OutcomeState[] =>
    Array.from(outcomesOf({ ...contestOf(entries), presence: 'present' }, undefined), ([, { state }]) => state);

  it('claims of other controllers that copy the same whole source are partners, one of each controller', () => {
    const first = of('a:x', 'own', 's');
    const typed = copying({
      desiredState: () => ({ kind: 'be', labels: {}, annotations: {}, bookkeeping: {}, data: 'source', type: 'other' }),
    });
    const entries = [
      first,
      of('a:y', 'own', 's'),
      of('c:z', 'own', 's'),
      of('c:y', 'own', 's'),
      of('d:x', 'own', 'other'),
      of('e:x', 'own', 's', new LeaveShape(userCause('Reason', 'message'))),
      of('f:x', 'own', 's', typed),
      of('g:x', 'fill', 's'),
    ];
    const partners = partnersOf(contestOf(entries), first.claim).map(({ entry }) => entry.claim.owner.key);
    assert.deepEqual(partners, ['c:y']);
    assert.deepEqual(outcomes(entries), [
      'synced',
      'conflict',
      'conflict',
      'synced',
      'conflict',
      'conflict',
      'conflict',
      'synced',
    ]);
  });

  it('of claims that fill from different sources, the one whose version the target has keeps it; others say why not', () => {
    const holding = copying({ heldVersion: ({ annotations }) => annotations['version'] });
    const entries = [
      of('a:x', 'fill', 's'),
      of('b:x', 'fill', 'other', holding),
      of('c:x', 'fill', 's', new LeaveShape(userCause('Reason', 'message'))),
      of('d:x', 'fill', 'other'),
    ];
    assert.equal(fillerOf(contestOf(entries)), entries[1]);
    assert.deepEqual(outcomes(entries), ['conflict', 'synced', 'error', 'synced']);
    assert.equal(fillerOf(contestOf(entries.slice(2))), entries[3]);
    assert.equal(fillerOf(contestOf(entries.slice(2, 3))), entries[2]);
    assert.equal(fillerOf(contestOf([])), undefined);
  });
});
