import assert from 'node:assert/strict';
import { it } from 'node:test';

import { userCause } from '../model/cause.ts';
import { LeaveShape } from '../model/leave-shape.ts';
import { type Outcome, PENDING, RELEASED, SYNCED } from '../model/claim.ts';
import type { Entry } from '../book/claim-book.ts';
import { worstOutcome } from './worst-outcome.ts';
import { asKey } from '../../../test/support/keys.ts';

const claim: Entry['claim'] = {
  owner: { key: asKey('rules:a/b'), title: '', rank: '' },
  target: asKey('c:Secret/a/b'),
  mode: 'own',
  source: undefined,
  shape: new LeaveShape(userCause('', '')),
};
const worst = (...outcomes: Outcome[]): string | undefined =>
  worstOutcome(outcomes.map((outcome) => ({ claim, outcome })))?.reason;

const FAILED: Outcome = { state: 'error', ...userCause('Forbidden', '') };
const CONFLICT: Outcome = { state: 'conflict', ...userCause('Conflict', '') };
const WAITS: Outcome = { state: 'waiting', for: 'source', ...userCause('NoSecret', '') };
const LOOKS: Outcome = { state: 'waiting', for: 'watch', ...userCause('Unknown', '') };

it('a failure counts more than a conflict, than waiting, than work under way', () => {
  assert.equal(worst(SYNCED, LOOKS, WAITS, CONFLICT, FAILED), 'Forbidden');
  assert.equal(worst(FAILED, CONFLICT, WAITS, LOOKS, SYNCED), 'Forbidden');
  assert.equal(worst(SYNCED, WAITS, CONFLICT), 'Conflict');
  assert.equal(worst(LOOKS, WAITS, SYNCED), 'NoSecret');
  assert.equal(worst(SYNCED, LOOKS), 'Pending');
  assert.equal(worst(PENDING, SYNCED), 'Pending');
});

it('a rule without claims, or with all of them done, is ready', () => {
  assert.equal(worst(), undefined);
  assert.equal(worst(SYNCED, RELEASED), undefined);
});
