import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { KeyedLock } from './keyed-lock.ts';

const NEVER = new AbortController().signal;

/** Work that ends when the test decides. */
class Work {
  started = false;
  readonly #end = Promise.withResolvers<string>();

  readonly run = async (): Promise<string> => {
    this.started = true;
    return await this.#end.promise;
  };

  end(result = 'done'): void {
    this.#end.resolve(result);
  }

  fail(error: Error): void {
    this.#end.reject(error);
  }
}

/** Waits until all callbacks of settled promises have run. */
const settled = async (): Promise<void> => await new Promise((resolve) => void setImmediate(resolve));

test('if work under a KeyedLock fails, only its caller gets the error, and the next work of the key starts', async () => {
  const lock = new KeyedLock();
  const [first, second] = [new Work(), new Work()];
  const failed = assert.rejects(lock.run('a', first.run, NEVER), /broken/);
  const next = lock.run('a', second.run, NEVER);
  first.fail(new Error('broken'));
  await failed;
  second.end();
  assert.equal(await next, 'done');
});

test('if work is aborted while it waits for a KeyedLock, it never runs, and the next work still waits for the running work; other keys do not', async () => {
  const lock = new KeyedLock();
  const [first, second, third] = [new Work(), new Work(), new Work()];
  const stop = new AbortController();
  const running = lock.run('a', first.run, NEVER);
  const waiting = assert.rejects(lock.run('a', second.run, stop.signal), { name: 'AbortError' });
  stop.abort();
  await waiting;
  const next = lock.run('a', third.run, NEVER);
  const other = new Work();
  void lock.run('b', other.run, NEVER);
  await settled();
  assert.deepEqual([second.started, third.started, other.started], [false, false, true]);
  first.end();
  third.end();
  await Promise.all([running, next]);
  assert.deepEqual([second.started, third.started], [false, true]);
});

test('property: in any order of calls, ends and aborts, a KeyedLock never runs two calls with the same key at a time', async () => {
  const step = fc.record({ key: fc.constantFrom('a', 'b'), turns: fc.nat(3), abort: fc.boolean(), wait: fc.nat(2) });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
      const lock = new KeyedLock();
      const running = new Map<string, number>();
      const errors: string[] = [];
      const runs: Promise<unknown>[] = [];
      for (const { key, turns, abort, wait } of steps) {
        const stop = new AbortController();
        const work = async (): Promise<void> => {
          const now = (running.get(key) ?? 0) + 1;
          assert.equal(now, 1);
          running.set(key, now);
          for (let turn = 0; turn < turns; turn += 1) await settled();
          running.set(key, 0);
        };
        runs.push(lock.run(key, work, stop.signal).catch((error: Error) => errors.push(error.name)));
        for (let turn = 0; turn < wait; turn += 1) await settled();
        if (abort) stop.abort();
      }
      await Promise.all(runs);
      assert.deepEqual(
        errors.filter((name) => name !== 'AbortError'),
        [],
      );
    }),
  );
});
