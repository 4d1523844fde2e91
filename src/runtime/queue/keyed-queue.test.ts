import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { ManualWorker, makeQueue } from '../../../test/support/manual-worker.ts';

test('if a waiting key is added again several times, it runs only one time', async () => {
  const { queue } = makeQueue();
  const ran: string[] = [];
  for (const key of ['a', 'b', 'a', 'a', 'b']) queue.add(key);
  assert.equal(queue.metrics().depth, 2);
  queue.start(async (key) => {
    ran.push(key);
  });
  await queue.idle();
  assert.deepEqual(ran, ['a', 'b']);
  await queue.stop();
});

test('if a key is added twice while it runs, it runs one more time afterwards', async () => {
  const { clock, queue } = makeQueue();
  const stage = new ManualWorker();
  queue.start(stage.worker, { concurrency: 4 });
  queue.add('a');
  await clock.advance(0);
  queue.add('a');
  queue.add('a');
  await clock.advance(0);
  assert.deepEqual(stage.ran, ['a']);
  stage.end('a');
  await clock.advance(0);
  assert.deepEqual(stage.ran, ['a', 'a']);
  stage.end('a');
  await queue.idle();
  await queue.stop();
});

test('a group of keys may use all free workers, but its runs beyond its share delay no other group', async () => {
  const { clock, queue } = makeQueue({ groupOf: (key) => key.slice(0, 1), onError: () => undefined });
  const stage = new ManualWorker();
  queue.start(stage.worker, { concurrency: 6 });
  for (let index = 0; index < 9; index += 1) queue.add(`a${index}`);
  await clock.advance(0);
  assert.deepEqual(stage.ran.splice(0), ['a0', 'a1', 'a2', 'a3', 'a4', 'a5']);
  for (const key of ['b0', 'b1', 'b2', 'c0', 'c1', 'c2']) queue.add(key, { priority: 'low' });
  await clock.advance(0);
  // The share of a group is 6 / 3 = 2. So 4 runs of `a` are beyond its share, and 4 more runs may start.
  assert.deepEqual(stage.ran.splice(0), ['b0', 'c0', 'b1', 'c1']);
  for (const key of ['a0', 'a1', 'a2', 'a3']) stage.end(key);
  await clock.advance(0);
  assert.deepEqual(stage.ran.splice(0), [], 'a, b and c have their shares');
  stage.fail('a4', new Error('failed'));
  await clock.advance(0);
  assert.deepEqual(stage.ran.splice(0), ['a6'], 'a group below its share comes first, and a failed run has ended');
  stage.end('b0');
  stage.end('c0');
  await clock.advance(0);
  assert.deepEqual(stage.ran.splice(0), ['b2', 'c2']);
  for (const key of ['b1', 'b2', 'c1', 'c2']) stage.end(key);
  await clock.advance(0);
  assert.deepEqual(stage.ran, ['a7', 'a8']);
  await queue.stop();
});

test('property: a group with fewer runs than its share of the workers never waits for runs of another group', async () => {
  const groups = ['a', 'b', 'c'];
  const step = fc.oneof(
    fc.record({ add: fc.constantFrom(...groups), count: fc.integer({ min: 1, max: 9 }) }),
    fc.record({ end: fc.constantFrom(...groups) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), fc.integer({ min: 1, max: 9 }), async (steps, concurrency) => {
      const { clock, queue } = makeQueue({ groupOf: (key) => key.slice(0, 1) });
      const stage = new ManualWorker();
      queue.start(stage.worker, { concurrency });
      const added = new Map<string, number>(groups.map((group) => [group, 0]));
      const share = Math.ceil(concurrency / 3);
      const runsOf = (group: string): string[] => [...stage.open.keys()].filter((key) => key.startsWith(group));
      for (const one of steps) {
        if ('end' in one) for (const key of runsOf(one.end).slice(0, 1)) stage.end(key);
        else {
          for (let left = one.count; left > 0; left -= 1) {
            const number = added.get(one.add)!;
            added.set(one.add, number + 1);
            queue.add(`${one.add}${number}`);
          }
        }
        await clock.advance(0);
        const counted = groups.reduce((sum, group) => sum + Math.min(share, runsOf(group).length), 0);
        const waiting = groups.filter((group) => {
          return added.get(group)! > stage.ran.filter((key) => key.startsWith(group)).length;
        });
        for (const group of waiting) {
          if (runsOf(group).length < share)
            assert.ok(counted >= concurrency, `${group} waits beside ${[...stage.open.keys()].join()}`);
          else assert.ok(stage.open.size >= concurrency, `${group} waits for nothing`);
        }
        assert.ok(stage.open.size <= 2 * concurrency - share);
      }
      await queue.stop();
    }),
    { numRuns: 300 },
  );
});

