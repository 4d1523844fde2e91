import assert from 'node:assert/strict';
import { test } from 'node:test';

import { withoutOurSpec } from './mirror-store.ts';

const theirs = { manager: 'kubectl', operation: 'Apply', fieldsV1: { 'f:spec': { 'f:deletePolicy': {} } } };
const finalizer = { 'f:finalizers': { 'v:"mirrors.kts.studio/finalizer"': {} } };
const ours = { manager: 'keyferry', operation: 'Update', fieldsV1: { 'f:metadata': finalizer } };
const oursWithSpec = { ...ours, fieldsV1: { ...ours.fieldsV1, 'f:spec': { 'f:pollPeriodSeconds': {} } } };
const status = { manager: 'keyferry', operation: 'Update', subresource: 'status', fieldsV1: { 'f:status': {} } };

test('removes our spec fields and keeps all other entries', () => {
  assert.deepEqual(withoutOurSpec([theirs, oursWithSpec, status]), [theirs, ours, status]);
});

test('removes an entry that becomes empty', () => {
  const only = { ...ours, fieldsV1: { 'f:spec': {} } };
  assert.deepEqual(withoutOurSpec([theirs, only]), [theirs]);
});

test('returns undefined if no spec field is ours, or the result would be empty', () => {
  for (const fields of [undefined, [], [theirs, ours, status], [{ ...ours, fieldsV1: { 'f:spec': {} } }]]) {
    assert.equal(withoutOurSpec(fields), undefined);
  }
});
