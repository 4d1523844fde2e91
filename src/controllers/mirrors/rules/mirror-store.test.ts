import assert from 'node:assert/strict';
import { test } from 'node:test';

import { withoutOurSpec } from './mirror-store.ts';

const theirs = { manager: 'kubectl', operation: 'Apply', fieldsV1: { 'f:spec': { 'f:deletePolicy': {} } } };
const finalizer = { 'f:finalizers': { 'v:"mirrors.kts.studio/finalizer"': {} } };
const ours = { manager: 'keyferry', operation: 'Update', fieldsV1: { 'f:metadata': finalizer } };
const oursWithSpec = { ...ours, fieldsV1: { ...ours.fieldsV1, 'f:spec': { 'f:pollPeriodSeconds': {} } } };
const status = { manager: 'keyferry', operation: 'Update', subresource: 'status', fieldsV1: { 'f:status': {} } };

test('of the managed fields, those of Keyferry in the spec are removed, and all others stay', () => {
  assert.deepEqual(withoutOurSpec([theirs, oursWithSpec, status]), [theirs, ours, status]);
});

test('an entry of managed fields that becomes empty is removed', () => {
  const only = { ...ours, fieldsV1: { 'f:spec': {} } };
  assert.deepEqual(withoutOurSpec([theirs, only]), [theirs]);
});

test('managed fields stay as they are if no spec field is of Keyferry, or nothing would be left', () => {
  for (const fields of [undefined, [], [theirs, ours, status], [{ ...ours, fieldsV1: { 'f:spec': {} } }]]) {
    assert.equal(withoutOurSpec(fields), undefined);
  }
});
