import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { AbortedError } from '../../../runtime/abort.ts';
import { type Memory, TargetMemory, UnlabelledCopies } from './target-memory.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { ObjectKey } from '../../model/keys.ts';

const TARGET: ObjectKey = asKey('c:Secret/a/b');
const REPAIRS = { count: 1, at: 0 };
const CONTENT = { digest: 'd', keys: 'k', type: 'Opaque' };
/** Every field that depends on claims. */
const OF_CLAIMS: Memory = {
  held: { fingerprint: CONTENT, immutable: true, type: 'Opaque' },
  heldVersion: '1',
  cleared: true,
  repairs: REPAIRS,
  overwritten: REPAIRS,
  wrote: '1',
  filled: '1',
};

/** What is remembered of the target, the version of its content apart. */
function usedFields(memory: TargetMemory): Partial<Memory> {
  const { heldVersion: _, ...fields } = memory.get(TARGET) ?? {};
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== false));
}

test('a target that is no longer immutable is not remembered as immutable, and keeps its type', () => {
  const memory = new TargetMemory();
  memory.storeContent(TARGET, { version: '1', fingerprint: CONTENT, immutable: true, type: 'Opaque' });
  assert.equal(memory.heldOf(TARGET)?.immutable, true);
  memory.storeContent(TARGET, { version: '2', fingerprint: CONTENT, immutable: false });
  assert.deepEqual(memory.heldOf(TARGET), { version: '2', fingerprint: CONTENT, immutable: false, type: 'Opaque' });
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
  assert.deepEqual(usedFields(memory), { deleted: 'uid', watchedByName: true });
});

test('of a target that is gone, neither the deletion nor the content is remembered, only that we deleted it', () => {
  const memory = new TargetMemory();
  memory.storeContent(TARGET, { version: '1', fingerprint: CONTENT, immutable: true, type: 'Opaque' });
  memory.objectGone(TARGET);
  assert.deepEqual(usedFields(memory), {}, 'another client deleted it');
  memory.storeContent(TARGET, { version: '2', fingerprint: CONTENT, immutable: true, type: 'Opaque' });
  memory.edit(TARGET).deleted = 'uid';
  memory.objectGone(TARGET);
  assert.deepEqual(usedFields(memory), { cleared: true });
});

const OTHER: ObjectKey = asKey('c:Secret/a/other');
const { signal } = new AbortController();

test('targets wait until the first one has ended, and are created without a read if no copy was found', async () => {
  const copies = new UnlabelledCopies();
  assert.equal(await copies.areExpected(TARGET, signal), false);
  let isAnswered = false;
  const answer = copies.areExpected(OTHER, signal).finally(() => (isAnswered = true));
  copies.ended(OTHER);
  await setImmediate();
  assert.equal(isAnswered, false, 'the first target has not ended');
  copies.ended(TARGET);
  await setImmediate();
  assert.equal(isAnswered, true, 'the others do not wait for the time limit');
  assert.equal(await answer, false);
});

test('a target does not wait longer than a second for the first one, and an abort ends the wait', async () => {
  const copies = new UnlabelledCopies();
  await copies.areExpected(TARGET, signal);
  await assert.rejects(copies.areExpected(OTHER, AbortSignal.abort()), AbortedError);
  assert.equal(await copies.areExpected(OTHER, signal), false);
});

test('after a copy was found, targets are read before they are created, until 8 reads have found none', async () => {
  const copies = new UnlabelledCopies();
  const areExpected = async (): Promise<boolean> => await copies.areExpected(TARGET, signal);
  copies.missed();
  assert.equal(await areExpected(), false);
  copies.found();
  for (let n = 0; n < 8; n += 1) {
    assert.equal(await areExpected(), true, `after ${n} reads`);
    copies.missed();
  }
  assert.equal(await areExpected(), false);
});
