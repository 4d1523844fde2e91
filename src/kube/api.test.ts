import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { isOlder } from './api.ts';

test('resource versions are compared as numbers of any length', () => {
  const version = fc.bigInt({ min: 0n, max: 2n ** 64n });
  const near = fc.tuple(version, fc.bigInt({ min: 0n, max: 3n })).map(([a, more]) => [a, a + more] as const);
  fc.assert(
    fc.property(fc.oneof(near, fc.tuple(version, version)), ([a, b]) => {
      assert.equal(isOlder(String(a), String(b)), a < b);
      assert.equal(isOlder(String(b), String(a)), b < a);
    }),
  );
});

test('a resource version that is not a number is never older than another', () => {
  for (const other of ['', 'x', '-1', '1.5', '007', '1e3']) {
    assert.equal(isOlder(other, '999999'), false, other);
    assert.equal(isOlder('1', other), false, other);
  }
});