test('keys of normal priority run before keys of low; a waiting key of low priority that is added as normal becomes normal', async () => {
  const { queue } = makeQueue();
  const ran: string[] = [];
  for (const key of ['l1', 'l2', 'l3']) queue.add(key, { priority: 'low' });
  queue.add('n1');
  queue.add('l2');
  queue.add('n1', { priority: 'low' });
  queue.start(async (key) => {
    ran.push(key);
  });
  await queue.idle();
  assert.deepEqual(ran, ['n1', 'l2', 'l1', 'l3']);
  await queue.stop();
});

test('if a key is added with several delays, the shortest counts; an add without a delay ends the wait', async () => {
  const { clock, queue } = makeQueue();
  const ran: [string, number][] = [];
  queue.start(async (key) => {
    ran.push([key, clock.monotonic()]);
  });
  queue.add('a', { delayMs: 500 });
  queue.add('a', { delayMs: 200 });
  queue.add('a', { delayMs: 900 });
  queue.add('b', { delayMs: 300 });
  queue.add('c', { delayMs: 5000 });
  assert.equal(queue.metrics().delayed, 3);
  assert.equal(clock.pendingTimers, 1);
  queue.add('b');
  await clock.advance(10_000);
  assert.deepEqual(ran, [
    ['b', 0],
    ['a', 200],
    ['c', 5000],
  ]);
  assert.equal(clock.pendingTimers, 0);
  await queue.stop();
});

test('if a run returns requeueAfterMs, the key runs again after that time; an earlier add replaces that run', async () => {
  const { clock, queue } = makeQueue();
  const ran: number[] = [];
  queue.start(async () => {
    ran.push(clock.monotonic());
    return ran.length <= 2 ? { requeueAfterMs: 1000 } : undefined;
  });
  queue.add('a');
  await clock.advance(400);
  queue.add('a');
  await clock.advance(10_000);
  assert.deepEqual(ran, [0, 400, 1400]);
  await queue.stop();
});

test('a key whose runs fail is retried after growing waits; after a success the waits start again with the first', async () => {
  const failures: [number | undefined, number][] = [];
  const { clock, queue } = makeQueue({
    onError: (_key, _error, retryInMs, attempt) => failures.push([retryInMs, attempt]),
  });
  const ran: number[] = [];
  let broken = true;
  queue.start(async () => {
    ran.push(clock.monotonic());
    if (broken) throw new Error('no');
  });
  queue.add('a');
  await clock.advance(50 + 100 + 200);
  assert.deepEqual(ran, [0, 50, 150, 350]);
  assert.deepEqual(failures, [
    [50, 1],
    [100, 2],
    [200, 3],
    [400, 4],
  ]);
  broken = false;
  await clock.advance(400);
  assert.equal(queue.isUnused, true);
  broken = true;
  queue.add('a');
  await clock.advance(0);
  assert.deepEqual(failures.at(-1), [50, 1]);
  assert.equal(queue.metrics().retries, 5);
  await queue.stop();
});

