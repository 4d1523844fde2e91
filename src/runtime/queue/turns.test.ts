import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Turns } from './turns.ts';

test('groups of keys take turns, even if one group has 1,000 keys', () => {
  const turns = new Turns((key) => key.split('/')[0] ?? '');
  for (let index = 0; index < 1000; index += 1) turns.add(`bad/${index}`, index);
  for (const key of ['good/a', 'good/b', 'other/c']) turns.add(key, 2000);
  const first = Array.from({ length: 7 }, () => turns.shift()?.key);
  assert.deepEqual(first, ['bad/0', 'good/a', 'other/c', 'bad/1', 'good/b', 'bad/2', 'bad/3']);
  assert.equal(turns.size, 996);
  assert.equal(turns.oldest(), 4);
});

test('a group for which mayTake is false misses its turn and keeps its keys', () => {
  const turns = new Turns((key) => key.split('/')[0] ?? '');
  for (const [index, key] of ['a/0', 'a/1', 'b/0'].entries()) turns.add(key, index);
  assert.equal(turns.shift((group) => group !== 'a')?.key, 'b/0');
  assert.equal(
    turns.shift((group) => group !== 'a'),
    undefined,
  );
  assert.equal(turns.size, 2);
  assert.deepEqual([turns.shift()?.key, turns.shift()?.key], ['a/0', 'a/1']);
});

test('if groupOf changes the group of a waiting key, the key keeps its place and is returned exactly one time', () => {
  let group = 'a';
  const turns = new Turns(() => group, true);
  turns.add('one', 1);
  turns.add('two', 2);
  turns.add('three', 3);
  group = 'b';
  turns.add('four', 4);
  assert.equal(turns.get('one'), 1);
  turns.delete('two');
  assert.equal(turns.get('two'), undefined);
  turns.add('two', 5);
  const rest = Array.from({ length: 5 }, () => turns.shift());
  assert.deepEqual(
    rest.map((one) => one && `${one.group} ${one.key} ${one.value}`),
    ['a one 1', 'b four 4', 'a three 3', 'b two 5', undefined],
  );
  assert.equal(turns.size, 0);
});

test('property: Turns returns each key exactly one time, and keeps the order of the keys in each group', () => {
  const key = fc.constantFrom('a/1', 'a/2', 'a/3', 'b/1', 'b/2', 'c/1');
  const step = fc.oneof(fc.record({ add: key }), fc.record({ delete: key }), fc.constant({ shift: true } as const));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const turns = new Turns((one) => one.slice(0, 1));
      let model: string[] = [];
      for (const [now, one] of steps.entries()) {
        if ('add' in one && !model.includes(one.add)) {
          turns.add(one.add, now);
          model.push(one.add);
        } else if ('delete' in one) {
          turns.delete(one.delete);
          model = model.filter((other) => other !== one.delete);
        } else if ('shift' in one) {
          const got = turns.shift()?.key;
          assert.equal(got === undefined, model.length === 0);
          if (got !== undefined)
            assert.equal(
              got,
              model.find((other) => other[0] === got[0]),
            );
          model = model.filter((other) => other !== got);
        }
        assert.equal(turns.size, model.length);
        for (const other of model) assert.notEqual(turns.get(other), undefined);
      }
    }),
  );
});
