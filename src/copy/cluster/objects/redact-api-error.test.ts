/** Checks that the removal of secret values from an API error does not change which kind of error it counts as. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { apiErrorOf, ApiError, isImmutable, isNamespaceTerminating } from '../../../kube/errors.ts';
import { Content } from '../../model/content.ts';
import { SECRET } from '../../model/kind.ts';
import { withoutDetails, redactApiError } from './redact-api-error.ts';

const CALL = { cluster: 'c', method: 'PATCH', path: '/x' };
const errorOf = (status: number, more: object): ApiError =>
  apiErrorOf(CALL, status, Buffer.from(JSON.stringify({ kind: 'Status', ...more })), undefined, 0);

function isQuota(error: unknown): boolean {
  return error instanceof ApiError && error.detected.refusal?.by === 'quota';
}

const ANSWERS: readonly (readonly [ApiError, (error: unknown) => boolean])[] = [
  [
    errorOf(422, {
      reason: 'Invalid',
      message: 'Secret "x" is invalid: data: Forbidden: field is immutable when `immutable` is set',
      details: { causes: [{ field: 'data', message: 'Forbidden: field is immutable when `immutable` is set' }] },
    }),
    isImmutable,
  ],
  [
    errorOf(403, {
      reason: 'Forbidden',
      message: 'namespace a: because it is being terminated',
      details: { causes: [{ reason: 'NamespaceTerminating' }] },
    }),
    isNamespaceTerminating,
  ],
  [errorOf(403, { reason: 'Forbidden', message: 'secrets "a" is forbidden: exceeded quota: data' }), isQuota],
];

test('an API error keeps its kind (conflict, forbidden, …), even if secret values equal the words in it that tell the kind', () => {
  const words = ['data', 'immutable', 'terminated', 'because'];
  const data = Object.fromEntries(words.map((word, index) => [`k${index}`, Buffer.from(word).toString('base64')]));
  const content = Content.ofFields(SECRET, { data }, 'Opaque', '1');
  for (const [error, is] of ANSWERS) {
    const redacted = redactApiError(error, SECRET, [content]);
    assert.notEqual(redacted.statusMessage, error.statusMessage);
    assert.ok(is(redacted), `${is.name} of ${redacted.message}`);
  }
});

test('an API error keeps its kind (conflict, forbidden, …) if all its texts are removed', () => {
  for (const [error, is] of ANSWERS) assert.ok(is(withoutDetails(error)), is.name);
});

test('when the texts of an API error are removed, the usual reason of its status stays, and any other reason becomes Unknown', () => {
  assert.equal(withoutDetails(errorOf(403, { reason: 'Forbidden', message: 'no' })).reason, 'Forbidden');
  assert.equal(withoutDetails(errorOf(403, { reason: 'hunter2', message: 'no' })).reason, 'Unknown');
});
