/** Tests KeyedQueue with random sequences of adds, runs, failures and waits. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { ManualWorker, makeQueue } from '../../../test/support/manual-worker.ts';
import { assertWithin, Yardstick } from '../../../test/support/yardstick.ts';

type RunEnd = 'end' | 'fail' | 'requeue';
type Step =
  | { readonly do: 'add'; readonly key: string; readonly delayMs: number; readonly low: boolean }
  | { readonly do: RunEnd; readonly pick: number }
  | { readonly do: 'forget'; readonly key: string }
  | { readonly do: 'advance'; readonly ms: number };

const keys = fc.constantFrom('a', 'b', 'c', 'd', 'e');
const steps = fc.array(
  fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        do: fc.constant('add' as const),
        key: keys,
        delayMs: fc.constantFrom(0, 0, 10, 500),
        low: fc.boolean(),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constantFrom('end' as const, 'fail' as const, 'requeue' as const),
        pick: fc.nat(9),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('forget' as const), key: keys }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.constantFrom(0, 5, 60, 1000) }) },
  ),
  { maxLength: 60, size: 'max' },
);

test('property: a KeyedQueue never runs a key twice at a time, never exceeds its concurrency and never loses a key', async () => {
  await fc.assert(
    fc.asyncProperty(
      steps,
      fc.integer({ min: 1, max: 3 }),
      fc.constantFrom(0, 300),
      async (history, concurrency, minIntervalMs) => {
        const { clock, queue } = makeQueue({ onError: () => undefined, minIntervalMs });
        const stage = new ManualWorker();
        /** Keys that must still run: after their last add, failure or requeue no run has started. */
        const owed = new Set<string>();
        const starts = new Map<string, number>();
        queue.start(
          (key, signal) => {
            owed.delete(key);
            const before = starts.get(key);
            if (before !== undefined && minIntervalMs > 0) assert.ok(clock.monotonic() - before >= minIntervalMs);
            starts.set(key, clock.monotonic());
            return stage.worker(key, signal);
          },
          { concurrency },
        );
        const settle = async (step: RunEnd, pick: number): Promise<void> => {
          const key = [...stage.open.keys()][pick % Math.max(1, stage.open.size)];
          if (key === undefined) return;
          if (step === 'end') stage.end(key);
          else {
            if (step === 'fail') stage.fail(key, new Error('no'));
            else stage.end(key, { requeueAfterMs: 700 });
            if (!forgotten.has(key)) owed.add(key);
          }
          forgotten.delete(key);
          await clock.advance(0);
        };
        /** Running keys for which `forget` was called: their outcome is ignored. */
        const forgotten = new Set<string>();
        for (const step of history as Step[]) {
          if (step.do === 'add') {
            queue.add(step.key, { delayMs: step.delayMs, priority: step.low ? 'low' : 'normal' });
            owed.add(step.key);
            forgotten.delete(step.key);
          } else if (step.do === 'forget') {
            queue.forget(step.key);
            // `forget` also drops the cooldown of the key, so the next run may come before the interval is over.
            starts.delete(step.key);
            owed.delete(step.key);
            if (stage.open.has(step.key)) forgotten.add(step.key);
          } else if (step.do === 'advance') await clock.advance(step.ms);
          else await settle(step.do, step.pick);
          const { depth, delayed, running } = queue.metrics();
          assert.equal(running, stage.open.size);
          assert.ok(depth + delayed >= owed.size - running, 'a key is owed a run but nowhere in the queue');
        }
        for (let rounds = 0; (owed.size > 0 || stage.open.size > 0) && rounds < 50; rounds++) {
          for (const key of stage.open.keys()) stage.end(key);
          await clock.advance(5000);
        }
        assert.deepEqual([...owed], []);
        assert.ok(stage.mostAtOnce <= concurrency);
        await queue.idle();
        const { depth, delayed, running } = queue.metrics();
        assert.deepEqual({ depth, delayed, running }, { depth: 0, delayed: 0, running: 0 });
        await queue.stop();
        assert.equal(clock.pendingTimers, 0);
      },
    ),
    { numRuns: 300 },
  );
});

test('property: waiting keys run in the order of their first add, all keys of normal priority before those of low', async () => {
  const wishes = fc.array(fc.record({ key: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'), low: fc.boolean() }), {
    maxLength: 30,
    size: 'max',
  });
  await fc.assert(
    fc.asyncProperty(wishes, async (adds) => {
      const { queue } = makeQueue();
      const normal = new Set<string>();
      const low = new Set<string>();
      for (const add of adds) {
        queue.add(add.key, { priority: add.low ? 'low' : 'normal' });
        if (!add.low) {
          low.delete(add.key);
          normal.add(add.key);
        } else if (!normal.has(add.key)) low.add(add.key);
      }
      const ran: string[] = [];
      queue.start(async (key) => {
        ran.push(key);
      });
      await queue.idle();
      assert.deepEqual(ran, [...normal, ...low]);
      await queue.stop();
    }),
    { numRuns: 200 },
  );
});

test('a KeyedQueue accepts and runs 100,000 keys in linear time', async () => {
  const { queue } = makeQueue();
  const count = 100_000;
  using yardstick = new Yardstick();
  const from = process.threadCpuUsage();
  for (let i = 0; i < count; i++) queue.add(`namespace-${i % 200}/secret-${i}`);
  let ran = 0;
  queue.start(
    async () => {
      ran++;
    },
    { concurrency: 64 },
  );
  await queue.idle();
  assert.equal(ran, count);
  // Measured: 0.25 s on a slow machine. With quadratic time the test would take minutes.
  const { user, system } = process.threadCpuUsage(from);
  assertWithin((user + system) / 1000, 5000, 'the drain', yardstick.stretch);
  await queue.stop();
});
