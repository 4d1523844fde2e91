import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ManagedFieldsEntry, ObjectMeta } from '../../kube/api.ts';
import {
  contentVersion,
  LAST_APPLIED,
  lengthProblem,
  MAX_KEPT,
  MAX_VALUE,
  observe,
  sameButVersion,
} from './observed.ts';

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

test('the last-applied annotation is not kept, because it can contain secret values', () => {
  const observed = observe({
    ...META,
    annotations: { [LAST_APPLIED]: '{"data":{"password":"hunter2"}}', kept: 'yes' },
  });
  assert.deepEqual(observed.annotations, { kept: 'yes' });
  assert.doesNotMatch(JSON.stringify(observed), /hunter2/);
});

test('from the managed fields Keyferry knows the data keys, labels and annotations that it wrote itself', () => {
  const cases: readonly [string, readonly ManagedFieldsEntry[] | undefined, string | undefined][] = [
    ['only Keyferry', [OURS], 'password,user'],
    ['unknown writers', undefined, undefined],
    [
      'another client wrote a key',
      [OURS, { manager: 'kubectl-edit', fieldsV1: { 'f:data': { 'f:password': {} } } }],
      undefined,
    ],
    ['another client wrote immutable', [OURS, { manager: 'kubectl-edit', fieldsV1: { 'f:immutable': {} } }], undefined],
    [
      'another client wrote only metadata',
      [OURS, { manager: 'argocd', fieldsV1: { 'f:metadata': { 'f:labels': {} } } }],
      'password,user',
    ],
    ['Keyferry, but no data', [{ manager: 'keyferry', fieldsV1: { 'f:type': {} } }], ''],
    ['only another client', [{ manager: 'manager', fieldsV1: { 'f:data': {} } }], undefined],
  ];
  for (const [name, managedFields, expected] of cases) {
    const observed = observe({ ...META, ...(managedFields === undefined ? {} : { managedFields }) });
    assert.equal(observed.ownKeys, expected, name);
  }
  assert.deepEqual(observe({ ...META, managedFields: [OURS] }).ownLabels, ['l']);
  assert.deepEqual(observe({ ...META, managedFields: [OURS] }).ownAnnotations, ['a']);
});

test('from the managed fields Keyferry knows whether it made a Secret immutable itself', () => {
  const managedFields = [{ ...OURS, fieldsV1: { ...OURS.fieldsV1, 'f:immutable': {} } }];
  const observed = observe({ ...META, managedFields });
  assert.deepEqual([observed.ownImmutable, observed.ownKeys], [true, 'password,user']);
  assert.equal(observe({ ...META, managedFields: [OURS] }).ownImmutable, undefined);
});

test('the content version of a custom resource changes with its generation or uid, but not with a change of status or labels', () => {
  const version = (meta: Partial<ObjectMeta>, isCustom: boolean): string =>
    contentVersion(observe({ ...META, ...meta }, { isCustom }));
  assert.equal(version({ generation: 3 }, false), '7');
  assert.equal(version({ generation: 3 }, true), version({ generation: 3, resourceVersion: '8' }, true));
  assert.notEqual(version({ generation: 3 }, true), version({ generation: 4 }, true));
  assert.notEqual(version({ generation: 3 }, true), version({ generation: 3, uid: 'v' }, true));
});

test('if only the status or finalizers of a custom resource change, it counts as unchanged; any other change counts', () => {
  const isSame = (meta: Partial<ObjectMeta>): boolean => {
    const before = { ...META, generation: 3, labels: { a: '1' }, annotations: { b: '1' }, managedFields: [OURS] };
    const after = { ...before, resourceVersion: '8', ...meta };
    return sameButVersion(observe(before, { isCustom: true }), observe(after, { isCustom: true }));
  };
  assert.equal(isSame({}), true);
  assert.equal(isSame({ finalizers: ['example.com/one'] }), true);
  for (const change of [
    { uid: 'v' },
    { generation: 4 },
    { labels: { a: '2' } },
    { annotations: {} },
    { managedFields: [] },
    { deletionTimestamp: '2026-01-02T00:00:00Z' },
    { ownerReferences: [{ apiVersion: 'v1', kind: 'Secret', name: 'x', uid: 'u' }] },
  ]) {
    assert.equal(isSame(change), false, JSON.stringify(change));
  }
});

test('very long labels and annotations are not kept, but annotations that a controller reads are', () => {
  const many = (count: number, value: string): Record<string, string> =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, value]));
  const options = { isRead: (annotation: string) => annotation.startsWith('ours/') };
  const size = (map: Readonly<Record<string, string>>): number =>
    Object.entries(map).reduce((sum, [key, value]) => sum + key.length + value.length, 0);
  const labels = many(20_000, 'x'.repeat(40));
  const annotations = {
    ...many(5000, 'x'.repeat(40)),
    'ours/list': 'a,'.repeat(1000),
    'ours/huge': 'a,'.repeat(100_000),
  };
  const observed = observe({ ...META, labels, annotations }, options);
  assert.equal(observed.trimmed, true);
  assert.ok(size(observed.labels) <= MAX_KEPT && size(observed.annotations) <= MAX_KEPT + 2500);
  assert.equal(observed.annotations['ours/list'], 'a,'.repeat(1000));
  assert.match(
    lengthProblem(observed.annotations['ours/huge'] ?? '') ?? '',
    /200000 characters; the maximum is 32768/u,
  );
  assert.equal(lengthProblem('a,b'), undefined);
  // Of a too long value only the digest is kept. Two different values must still be different.
  const other = observe({ ...META, annotations: { 'ours/huge': 'b,'.repeat(100_000) } }, options);
  assert.notEqual(other.annotations['ours/huge'], observed.annotations['ours/huge']);
});

test('if all values of a map are too long, their digests are kept, so that the map does not become empty', () => {
  const options = { isRead: () => false };
  const observed = observe({ ...META, annotations: { note: 'x'.repeat(MAX_KEPT) } }, options);
  assert.deepEqual(Object.keys(observed.annotations), ['note']);
  assert.ok(lengthProblem(observed.annotations['note'] ?? '') !== undefined && observed.trimmed === true);
  const ordinary = observe({ ...META, annotations: { note: 'x'.repeat(1000) }, labels: { a: 'b' } }, options);
  assert.deepEqual(
    [ordinary.annotations, ordinary.labels, ordinary.trimmed],
    [{ note: 'x'.repeat(1000) }, { a: 'b' }, undefined],
  );
  assert.equal(
    lengthProblem(observe({ ...META, annotations: { a: 'x'.repeat(MAX_VALUE) } }).annotations['a'] ?? ''),
    undefined,
  );
});

test('an object counts as full if less than 1 KiB of the allowed 256 KiB is left for annotations', () => {
  const full = (annotations: Record<string, string>): boolean =>
    observe({ uid: 'u', name: 'n', resourceVersion: '1', creationTimestamp: '', annotations }).full === true;
  assert.equal(full({ 'keyferry.dev/x': 'y'.repeat(255 * 1024 - 14) }), false);
  assert.equal(full({ 'keyferry.dev/x': 'y'.repeat(255 * 1024 - 13) }), true);
  assert.equal(full({ a: 'é'.repeat(128 * 1024 - 10) }), true);
  assert.equal(full({ a: '…'.repeat(80 * 1024), b: 'y'.repeat(1024) }), false);
});