test('each key has its own back-off: failures and successes of other keys do not change it', async () => {
  const waits: (number | undefined)[] = [];
  const { clock, queue } = makeQueue({ onError: (_key, _error, retryInMs) => waits.push(retryInMs) });
  let healed = '';
  queue.start(async (key) => {
    if (key !== healed) throw new Error('no');
  });
  queue.add('a');
  await clock.advance(50);
  queue.add('b');
  await clock.advance(0);
  assert.deepEqual(waits.splice(0), [50, 100, 50], 'a, a, b');
  healed = 'a';
  await clock.advance(100);
  assert.deepEqual(waits.splice(0), [100], 'b');
  healed = 'b';
  queue.add('a');
  await clock.advance(0);
  assert.deepEqual(waits.splice(0), [50], 'a, after its success');
  await clock.advance(100);
  healed = 'a';
  await clock.advance(1000);
  assert.equal(queue.isUnused, true);
  await queue.stop();
});

test('if a run fails with a Retry-After, the key does not run before that time, not even after an add', async () => {
  const { clock, queue } = makeQueue({ onError: () => undefined });
  const ran: number[] = [];
  queue.start(async () => {
    ran.push(clock.monotonic());
    if (ran.length === 1) throw Object.assign(new Error('too many requests'), { retryAfterMs: 3000 });
  });
  queue.add('a');
  await clock.advance(100);
  queue.add('a');
  await clock.advance(10_000);
  assert.deepEqual(ran, [0, 3000]);
  await queue.stop();
});

test('an add ends a long back-off, but if a run fails and adds its own key, the next run waits for the first back-off step', async () => {
  const { clock, queue } = makeQueue({ onError: () => undefined });
  const ran: number[] = [];
  queue.start(async (key) => {
    ran.push(clock.monotonic());
    queue.add(key);
    throw new Error('no');
  });
  queue.add('a');
  await clock.advance(10_000);
  assert.ok(ran.length <= 10_000 / 50, `${ran.length} runs`);
  const before = ran.length;
  queue.add('a');
  await clock.advance(100);
  assert.ok(ran.length > before, 'news was not acted on within the first back-off step');
  await queue.stop();
});

test('with minIntervalMs, the first add of a key runs at once, and further adds within the interval share one run', async () => {
  const { clock, queue } = makeQueue({ minIntervalMs: 1000 });
  const seen: [number, string][] = [];
  let state = '';
  const write = (to: string): void => {
    state = to;
    queue.add('a');
  };
  queue.start(async () => {
    seen.push([clock.monotonic(), state]);
  });
  write('1');
  await clock.advance(100);
  write('2');
  await clock.advance(100);
  write('3');
  await clock.advance(1000);
  await clock.advance(5000);
  write('4');
  await clock.advance(0);
  assert.deepEqual(seen, [
    [0, '1'],
    [1000, '3'],
    [6200, '4'],
  ]);
  await queue.stop();
});

test('keys wait until start() is called, and metrics report the longest wait and the longest run', async () => {
  const { clock, queue } = makeQueue();
  const stage = new ManualWorker();
  queue.add('a');
  queue.add('b', { delayMs: 10 });
  await clock.advance(100);
  assert.deepEqual(stage.ran, []);
  assert.equal(queue.metrics().depth, 2);
  assert.equal(queue.metrics().oldestWaitingMs, 100);
  queue.start(stage.worker, { concurrency: 2 });
  await clock.advance(30);
  assert.deepEqual(stage.ran, ['a', 'b']);
  assert.equal(queue.metrics().longestRunningMs, 30);
  stage.end('a');
  stage.end('b');
  await queue.idle();
  await queue.stop();
});

test('forget() drops the pending runs and the failures of a key; a run that has begun is not repeated', async () => {
  const retries: (number | undefined)[] = [];
  const { clock, queue } = makeQueue({ onError: (_key, _error, retryInMs) => retries.push(retryInMs) });
  const stage = new ManualWorker();
  queue.start(stage.worker, { concurrency: 2 });
  queue.add('a');
  queue.add('b');
  await clock.advance(0);
  queue.add('a');
  queue.add('b', { delayMs: 10 });
  queue.add('c', { delayMs: 10 });
  for (const key of ['a', 'b', 'c']) queue.forget(key);
  stage.fail('a', new Error('gone'));
  stage.end('b', { requeueAfterMs: 5 });
  await clock.advance(100_000);
  assert.deepEqual(stage.ran, ['a', 'b']);
  assert.deepEqual(retries, [undefined]);
  queue.add('a');
  await clock.advance(0);
  assert.deepEqual(stage.ran, ['a', 'b', 'a']);
  queue.forget('a');
  queue.add('a');
  stage.end('a');
  await clock.advance(0);
  assert.equal(stage.ran.length, 4, 'an add after forget counts');
  await queue.stop();
});

