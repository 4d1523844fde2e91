import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type ApiError,
  apiErrorOf,
  ConnectionError,
  CredentialError,
  isAlreadyExists,
  isConflict,
  isForbidden,
  isImmutable,
  isGone,
  isInvalid,
  isNamespaceTerminating,
  isNotFound,
  isObjectGone,
  isServerFailure,
  isThrottled,
  isUnauthorized,
  parseStatus,
  toConnectionError,
} from './errors.ts';

const CALL = { cluster: 'local', method: 'POST', path: '/api/v1/namespaces/a/secrets' };
const NOW = Date.UTC(2026, 0, 1);

function errorOf(code: number, status: object, retryAfter?: string): ApiError {
  const body = Buffer.from(JSON.stringify({ kind: 'Status', apiVersion: 'v1', code, ...status }));
  return apiErrorOf(CALL, code, body, retryAfter, NOW);
}

describe('an answer becomes an error', () => {
  test('the error of an answer has the message and causes of the Status, and names the call', () => {
    const causes = [{ reason: 'FieldValueRequired', message: 'Required value', field: 'metadata.name' }];
    const error = errorOf(422, { reason: 'Invalid', message: 'Secret "" is invalid', details: { causes } });
    assert.equal(error.message, 'POST /api/v1/namespaces/a/secrets: 422 Invalid: Secret "" is invalid');
    assert.deepEqual(error.causes, causes);
    assert.ok(isInvalid(error));
  });

  test('if an answer is not a Status, its error does not quote it', () => {
    for (const body of ['<html>s3cret</html>', '{"kind":"Secret","data":{"a":"s3cret"}}', '{"kind":"Status"', '']) {
      const error = apiErrorOf(CALL, 502, Buffer.from(body), undefined, NOW);
      assert.doesNotMatch(error.message, /s3cret/u);
      assert.equal(error.reason, 'Unknown');
    }
    assert.equal(apiErrorOf(CALL, 404, Buffer.alloc(0), undefined, NOW).reason, 'NotFound');
  });

  test('the error of an answer leaves out the parts in which servers quote the request', () => {
    const quotations = [
      'Secret in version "v1" cannot be handled: error decoding from json: illegal base64 data at input byte 0, error found in #10 byte of ...|"s3cret"}|..., bigger context ...|{"data":{"x":"s3cret"}}|...',
      'failed to create typed patch object: .data.x: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"s3cret":1}}',
    ];
    for (const message of quotations) {
      const error = errorOf(400, { reason: 'BadRequest', message, details: { causes: [{ message }] } });
      assert.doesNotMatch(JSON.stringify([error, error.message, error.stack]), /s3cret/u);
    }
    assert.ok(errorOf(400, { message: 'x'.repeat(100_000) }).message.length < 1200);
  });

  test('the error of an answer has the Retry-After of the header or of the details in the Status', () => {
    assert.equal(errorOf(429, { reason: 'TooManyRequests' }, '3').retryAfterMs, 3000);
    assert.equal(errorOf(429, { details: { retryAfterSeconds: 2 } }).retryAfterMs, 2000);
    assert.equal(errorOf(503, {}, new Date(NOW + 5000).toUTCString()).retryAfterMs, 5000);
    assert.equal(errorOf(503, {}).retryAfterMs, undefined);
    assert.equal(errorOf(503, {}, 'soon').retryAfterMs, undefined);
    assert.equal(errorOf(503, {}, 'Thu, 01 Jan 1970 00:00:00 GMT').retryAfterMs, 0);
  });

  test('the error of an answer limits Retry-After to a minute', () => {
    assert.equal(errorOf(503, {}, '31536000').retryAfterMs, 60_000);
    assert.equal(errorOf(429, { details: { retryAfterSeconds: 1e308 } }).retryAfterMs, 60_000);
  });
});

const DENIED = 'admission webhook "x.example.com" denied the request: secrets "a" not found';
const DENIED_BY_POLICY =
  "secrets \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no";

