import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ManagedFieldsEntry, ObjectMeta } from '../kube/api.ts';
import { joinKeys, LAST_APPLIED, observe } from './observed.ts';

const META: ObjectMeta = {
  name: 'x',
  namespace: 'n',
  uid: 'u',
  resourceVersion: '7',
  creationTimestamp: '2026-01-01T00:00:00Z',
};

const OURS: ManagedFieldsEntry = {
  manager: 'keyferry',
  operation: 'Update',
  fieldsV1: {
    'f:data': { '.': {}, 'f:password': {}, 'f:user': {} },
    'f:metadata': { 'f:annotations': { '.': {}, 'f:a': {} }, 'f:labels': { '.': {}, 'f:l': {} } },
    'f:type': {},
  },
};

test('what could hold values is dropped on arrival', () => {
  const observed = observe({
    ...META,
    annotations: { [LAST_APPLIED]: '{"data":{"password":"hunter2"}}', kept: 'yes' },
  });
  assert.deepEqual(observed.annotations, { kept: 'yes' });
  assert.doesNotMatch(JSON.stringify(observed), /hunter2/);
});

test('who wrote the data, by the managed fields', () => {
  const cases: readonly [string, readonly ManagedFieldsEntry[] | undefined, string | undefined][] = [
    ['only we', [OURS], 'password,user'],
    ['nobody that is known', undefined, undefined],
    [
      'somebody else a key',
      [OURS, { manager: 'kubectl-edit', fieldsV1: { 'f:data': { 'f:password': {} } } }],
      undefined,
    ],
    ['somebody else the immutability', [OURS, { manager: 'kubectl-edit', fieldsV1: { 'f:immutable': {} } }], undefined],
    [
      'somebody else only metadata',
      [OURS, { manager: 'argocd', fieldsV1: { 'f:metadata': { 'f:labels': {} } } }],
      'password,user',
    ],
    ['we, but no data', [{ manager: 'keyferry', fieldsV1: { 'f:type': {} } }], ''],
    ['somebody else alone', [{ manager: 'manager', fieldsV1: { 'f:data': {} } }], undefined],
  ];
  for (const [name, managedFields, expected] of cases) {
    const observed = observe({ ...META, ...(managedFields === undefined ? {} : { managedFields }) });
    assert.equal(observed.ownKeys, expected, name);
  }
  assert.deepEqual(observe({ ...META, managedFields: [OURS] }).ownLabels, ['l']);
  assert.deepEqual(observe({ ...META, managedFields: [OURS] }).ownAnnotations, ['a']);
});

test('keys are joined in one order', () => {
  assert.equal(joinKeys(['b', 'a']), joinKeys(['a', 'b']));
});