test('stop() waits for running keys, then aborts them, and returns the keys that ignore the signal', async () => {
  const { clock, queue } = makeQueue({ onError: () => undefined });
  const aborted: [string, number][] = [];
  let endQuick = (): void => undefined;
  queue.start(
    (key, signal) => {
      signal.addEventListener('abort', () => aborted.push([key, clock.monotonic()]));
      return new Promise<void>((resolve, reject) => {
        if (key === 'quick') endQuick = resolve;
        if (key === 'polite') signal.addEventListener('abort', () => reject(signal.reason as Error));
      });
    },
    { concurrency: 3 },
  );
  for (const key of ['quick', 'polite', 'deaf', 'never started']) queue.add(key);
  await clock.advance(0);
  const stopped = queue.stop({ drainMs: 500, graceMs: 200 });
  assert.equal(queue.stop(), stopped);
  queue.add('late');
  await clock.advance(100);
  endQuick();
  await clock.advance(1000);
  assert.deepEqual(await stopped, ['deaf']);
  assert.deepEqual(aborted, [
    ['quick', 500],
    ['polite', 500],
    ['deaf', 500],
  ]);
  assert.equal(clock.pendingTimers, 0);
  await queue.idle();
});

test('if no key runs, stop() ends at once and drops waiting and delayed keys', async () => {
  const { clock, queue } = makeQueue();
  queue.add('a');
  queue.add('b', { delayMs: 10 });
  assert.deepEqual(await queue.stop({ drainMs: 10_000 }), []);
  assert.equal(clock.pendingTimers, 0);
});

test('a negative delayMs, a requeueAfterMs of NaN and a second start() are errors that name the mistake', async () => {
  const errors: unknown[] = [];
  const { clock, queue } = makeQueue({ onError: (_key, error) => errors.push(error) });
  queue.start(async () => ({ requeueAfterMs: Number.NaN }));
  assert.throws(() => queue.start(async () => undefined), /started twice/);
  assert.throws(() => queue.add('a', { delayMs: -5 }), /delayMs must be 0 or more, got -5/);
  queue.add('a');
  await clock.advance(0);
  assert.match(String(errors[0]), /requeueAfterMs must be 0 or more, got NaN/);
  await queue.stop();
});

test('if a wait for idle() is aborted, the queue still runs its keys', async () => {
  const { queue } = makeQueue();
  queue.add('a');
  await assert.rejects(queue.idle(AbortSignal.abort()), /aborted while waiting for queue test to be idle/);
  queue.start(async () => undefined);
  await queue.idle();
  await queue.stop();
});

test('a worker gets the time when its run was requested; after failures, when the first failed run was requested', async () => {
  const { clock, queue } = makeQueue({ onError: () => undefined });
  const told: [string, number][] = [];
  let fails = 2;
  const start = clock.monotonic();
  queue.add('a');
  await clock.advance(40);
  queue.add('a');
  queue.start(async (key, _signal, since) => {
    told.push([key, since - start]);
    if (fails-- > 0) throw new Error('not yet');
  });
  await clock.advance(5000);
  assert.deepEqual(told, [
    ['a', 0],
    ['a', 0],
    ['a', 0],
  ]);
  const later = clock.monotonic() - start;
  queue.add('a');
  await queue.idle();
  assert.deepEqual(told.at(-1), ['a', later], 'after a success the time starts again');
  fails = 1;
  queue.add('a');
  await queue.idle();
  queue.forget('a');
  await clock.advance(700);
  queue.add('a');
  await queue.idle();
  assert.deepEqual(told.at(-1), ['a', later + 700], 'and when the key was forgotten');
  await queue.stop();
});
