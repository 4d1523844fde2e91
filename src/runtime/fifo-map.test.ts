import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import * as fc from 'fast-check';
import { FifoMap } from './maps.ts';

const key = fc.integer({ min: 0, max: 20 }).map((n) => `k${n}`);
const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('set' as const), key, value: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('delete' as const), key }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('shift' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('clear' as const) }) },
);

test('property: FifoMap.shift() removes and returns the oldest entry; all else is as in a Map', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200, size: 'max' }), (steps) => {
      const fifo = new FifoMap<number>();
      const model = new Map<string, number>();
      for (const step of steps) {
        if (step.do === 'set') {
          fifo.set(step.key, step.value);
          model.set(step.key, step.value);
        } else if (step.do === 'delete') assert.equal(fifo.delete(step.key), model.delete(step.key));
        else if (step.do === 'clear') {
          fifo.clear();
          model.clear();
        } else {
          const first = model.entries().next().value;
          assert.deepEqual(fifo.shift(), first);
          if (first !== undefined) model.delete(first[0]);
        }
        assert.equal(fifo.size, model.size);
      }
      assert.deepEqual([...fifo.entries()], [...model.entries()]);
    }),
  );
});

test('if entries of a FifoMap are deleted after a shift, the FifoMap no longer keeps their values in memory', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const fifo = new FifoMap<object>();
  const refs: WeakRef<object>[] = [];
  for (let n = 0; n < 1000; n += 1) {
    const value = { n };
    refs.push(new WeakRef(value));
    fifo.set(`k${n}`, value);
  }
  fifo.shift();
  for (let n = 1; n < 999; n += 1) fifo.delete(`k${n}`);
  // A new WeakRef keeps its value alive until the current turn of the event loop ends.
  await setImmediate();
  collect();
  assert.equal(refs.filter((ref) => ref.deref() !== undefined).length, 1);
});
