import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Memory, TargetMemory, TargetRun } from './target-memory.ts';
import { asKey } from '../../../../test/support/keys.ts';
import { observedObject } from '../../../../test/support/observed-object.ts';
import type { ObjectKey } from '../../model/keys.ts';
import { SECRET } from '../../model/kind.ts';
import type { Observed } from '../../model/observed.ts';
import type { KubeStore } from '../objects/store.ts';

const { signal } = new AbortController();
const TARGET: ObjectKey = asKey('c:Secret/a/b');
const REPAIRS = { count: 1, at: 0 };
const CONTENT = { digest: 'd', keys: 'k', type: 'Opaque' };
/** A memory with all fields that are only needed while a rule claims the target. */
const OF_CLAIMS: Memory = {
  held: { version: '1', fingerprint: CONTENT, immutable: true, type: 'Opaque' },
  cleared: true,
  repairs: REPAIRS,
  overwritten: REPAIRS,
  wrote: '1',
  wroteAs: 's',
  filled: '1',
  filledAs: 's',
};

/** The fields in the memory of the target that are in use. */
function usedFields(memory: TargetMemory): Partial<Memory> {
  const fields = memory.get(TARGET) ?? {};
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== false));
}

test('if a target is no longer immutable, the memory has it as mutable, and still knows its type', () => {
  const memory = new TargetMemory();
  memory.storeContent(TARGET, { version: '1', fingerprint: CONTENT, immutable: true, type: 'Opaque' });
  assert.equal(memory.get(TARGET)?.held?.immutable, true);
  for (const type of [undefined, '']) {
    memory.storeContent(TARGET, { version: '2', fingerprint: CONTENT, immutable: false, type });
    assert.deepEqual(memory.get(TARGET)?.held, {
      version: '2',
      fingerprint: CONTENT,
      immutable: false,
      type: 'Opaque',
    });
  }
});

test('of a target that no rule claims, the memory keeps only that its deletion is not confirmed yet, or that it is watched by name', () => {
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

test('of a target that no longer exists, the memory keeps only the fact that Keyferry deleted it', () => {
  const memory = new TargetMemory();
  memory.storeContent(TARGET, { version: '1', fingerprint: CONTENT, immutable: true, type: 'Opaque' });
  memory.objectGone(TARGET);
  assert.deepEqual(usedFields(memory), {}, 'another client deleted it');
  memory.storeContent(TARGET, { version: '2', fingerprint: CONTENT, immutable: true, type: 'Opaque' });
  memory.edit(TARGET).deleted = 'uid';
  memory.objectGone(TARGET);
  assert.deepEqual(usedFields(memory), { cleared: true });
});

/** A run for a target of which the index has this object. */
function runOn(indexed: Observed | undefined, memory = new TargetMemory()): TargetRun {
  const store = {
    index: { find: () => indexed },
    isKnown: () => true,
    heldIn: () => undefined,
    kind: SECRET,
  } as unknown as KubeStore;
  return new TargetRun(TARGET, signal, store, memory);
}

test('a target that Keyferry deleted is going away until a watch or a read shows another object with its name', () => {
  const memory = new TargetMemory();
  const old = observedObject({ uid: 'old', resourceVersion: '1' });
  const isGoingAway = (indexed: Observed | undefined, read?: Observed | null): boolean => {
    const run = runOn(indexed, memory);
    run.lastRead = read;
    return run.state().goingAway;
  };
  assert.equal(isGoingAway(old), false);
  memory.edit(TARGET).deleted = 'old';
  assert.equal(isGoingAway(old), true);
  assert.equal(isGoingAway(old, observedObject({ uid: 'new', resourceVersion: '2' })), false, 'it was made again');
  assert.equal(isGoingAway(undefined), false);
});

test('of the object in the index and the object that the run has read, the newer one counts, in both orders', () => {
  const versions = [undefined, '9', '10', '11'];
  for (const indexed of versions) {
    for (const read of versions) {
      const objectAt = (resourceVersion: string | undefined): Observed | undefined =>
        resourceVersion === undefined ? undefined : observedObject({ resourceVersion });
      const run = runOn(objectAt(indexed));
      run.lastRead = objectAt(read) ?? null;
      const newer = Math.max(Number(indexed ?? 0), Number(read ?? 0));
      assert.equal(run.state().observed?.resourceVersion, newer === 0 ? undefined : String(newer));
    }
  }
});
