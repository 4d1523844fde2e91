/** What a tenant may read of failures in the management cluster, and what its cluster takes over from there. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from 'fast-check';

import { SYNCED } from '../../copy/model/claim.ts';
import { failureOf } from '../../copy/model/failure.ts';
import { ApiError } from '../../kube/errors.ts';
import type { SyncSecretStatus } from './api.ts';
import { publicMessage, tenantState } from './status.ts';

/** Names that no tenant may learn. */
const INTERNAL = /internal/i;
const CALL = { cluster: 'management', method: 'POST', path: '/api/v1/namespaces/tenant-a/secrets' };

/** What the API server answers, and what a tenant reads. */
const ANSWERS: readonly (readonly [status: number, reason: string, message: string, read: string])[] = [
  [
    403,
    'Forbidden',
    'secrets "u" is forbidden: exceeded quota: internal-quota, requested: secrets=1, used: secrets=9, limited: secrets=9',
    'a quota of the namespace is used up',
  ],
  [
    409,
    'Conflict',
    'Operation cannot be fulfilled on resourcequotas "internal-quota": the object has been modified; please apply your changes',
    'an object of another owner is in its place, or it keeps changing',
  ],
  [
    400,
    'BadRequest',
    'admission webhook "deny.internal.example" denied the request: no',
    'an admission policy or webhook refused it',
  ],
  // A webhook chooses the reason.
  [
    409,
    'Conflict',
    'admission webhook "deny.internal.example" denied the request: no',
    'an admission policy or webhook refused it',
  ],
  [
    422,
    'Immutable',
    'admission webhook "deny.internal.example" denied the request: Secret "u" is invalid: x',
    'an admission policy or webhook refused it',
  ],
  [
    422,
    'Invalid',
    `secrets "u" is forbidden: ValidatingAdmissionPolicy 'internal' with binding 'internal' denied request: no`,
    'an admission policy or webhook refused it',
  ],
  [
    500,
    'InternalError',
    'Internal error occurred: failed calling webhook "deny.internal.example": Post "https://internal.internal.svc:443/x": EOF',
    'the API server refused it (InternalError); see the log of the operator',
  ],
  [
    403,
    'Forbidden',
    'secrets is forbidden: User "system:serviceaccount:internal:manager" cannot create resource "secrets" in API group "" in the namespace "tenant-a"',
    'the operator has no permission to create secrets',
  ],
  [
    403,
    'Forbidden',
    'secrets "u" is forbidden: User "system:serviceaccount:internal:manager" cannot delete resource "secrets" in API group "" in the namespace "tenant-a"',
    'the operator has no permission to delete secrets',
  ],
  [
    422,
    'Invalid',
    'Secret "u" is invalid: data[tls.crt]: Required value',
    'Secret "u" is invalid: data[tls.crt]: Required value',
  ],
  [413, 'RequestEntityTooLarge', 'Request entity too large: limit is 3145728', 'it is too large for the cluster'],
  [500, 'Unknown', 'etcdserver: request is too large', 'it is too large for the cluster'],
  [403, 'a reason with internal words', 'x', 'the API server refused it; see the log of the operator'],
];

for (const [status, reason, message, read] of ANSWERS) {
  test(`a tenant reads of the ${status} "${message.slice(0, 60)}": ${read}`, () => {
    const cause = failureOf(new ApiError(CALL, status, { reason, message, causes: [] }));
    assert.equal(publicMessage(cause), read);
    assert.doesNotMatch(publicMessage(cause).replace('InternalError', ''), INTERNAL);
  });
}

test('a tenant reads no address of a server that does not answer', () => {
  const text = publicMessage(failureOf(new Error('POST /api: connect ECONNREFUSED 10.0.0.1:6443')));
  assert.equal(text, 'the API server did not answer');
});

test('a tenant reads our own messages, but those that name a rule of somebody else', () => {
  const own = { reason: 'Conflict', message: 'Secret "u" already exists and is not managed by Keyferry' };
  assert.equal(publicMessage(own), own.message);
  const naming = { reason: 'Conflict', message: 'Secret "u" belongs to mirrors:internal/x', isInternal: true } as const;
  assert.doesNotMatch(publicMessage(naming), INTERNAL);
});

test('property: whatever the status of a copy is, it becomes a phase and a short condition that the API accepts', () => {
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
      const state = tenantState({ outcome: SYNCED, failure: undefined, unreachable: undefined, copy });
      const expected = remote.observedGeneration === 3 ? remote.phase : undefined;
      assert.equal(state.phase, expected === 'Synced' || expected === 'Failed' ? expected : 'Pending');
      assert.equal(state.status, state.phase === 'Synced' ? 'True' : 'False');
      assert.match(state.reason, /^[A-Za-z][A-Za-z0-9]{0,63}$/);
      assert.ok(state.message.length <= 512);
      assert.doesNotMatch(state.message, /[\p{Cc}\p{Cf}\u2028\u2029]/u);
    }),
  );
});
