import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Memory, TargetMemory } from './target-memory.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { ObjectKey } from '../../model/keys.ts';

const TARGET: ObjectKey = asKey('c:Secret/a/b');
const REPAIRS = { count: 1, at: 0 };
const CONTENT = { digest: 'd', keys: 'k', type: 'Opaque' };
/** Every field that depends on claims. */
const OF_CLAIMS: Memory = {
  held: CONTENT,
  heldVersion: '1',
  immutable: true,
  type: 'Opaque',
  cleared: true,
  repairs: REPAIRS,
  overwritten: REPAIRS,
  wrote: { own: '1' },
};

test('a target that is no longer immutable is not remembered as immutable', () => {
  const memory = new TargetMemory();
  memory.storeHeld(TARGET, '1', CONTENT, true);
  assert.equal(memory.get(TARGET)?.immutable, true);
  memory.storeHeld(TARGET, '2', CONTENT, false);
  assert.equal(memory.get(TARGET)?.immutable, undefined);
});

test('the memory of a target that no rule claims is empty, except for a deletion or a watch that is not over', () => {
  const memory = new TargetMemory();
  Object.assign(memory.edit(TARGET), OF_CLAIMS);
  memory.removeIfEmpty(TARGET, true);
  assert.deepEqual(memory.get(TARGET), OF_CLAIMS);
  memory.removeIfEmpty(TARGET, false);
  assert.equal(memory.get(TARGET), undefined);
  Object.assign(memory.edit(TARGET), OF_CLAIMS, { deleted: 'uid', watchedByName: true });
  memory.removeIfEmpty(TARGET, false);
  assert.deepEqual(memory.get(TARGET), { deleted: 'uid', watchedByName: true });
});
