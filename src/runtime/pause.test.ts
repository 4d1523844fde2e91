/** Tests that long work does not block the event loop, even if much long work is done at the same time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { pause } from './pause.ts';

/** One step of long work: blocks the event loop for a short time. */
function step(ms: number): void {
  for (const end = process.threadCpuUsage().user + ms * 1000; process.threadCpuUsage().user < end;);
}

test('of much long work, each turn of the event loop does one slice and one step', async () => {
  let steps = 0;
  const left = new Set(Array.from({ length: 8 }, (_, index) => index));
  const work = async (index: number): Promise<void> => {
    for (let count = 0; count < 10; count += 1) {
      step(2);
      steps += 1;
      await pause();
    }
    left.delete(index);
  };
  for (let index = 0; index < 8; index += 1) void work(index);
  const turns: number[] = [];
  for (let before = steps; left.size > 0; before = steps) {
    await nextTurn();
    turns.push(steps - before);
  }
  assert.equal(steps, 80);
  // The first turn has the first step of each work. Another one may have the end of one slice and the whole next one.
  assert.ok(Math.max(...turns.slice(1)) <= 6, `${turns.join(' ')} steps in a turn`);
});

test('while long work never ends, short work gets its slices', async () => {
  let steps = 0;
  const stop = new AbortController();
  const endless = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      step(2);
      steps += 1;
      await pause();
    }
  };
  const long = [endless(), endless()];
  for (let index = 0; index < 10; index += 1) await pause();
  assert.ok(steps <= 10 * 2 * 4, `${steps} steps of others`);
  stop.abort();
  await Promise.all(long);
});

test('short work does not wait', async () => {
  await nextTurn();
  await nextTurn();
  assert.equal(pause(), undefined);
});

test('work that got a slice keeps it for many short steps, although others wait', async () => {
  const stop = new AbortController();
  const endless = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      step(6);
      await pause();
    }
  };
  const long = [endless(), endless(), endless()];
  let waits = 0;
  for (let index = 0; index < 20; index += 1) {
    const wait = pause();
    if (wait !== undefined) waits += 1;
    await wait;
  }
  assert.ok(waits > 0 && waits <= 3, `it waited ${waits} times`);
  stop.abort();
  await Promise.all(long);
});
