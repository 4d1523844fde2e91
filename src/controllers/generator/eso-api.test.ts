import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject } from '../../kube/api.ts';
import { conditionModeOf } from './eso-api.ts';

const FREE = { type: 'string' };
const LIMITED = { type: 'string', enum: ['Ready', 'Deleted'] };

/**
 * A version of the CRD. @param type the schema of `status.conditions[].type`; `undefined`: the version has no schema
 */
function version(served: boolean | undefined, type?: object): object {
  const conditions = { items: { properties: { type } } };
  const schema = { openAPIV3Schema: { properties: { status: { properties: { conditions } } } } };
  return { ...(served !== undefined && { served }), ...(type && { schema }) };
}

function modeOf(...versions: readonly object[]): string {
  const metadata = { name: 'crd', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
  return conditionModeOf({ metadata, spec: { versions } } as KubeObject);
}

test('the condition Created is not allowed if a served version of the CRD has an enum of condition types; otherwise it is allowed', () => {
  assert.equal(modeOf(version(true, FREE)), 'allowed');
  assert.equal(modeOf(version(true, LIMITED)), 'limited');
  assert.equal(modeOf(version(true, FREE), version(true, LIMITED)), 'limited');
  assert.equal(modeOf(version(true, LIMITED), version(true, FREE)), 'limited');
  assert.equal(modeOf(version(false, LIMITED), version(true, FREE)), 'allowed');
  assert.equal(modeOf(version(undefined, LIMITED), version(true, FREE)), 'allowed');
  assert.equal(modeOf(version(true)), 'allowed');
  assert.equal(modeOf(), 'allowed');
});
