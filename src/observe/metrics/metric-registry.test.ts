import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BoundedLabel } from './metric-registry.ts';

test('the first values of a label have series of their own, and all others share one', () => {
  const label = new BoundedLabel(2);
  assert.deepEqual(
    ['a', 'b', 'c', 'a', 'd', 'b'].map((value) => label.of(value)),
    ['a', 'b', 'other', 'a', 'other', 'b'],
  );
});
