import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BoundedLabel } from './metric-registry.ts';

test('a BoundedLabel keeps its first values and replaces all others by "other"', () => {
  const label = new BoundedLabel(2);
  assert.deepEqual(
    ['a', 'b', 'c', 'a', 'd', 'b'].map((value) => label.of(value)),
    ['a', 'b', 'other', 'a', 'other', 'b'],
  );
});
