/** Tests who has to remove the cause of an API server's error (user or operator), and which message a tenant reads. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from 'fast-check';

import { ApiError, apiErrorOf, ConnectionError } from '../../kube/errors.ts';
import { type Cause, type Fault, failureOf } from './cause.ts';
import { FAULTS, type Reason, REASONS } from './reasons.ts';

/** All names that no tenant may see contain this word. */
const INTERNAL = /internal/i;
const CALL = { cluster: 'management', method: 'POST', path: '/api/v1/namespaces/tenant-a/secrets' };

function causeOf(status: number, reason: string, message: string): Cause {
  const body = { kind: 'Status', status: 'Failure', reason, message, code: status };
  return failureOf(apiErrorOf(CALL, status, Buffer.from(JSON.stringify(body)), undefined, 0));
}

/** Answers of the API server, with the fault of each answer, and the message that a tenant reads. */
const ANSWERS: readonly (readonly [status: number, reason: string, message: string, fault: Fault, read: string])[] = [
  [
    403,
    'Forbidden',
    'secrets "u" is forbidden: exceeded quota: internal-quota, requested: secrets=1, used: secrets=9, limited: secrets=9',
    'user',
    'a quota of the namespace is used up',
  ],
  [
    403,
    'Forbidden',
    'syncsecrets.kubelb.k8c.io "u" is forbidden: status unknown for quota: internal-quota, resources: count/syncsecrets',
    'user',
    'a quota of the namespace is used up',
  ],
  [
    409,
    'Conflict',
    'Operation cannot be fulfilled on resourcequotas "internal-quota": the object has been modified; please apply your changes',
    'user',
    'an object of another owner is in its place, or it keeps changing',
  ],
  [
    400,
    'BadRequest',
    'admission webhook "deny.internal.example" denied the request: no',
    'user',
    'an admission policy or webhook refused it',
  ],
  // A webhook can choose status and reason freely.
  [
    409,
    'Conflict',
    'admission webhook "deny.internal.example" denied the request: no',
    'user',
    'an admission policy or webhook refused it',
  ],
  [
    422,
    'Immutable',
    'admission webhook "deny.internal.example" denied the request: Secret "u" is invalid: x',
    'user',
    'an admission policy or webhook refused it',
  ],
  [
    422,
    'Invalid',
    `secrets "u" is forbidden: ValidatingAdmissionPolicy 'internal' with binding 'internal' denied request: no`,
    'user',
    'an admission policy or webhook refused it',
  ],
  [
    500,
    'InternalError',
    'Internal error occurred: failed calling webhook "deny.internal.example": Post "https://internal.internal.svc:443/x": EOF',
    'operator',
    'the API server refused it (InternalError); see the log of the operator',
  ],
  [
    403,
    'Forbidden',
    'secrets is forbidden: User "system:serviceaccount:internal:manager" cannot create resource "secrets" in API group "" in the namespace "tenant-a"',
    'operator',
    'the operator has no permission to create secrets',
  ],
  [
    403,
    'Forbidden',
    'secrets "u" is forbidden: User "system:serviceaccount:internal:manager" cannot delete resource "secrets" in API group "" in the namespace "tenant-a"',
    'operator',
    'the operator has no permission to delete secrets',
  ],
  [
    422,
    'Invalid',
    'Secret "u" is invalid: data[tls.crt]: Required value',
    'user',
    'Secret "u" is invalid: data[tls.crt]: Required value',
  ],
  [
    413,
    'RequestEntityTooLarge',
    'Request entity too large: limit is 3145728',
    'user',
    'it is too large for the cluster',
  ],
  [500, '', 'etcdserver: request is too large', 'user', 'it is too large for the cluster'],
  [404, 'NotFound', 'the server could not find the requested resource', 'operator', REFUSED('NotFound')],
  [403, 'a reason with internal words', 'x', 'operator', REFUSED('Forbidden')],
  [401, 'Unauthorized', 'Unauthorized', 'operator', REFUSED('Unauthorized')],
];

function REFUSED(reason: string): string {
  return `the API server refused it (${reason}); see the log of the operator`;
}

