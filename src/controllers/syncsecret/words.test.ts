/** Which parts of a failure, and of a status in the management cluster, a tenant can read. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from 'fast-check';

import { because, type Cause, userCause } from '../../copy/model/cause.ts';
import { SYNCED } from '../../copy/model/claim.ts';
import type { SyncSecretStatus } from './api.ts';
import { tenantState } from './words.ts';

test('if the message of a failure is public, the tenant reads message and reason; if it is internal, only its public text', () => {
  const read = (cause: Cause): unknown => {
    const result = { failure: undefined, outcome: { state: 'error', ...cause } } as const;
    const { reason, message } = tenantState(result, undefined, undefined);
    return [reason, message];
  };
  assert.deepEqual(read(userCause('TooLarge', 'too much')), ['TooLarge', 'failed to copy SyncSecret: too much']);
  const internal = because('Forbidden', 'policy internal', 'a policy');
  assert.deepEqual(read(internal), ['SyncFailed', 'failed to copy SyncSecret: a policy']);
});

test('any status of a copy becomes a phase and a short printable condition that the API accepts', () => {
  const text = fc.string({ unit: 'binary', maxLength: 2000 });
  const condition = fc.record({
    type: fc.constant('Synced'),
    status: fc.constantFrom('True' as const, 'False' as const, 'Unknown' as const),
    lastTransitionTime: text,
    reason: text,
    message: text,
  });
  const status: fc.Arbitrary<SyncSecretStatus> = fc.record(
    {
      observedGeneration: fc.oneof(fc.constant(3), fc.maxSafeInteger(), fc.double()),
      phase: fc.oneof(fc.constantFrom('Synced', 'Failed', 'Pending', 'Terminating'), text),
      conditions: fc.array(condition, { maxLength: 2 }),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(status, (remote) => {
      const copy = { generation: 3, status: remote };
      const state = tenantState({ outcome: SYNCED, failure: undefined }, undefined, copy);
      const expected = remote.observedGeneration === 3 ? remote.phase : undefined;
      assert.equal(state.phase, expected === 'Synced' || expected === 'Failed' ? expected : 'Pending');
      assert.equal(state.status, state.phase === 'Synced' ? 'True' : 'False');
      assert.match(state.reason, /^[A-Za-z][A-Za-z0-9]{0,63}$/);
      assert.ok(state.message.length <= 512);
      assert.doesNotMatch(state.message, /[\p{Cc}\p{Cf}\u2028\u2029]/u);
    }),
  );
});
