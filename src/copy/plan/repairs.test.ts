import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  recordOverwritten,
  countRepair,
  recordWrite,
  pauseAfterOverwritten,
  pauseBeforeWrite,
  pauseBeforeRepair,
  type RepairMemory,
  type Repairs,
} from './repairs.ts';

test('the first ten repairs of a target wait for nothing, the next ones for growing pauses; after a minute without a repair the count restarts', () => {
  let repairs: Repairs | undefined;
  let now = 1000;
  const pauses: number[] = [];
  for (let n = 0; n < 17; n += 1) {
    const pause = pauseBeforeRepair(repairs, now);
    pauses.push(pause);
    now += pause;
    assert.equal(pauseBeforeRepair(repairs, now), 0, 'when the pause is over');
    repairs = countRepair(repairs, now);
  }
  assert.deepEqual(pauses, [...Array<number>(10).fill(0), 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
  assert.equal(pauseBeforeRepair(repairs, now - 3_600_000), 30_000, 'a clock that was set back');
  assert.equal(pauseBeforeRepair(repairs, now + 60_000), 0);
  assert.equal(countRepair(repairs, now + 60_000).count, 1);
});

test('writes of new versions of the source never count as repairs, however many there are', () => {
  const memory: RepairMemory = {};
  for (let n = 0; n < 100; n += 1) {
    const attempt = { mode: 'own', version: String(n), isRepair: false, isNew: false } as const;
    assert.equal(pauseBeforeWrite(attempt, memory, n), 0);
    recordWrite(attempt, memory, n);
  }
  assert.deepEqual(memory, { wrote: '99' });
});

test("if the server keeps changing Keyferry's writes, the first two follow at once, the next ones after growing pauses", () => {
  const memory: RepairMemory = {};
  const repair = { mode: 'own', version: '1', isRepair: true, isNew: false } as const;
  let now = 1000;
  const pauses: number[] = [];
  for (let n = 0; n < 10; n += 1) {
    const pause = pauseBeforeWrite(repair, memory, now);
    assert.equal(pause, pauseAfterOverwritten(memory.overwritten, now));
    pauses.push(pause / 1000);
    now += pause;
    recordOverwritten(memory, now);
  }
  assert.deepEqual(pauses, [0, 0, 5, 10, 20, 40, 80, 160, 300, 300]);
  assert.equal(pauseBeforeWrite(repair, memory, now - 3_600_000), 300_000, 'a clock that was set back');
  // The pause holds neither for a new version of the source nor for a copy that is missing.
  assert.equal(pauseBeforeWrite({ ...repair, version: '2', isRepair: false }, memory, now), 0);
  assert.equal(pauseBeforeWrite({ ...repair, isNew: true }, memory, now), 0);
});
