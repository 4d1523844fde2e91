import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isWithinEdits, someOf } from './texts.ts';

test('someOf names the first names of a list and counts the others', () => {
  assert.equal(someOf([], 2), '');
  assert.equal(someOf(['a', 'b'], 2), 'a, b');
  assert.equal(someOf(['a', 'b', 'c', 'd'], 2), 'a, b and 2 more');
  assert.equal(someOf(['a', 'b', 'c'], 2, ' → '), 'a → b and 1 more');
});

test('isWithinEdits counts the letters that are missing, too many or wrong', () => {
  for (const [a, b, edits] of [
    ['', '', 0],
    ['abc', 'abc', 0],
    ['abc', 'ac', 1],
    ['ac', 'abc', 1],
    ['abc', 'abd', 1],
    ['abc', 'abcd', 1],
    ['', 'ab', 2],
    ['acb', 'abc', 2],
    ['xbcd', 'abc', 2],
    ['abc', 'xyz', 3],
  ] as const) {
    for (const most of [0, 1, 2, 3]) assert.equal(isWithinEdits(a, b, most), most >= edits, `${a} ${b} ${most}`);
  }
});
