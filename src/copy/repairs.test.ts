import assert from 'node:assert/strict';
import { test } from 'node:test';
import { afterRepair, afterWrite, pauseBefore, pauseOf, type RepairMemory, type Repairs } from './repairs.ts';

test('ten repairs at once, then ever longer pauses, and after a quiet minute as at first', () => {
  let repairs: Repairs | undefined;
  let now = 1000;
  const pauses: number[] = [];
  for (let n = 0; n < 17; n += 1) {
    const pause = pauseOf(repairs, now);
    pauses.push(pause);
    now += pause;
    assert.equal(pauseOf(repairs, now), 0, 'when the pause is over');
    repairs = afterRepair(repairs, now);
  }
  assert.deepEqual(pauses, [...Array<number>(10).fill(0), 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
  assert.equal(pauseOf(repairs, now - 3_600_000), 30_000, 'a clock that was set back');
  assert.equal(pauseOf(repairs, now + 60_000), 0);
  assert.equal(afterRepair(repairs, now + 60_000).count, 1);
});

test('writes that bring a new version of the source are no repairs, however many they are', () => {
  const memory: RepairMemory = {};
  for (let n = 0; n < 100; n += 1) {
    const move = { mode: 'own', version: String(n), isRepair: false } as const;
    assert.equal(pauseBefore(move, memory, n), 0);
    afterWrite(move, memory, n);
  }
  assert.deepEqual(memory, { wrote: { own: '99' } });
});
