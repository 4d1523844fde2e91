import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Turns } from './turns.ts';

/** The owner of the key `owner/group/name`. */
function ownerOf(key: string): string {
  return key.split('/')[0] ?? '';
}

/** The group of the key `owner/group/name`. Owners have groups with the same names, as rules write to the same namespaces. */
function groupOf(key: string): string {
  return key.split('/')[1] ?? '';
}

test('if the group and the owner of a waiting key change, the key keeps its place and is returned exactly one time', () => {
  for (const change of ['group', 'owner']) {
    let now = 'a';
    const changing = (): string => now;
    const turns = change === 'group' ? new Turns(changing) : new Turns(() => '', changing);
    turns.add('one', false, 1);
    turns.add('two', false, 2);
    turns.add('three', false, 3);
    now = 'b';
    turns.add('four', false, 4);
    assert.ok(turns.has('one'));
    turns.delete('two');
    assert.ok(!turns.has('two'));
    turns.add('two', false, 5);
    const rest = Array.from({ length: 5 }, () => turns.shift());
    assert.deepEqual(
      rest.map((one) => one && `${one.key} ${one.since}`),
      ['one 1', 'four 4', 'three 3', 'two 5', undefined],
    );
    assert.equal(turns.size, 0);
  }
});

test('an owner whose last key was deleted loses its place', () => {
  const turns = new Turns(groupOf, ownerOf);
  for (const key of ['a/0/x', 'b/0/x']) turns.add(key, false, 1);
  turns.delete('a/0/x');
  turns.add('a/0/y', false, 2);
  assert.deepEqual([turns.shift()?.key, turns.shift()?.key], ['b/0/x', 'a/0/y']);
});

test('keys of normal priority come first, and a key that moves to normal priority keeps the time since it waits', () => {
  const turns = new Turns(groupOf, ownerOf);
  for (const [index, key] of ['a/0/x', 'a/0/y', 'b/0/z'].entries()) turns.add(key, true, index);
  turns.add('c/0/w', false, 8);
  turns.add('a/0/y', false, 9.5);
  turns.add('a/0/y', true, 10);
  assert.equal(turns.size, 4);
  const order = Array.from({ length: 5 }, () => turns.shift());
  assert.deepEqual(
    order.map((turn) => turn && `${turn.key} ${turn.low ? 'low' : 'normal'} ${turn.since}`),
    ['c/0/w normal 8', 'a/0/y normal 1', 'a/0/x low 0', 'b/0/z low 2', undefined],
  );
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
          turns.add(one.add, false, now);
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
        for (const other of model) assert.ok(turns.has(other));
      }
    }),
  );
});

test('property: no owner waits for two keys of another owner, and no group of an owner for two keys of its other groups', () => {
  const key = fc
    .tuple(fc.constantFrom('x', 'y', 'z'), fc.constantFrom('1', '2', '3'), fc.nat(4))
    .map((it) => it.join('/'));
  const step = fc.oneof(
    { weight: 3, arbitrary: fc.record({ add: key }) },
    { weight: 1, arbitrary: fc.record({ delete: key }) },
    { weight: 3, arbitrary: fc.constant({ shift: true } as const) },
    { weight: 1, arbitrary: fc.record({ blocked: fc.constantFrom('1', '2', '3') }) },
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const turns = new Turns(groupOf, ownerOf);
      const waiting = new Set<string>();
      /** For each owner and each group that waits: who had a turn since it began to wait or had its last turn. */
      const before = new Map<string, string[]>();
      const sides = (one: string): [who: string, within: string][] => [
        [ownerOf(one), ''],
        [one.slice(0, 3), ownerOf(one)],
      ];
      const prune = (): void => {
        const present = new Set([...waiting].flatMap((one) => sides(one).map(([who]) => who)));
        for (const who of before.keys()) if (!present.has(who)) before.delete(who);
      };
      for (const [now, one] of steps.entries()) {
        if ('add' in one) {
          if (waiting.has(one.add)) continue;
          turns.add(one.add, false, now);
          waiting.add(one.add);
          for (const [who] of sides(one.add)) if (!before.has(who)) before.set(who, []);
        } else if ('delete' in one) {
          turns.delete(one.delete);
          waiting.delete(one.delete);
          prune();
        } else if ('blocked' in one) {
          const got = turns.shift((group) => group !== one.blocked);
          assert.equal(
            got === undefined,
            [...waiting].every((other) => groupOf(other) === one.blocked),
          );
          if (got === undefined) continue;
          assert.notEqual(got.group, one.blocked);
          waiting.delete(got.key);
          // Owners and groups have missed turns, so the count begins again.
          for (const who of before.keys()) before.set(who, []);
          prune();
        } else {
          const got = turns.shift();
          assert.equal(got === undefined, waiting.size === 0);
          if (got === undefined) continue;
          waiting.delete(got.key);
          for (const [who, within] of sides(got.key)) {
            for (const [other, had] of before) {
              const isBeside = within === '' ? !other.includes('/') : other.startsWith(`${within}/`);
              if (!isBeside || other === who) continue;
              assert.ok(!had.includes(who), `${other} waits while ${who} has a second turn`);
              had.push(who);
            }
            before.set(who, []);
          }
          prune();
        }
        assert.equal(turns.size, waiting.size);
      }
    }),
  );
});