test('each function such as isNotFound recognizes its own kind of API error and no other kind', () => {
  const terminating = {
    reason: 'Forbidden',
    message: 'secrets "x" is forbidden: unable to create new content in namespace a because it is being terminated',
    details: { causes: [{ reason: 'NamespaceTerminating', field: 'metadata.namespace' }] },
  };
  const immutable = (field: string) => ({ details: { causes: [{ field, message: 'Forbidden: field is immutable' }] } });
  const table: readonly [ApiError, readonly ((error: unknown) => boolean)[]][] = [
    [errorOf(404, { reason: 'NotFound' }), [isNotFound]],
    [errorOf(409, { reason: 'Conflict' }), [isConflict]],
    [errorOf(409, { reason: 'AlreadyExists' }), [isAlreadyExists]],
    [errorOf(410, { reason: 'Expired' }), [isGone]],
    [errorOf(410, { reason: 'Gone' }), [isGone]],
    [errorOf(401, {}), [isUnauthorized]],
    [errorOf(403, { reason: 'Forbidden' }), [isForbidden]],
    [errorOf(403, terminating), [isForbidden, isNamespaceTerminating]],
    [
      errorOf(403, { details: { causes: [{ reason: 'NamespaceTerminating' }] } }),
      [isForbidden, isNamespaceTerminating],
    ],
    [errorOf(422, immutable('data')), [isInvalid, isImmutable]],
    [errorOf(422, immutable('type')), [isInvalid, isImmutable]],
    [errorOf(422, immutable('metadata.name')), [isInvalid]],
    [errorOf(422, { details: { causes: [{ field: 'data', message: 'too long' }] } }), [isInvalid]],
    [errorOf(500, { message: 'etcdserver: request is too large' }), [isServerFailure]],
    [errorOf(429, {}), [isThrottled, isServerFailure]],
    [errorOf(503, {}), [isServerFailure]],
    [errorOf(409, { reason: 'Conflict', message: DENIED }), [isForbidden]],
    [errorOf(404, { reason: 'NotFound', message: DENIED }), [isForbidden]],
    [errorOf(429, { message: DENIED, details: { retryAfterSeconds: 2 } }), [isForbidden]],
    [errorOf(403, { reason: 'Conflict', message: DENIED }), [isForbidden]],
    [errorOf(422, { reason: 'Invalid', message: DENIED }), [isInvalid]],
    [errorOf(401, { reason: 'Unauthorized', message: DENIED_BY_POLICY }), [isForbidden]],
  ];
  const all = [
    isNotFound,
    isConflict,
    isAlreadyExists,
    isGone,
    isUnauthorized,
    isForbidden,
    isNamespaceTerminating,
    isServerFailure,
    isThrottled,
    isInvalid,
    isImmutable,
  ];
  for (const [error, expected] of table) {
    for (const is of all) assert.equal(is(error), expected.includes(is), `${is.name} of ${error.message}`);
  }
  for (const is of all) assert.equal(is(new ConnectionError('ECONNRESET', 'x')), false);
});

test('parseStatus reads a Status from bytes, and returns undefined for all other bytes', () => {
  assert.deepEqual(parseStatus(Buffer.from('{"kind":"Status","reason":"Expired","message":"too old"}')), {
    reason: 'Expired',
    message: 'too old',
    causes: [],
  });
  for (const text of ['', '[]', 'null', '{', '{"kind":"Secret"}']) {
    assert.equal(parseStatus(Buffer.from(text)), undefined, text);
  }
});

test('an error of a socket becomes a ConnectionError with its code and cause; a ConnectionError stays the same', () => {
  const refused = Object.assign(new Error('connect ECONNREFUSED ::1:1'), { code: 'ECONNREFUSED' });
  for (const thrown of [refused, Object.assign(new AggregateError([refused]), { code: 'ECONNREFUSED' })]) {
    const error = toConnectionError(CALL, thrown);
    assert.equal(error.code, 'ECONNREFUSED');
    assert.match(error.message, /^POST \/api.*connect ECONNREFUSED/u);
    assert.equal(error.cause, thrown);
  }
  const ours = new CredentialError('no token');
  assert.equal(toConnectionError(CALL, ours), ours);
});

test('only a 404 in which the API server names the object means that the object is gone', () => {
  const reason = 'NotFound';
  assert.ok(isObjectGone(errorOf(404, { reason, message: 'secretmirrors.mirrors.kts.studio "a" not found' }), 'a'));
  assert.ok(!isObjectGone(errorOf(404, { reason, message: 'the server could not find the requested resource' }), 'a'));
  assert.ok(!isObjectGone(errorOf(404, { reason, message: 'secrets "b" not found' }), 'a'));
  assert.ok(!isObjectGone(apiErrorOf(CALL, 404, Buffer.from('404 page not found'), undefined, NOW), 'a'));
  assert.ok(!isObjectGone(new ConnectionError('ECONNRESET', '"a" not found'), 'a'));
});
