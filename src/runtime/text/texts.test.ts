import assert from 'node:assert/strict';
import { test } from 'node:test';

import { someOf } from './texts.ts';

test('a list names the first, and counts the others', () => {
  assert.equal(someOf([], 2), '');
  assert.equal(someOf(['a', 'b'], 2), 'a, b');
  assert.equal(someOf(['a', 'b', 'c', 'd'], 2), 'a, b and 2 more');
  assert.equal(someOf(['a', 'b', 'c'], 2, ' → '), 'a → b and 1 more');
});
