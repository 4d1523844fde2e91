import assert from 'node:assert/strict';
import { test } from 'node:test';

import { withoutOurSpec } from './mirror-store.ts';

const theirs = { manager: 'kubectl', operation: 'Apply', fieldsV1: { 'f:spec': { 'f:deletePolicy': {} } } };
const finalizer = { 'f:finalizers': { 'v:"mirrors.kts.studio/finalizer"': {} } };
const ours = { manager: 'keyferry', operation: 'Update', fieldsV1: { 'f:metadata': finalizer } };
const oursWithSpec = { ...ours, fieldsV1: { ...ours.fieldsV1, 'f:spec': { 'f:pollPeriodSeconds': {} } } };
const status = { manager: 'keyferry', operation: 'Update', subresource: 'status', fieldsV1: { 'f:status': {} } };

test('withoutOurSpec removes the spec fields that Keyferry owns from the managed fields, and keeps all other fields', () => {
  assert.deepEqual(withoutOurSpec([theirs, oursWithSpec, status]), [theirs, ours, status]);
});

test('if an entry of the managed fields has only spec fields, withoutOurSpec removes the whole entry', () => {
  const only = { ...ours, fieldsV1: { 'f:spec': {} } };
  assert.deepEqual(withoutOurSpec([theirs, only]), [theirs]);
});

test('withoutOurSpec returns undefined if Keyferry owns no spec field, or if no managed fields would be left', () => {
  for (const fields of [undefined, [], [theirs, ours, status], [{ ...ours, fieldsV1: { 'f:spec': {} } }]]) {
    assert.equal(withoutOurSpec(fields), undefined);
  }
});
