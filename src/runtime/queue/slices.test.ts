/** Tests that long work does not block the event loop, even if much long work is done at the same time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { finish, Slices, type Steps, TooLongError } from './slices.ts';

/** A clock that moves only when the work of a test spends time. */
function workClock(): { monotonic(): number; spend(ms: number): void } {
  let now = 0;
  return { monotonic: () => now, spend: (ms) => (now += ms) };
}

test('eight tasks in slices together block the event loop for at most one slice and one step', async () => {
  const clock = workClock();
  const slices = new Slices(clock);
  function* work(): Steps<string> {
    for (let step = 0; step < 20; step += 1) {
      clock.spend(4);
      yield;
    }
    return 'done';
  }
  const turns: number[] = [];
  const results: string[] = [];
  for (let index = 0; index < 8; index += 1) void slices.run(work()).then((result) => results.push(result));
  for (let before = 0; results.length < 8; before = clock.monotonic()) {
    await nextTurn();
    turns.push(clock.monotonic() - before);
  }
  assert.deepEqual(new Set(results), new Set(['done']));
  assert.equal(clock.monotonic(), 8 * 20 * 4);
  // One turn, as this loop sees it, may contain the end of one slice and the whole next slice.
  assert.ok(Math.max(...turns) <= 2 * (10 + 4), `${Math.max(...turns)} ms in one turn`);
});

test('if the signal is aborted, work in slices ends at its next pause; an error of the work reaches the caller', async () => {
  const clock = workClock();
  const slices = new Slices(clock);
  const stop = new AbortController();
  function* endless(): Steps<never> {
    for (;;) {
      clock.spend(4);
      if (clock.monotonic() > 100) stop.abort(new Error('enough'));
      yield;
    }
  }
  await assert.rejects(slices.run(endless(), stop.signal), /enough/u);
  // oxlint-disable-next-line require-yield -- it throws before it could yield
  function* failing(): Steps<never> {
    throw new Error('no');
  }
  await assert.rejects(slices.run(failing()), /no/u);
  assert.throws(() => finish(failing()), /no/u);
});

test('work in slices that exceeds its time limit is stopped; the time of other work does not count', async () => {
  const clock = workClock();
  const slices = new Slices(clock);
  function* work(steps: number): Steps<number> {
    for (let step = 0; step < steps; step += 1) {
      clock.spend(4);
      yield;
    }
    return steps;
  }
  const long = slices.run(work(1000));
  assert.equal(await slices.run(work(7), undefined, 30), 7);
  await assert.rejects(slices.run(work(1000), undefined, 30), TooLongError);
  assert.equal(await long, 1000);
});

test('while two tasks in slices never end, short work still gets its slices', async () => {
  const clock = workClock();
  const slices = new Slices(clock);
  const stop = new AbortController();
  function* endless(): Steps<never> {
    for (;;) {
      clock.spend(4);
      yield;
    }
  }
  const long = Promise.allSettled([slices.run(endless(), stop.signal), slices.run(endless(), stop.signal)]);
  for (let index = 0; index < 10; index += 1) await slices.pause();
  assert.ok(clock.monotonic() < 10 * 3 * 16, `${clock.monotonic()} ms of others' work`);
  stop.abort(new Error('enough'));
  await long;
});