for (const [status, reason, message, fault, read] of ANSWERS) {
  test(`status ${status} "${message.slice(0, 60)}" is the fault of the ${fault}, and a tenant reads: ${read}`, () => {
    const cause = causeOf(status, reason, message);
    assert.equal(cause.fault, fault);
    assert.equal(cause.publicMessage, read);
    // Metrics and the reference say the same of a reason.
    if (cause.reason in REASONS) assert.equal(FAULTS[REASONS[cause.reason as Reason].who], fault, cause.reason);
    assert.doesNotMatch(cause.publicMessage.replace('InternalError', ''), INTERNAL);
  });
}

test("if the API server does not answer, this is the operator's fault, and a tenant reads no address", () => {
  for (const error of [new Error('POST /api: connect ECONNREFUSED 10.0.0.1:6443'), new ConnectionError('E', 'x')]) {
    const { fault, publicMessage } = failureOf(error);
    assert.deepEqual([fault, publicMessage], ['operator', 'the API server did not answer']);
  }
});

/** The API server quotes names and values with Go's %q, which gives the same result as JSON for these texts. */
const quoted = JSON.stringify;

/** Messages of the API server. Users can choose two parts of each: the name of the object, and another text. */
const MESSAGES: readonly (readonly [number, string, (name: string, text: string) => string])[] = [
  [
    403,
    'Forbidden',
    (name) => `secrets ${quoted(name)} is forbidden: User "keyferry" cannot patch resource "secrets" in API group ""`,
  ],
  [403, 'Forbidden', (name, text) => `secrets ${quoted(name)} is forbidden: exceeded quota: q, requested: ${text}`],
  [403, 'Forbidden', (name, text) => `secrets ${quoted(name)} is forbidden: unable to do it: ${text}`],
  [
    403,
    'Forbidden',
    (name, text) =>
      `secrets ${quoted(name)} is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ${text}`,
  ],
  [400, 'BadRequest', (_, text) => `admission webhook "w" denied the request: ${text}`],
  [403, 'Forbidden', (_, text) => `admission webhook "w" denied the request: ${text}`],
  [
    422,
    'Invalid',
    (name, text) => `Secret ${quoted(name)} is invalid: data[${text}]: Invalid value: ${quoted(text)}: ${text}`,
  ],
  [409, 'Conflict', (name, text) => `Operation cannot be fulfilled on secrets ${quoted(name)}: ${text}`],
  [400, 'BadRequest', (_, text) => `the object provided is unrecognized: ${text}`],
  [404, 'NotFound', (name) => `secrets ${quoted(name)} not found`],
  [413, 'RequestEntityTooLarge', (_, text) => `Request entity too large: ${text}`],
  [500, 'InternalError', (name, text) => `Internal error occurred: failed calling webhook ${quoted(name)}: ${text}`],
  [503, 'ServiceUnavailable', (_, text) => `error trying to reach service: ${text}`],
];

/** Texts that Keyferry looks for in messages of the API server. Users can put such texts into names and values. */
const PHRASES = [
  'no permission to',
  'permission denied',
  'cannot create resource "secrets"',
  'User "x" cannot create resource "secrets"',
  '" is forbidden: User "x" cannot create resource "secrets"',
  'exceeded quota: ',
  '" is forbidden: exceeded quota: q',
  'secrets "x" is forbidden: exceeded quota: q',
  'admission webhook "w" denied the request: ',
  `" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request`,
  'Secret "x" is invalid: ',
  'etcdserver: request is too large',
  'because it is being terminated',
  'too long',
  '$VAULT_TOKEN',
  '\\',
  '"',
  '\n',
];

test("property: a user's text in an API server's message changes neither the fault nor whether a tenant reads the message", () => {
  const text = fc
    .array(fc.oneof(fc.constantFrom(...PHRASES), fc.string({ maxLength: 12 })), { maxLength: 5 })
    .map((parts) => parts.join(''));
  fc.assert(
    fc.property(fc.constantFrom(...MESSAGES), text, text, ([status, reason, message], name, other) => {
      const judge = (words: string): unknown => {
        const { fault, publicMessage } = causeOf(status, reason, words);
        return [fault, publicMessage === words ? 'shown' : publicMessage];
      };
      assert.deepEqual(judge(message(name, other)), judge(message('x', 'y')));
    }),
    { numRuns: 2000 },
  );
});

test("property: if a 403 does not have the API server's own words, it is the fault of the operator", () => {
  fc.assert(
    fc.property(fc.string(), (message) => {
      const error = new ApiError(CALL, 403, { reason: 'Forbidden', message, causes: [] });
      assert.equal(failureOf(error).fault, 'operator');
    }),
  );
});
