import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ObjectMeta } from '../../../kube/api.ts';
import { Content } from '../../model/content.ts';
import { SECRET } from '../../model/kind.ts';
import { isOverwritten, withOverwrittenMark } from './object-writer.ts';
import { OVERWRITTEN_MARK } from '../../plan/plan-write.ts';
import type { DesiredObject } from '../../model/claim.ts';

const content = (text: string, type = 'Opaque'): Content =>
  Content.ofFields(SECRET, { data: { a: Buffer.from(text).toString('base64') } }, type, '1');
const DESIRED: DesiredObject = {
  kind: 'be',
  labels: { team: 'a' },
  annotations: { gone: null },
  bookkeeping: { at: '1' },
  data: 'source',
};
const META: ObjectMeta = {
  name: 'x',
  uid: 'u',
  resourceVersion: '2',
  creationTimestamp: '2026-01-01T00:00:00Z',
  labels: { team: 'a', more: 'b' },
  annotations: { at: '0' },
};

test('a write counts as overwritten if the stored values, type, labels or annotations differ from the desired ones', () => {
  const is = (meta: Partial<ObjectMeta>, stored: Content | undefined, desired: DesiredObject = DESIRED): boolean =>
    isOverwritten({ meta: { ...META, ...meta }, ...(stored === undefined ? {} : { stored }) }, desired, content('1'));
  assert.equal(is({}, content('1')), false);
  assert.equal(is({}, undefined), false, 'nothing is known of the data');
  assert.equal(is({}, content('2')), true);
  assert.equal(is({}, content('1', 'example.com/other')), true);
  assert.equal(is({}, content('1', 'example.com/other'), { ...DESIRED, type: '' }), false, 'any type is right');
  assert.equal(is({ labels: { team: 'b' } }, undefined), true);
  assert.equal(is({ annotations: { gone: 'x' } }, undefined), true);
  assert.equal(is({}, content('1'), withOverwrittenMark(DESIRED)), true, 'the mark was dropped');
  assert.equal(is({ annotations: { [OVERWRITTEN_MARK]: 'true' } }, content('1'), withOverwrittenMark(DESIRED)), false);
});
