import assert from 'node:assert/strict';
import test from 'node:test';

import { getOrCreate, SetMap } from './maps.ts';

test('if getOrCreate is called twice for a key, it creates the value only the first time', () => {
  const map = new Map<string, { readonly n: number }>();
  let n = 0;
  const make = (): { readonly n: number } => ({ n: ++n });
  assert.deepEqual([getOrCreate(map, 'a', make), getOrCreate(map, 'a', make)], [{ n: 1 }, { n: 1 }]);
});

test('SetMap reports whether a value is the first or the last of its key, and removes a key without values', () => {
  const map = new SetMap<string, number>();
  assert.deepEqual([map.add('a', 1), map.add('a', 2), map.add('a', 2)], [true, false, false]);
  assert.deepEqual([...map.get('a')], [1, 2]);
  assert.deepEqual(
    [map.delete('a', 3), map.delete('a', 1), map.delete('a', 2), map.delete('a', 2)],
    [false, false, true, false],
  );
  assert.ok(!map.has('a'));
  assert.deepEqual([...map.get('a')], []);
});

test('SetMap gives the number of values of a key and one of these values, after each add and delete', () => {
  const map = new SetMap<string, number>();
  const figures = (): unknown[] => [map.size('a'), map.first('a'), map.has('a', 1), map.has('a', 2)];
  assert.deepEqual(figures(), [0, undefined, false, false]);
  map.add('a', 1);
  assert.deepEqual(figures(), [1, 1, true, false]);
  map.add('a', 2);
  assert.deepEqual(figures(), [2, 1, true, true]);
  map.delete('a', 1);
  assert.deepEqual(figures(), [1, 2, false, true]);
  map.delete('a', 2);
  assert.deepEqual(figures(), [0, undefined, false, false]);
});
