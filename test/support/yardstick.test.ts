/** The yardstick makes time limits longer on a slow machine, and work that is really slow still fails. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { failOnLeaks } from './leaks.ts';
import { within, withinCpu } from './yardstick.ts';

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const busy = (steps: number): number => {
  let sum = 0;
  for (let step = 0; step < steps; step += 1) sum = (sum * 31 + step) % 65_521;
  return sum;
};

test('if the work is too slow, within() fails, and its message has the factor of the machine', async () => {
  await assert.rejects(
    within(1, 'the work', () => sleep(3000)),
    /the work took \d+ ms; the limit is 1 ms on an idle machine, this one was [\d.]+ times slower/,
  );
  assert.equal(await within(60_000, 'nothing', () => 7), 7);
});

test('withinCpu() fails if the work needs too much CPU time, and does not count time in which it waits', () => {
  assert.throws(() => withinCpu(20, 'much', () => busy(300_000_000)), /the computing of much took \d+ ms/);
  assert.equal(
    withinCpu(20, 'little', () => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
      return busy(1000);
    }),
    busy(1000),
  );
});

failOnLeaks();
