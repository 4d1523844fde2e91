import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { DelayHeap } from './delay-heap.ts';

const key = fc.integer({ min: 0, max: 30 }).map((n) => `k${n}`);
const step = fc.oneof(
  fc.record({ do: fc.constant('put' as const), key, at: fc.integer({ min: 0, max: 50 }), low: fc.boolean() }),
  fc.record({ do: fc.constant('delete' as const), key }),
  fc.record({ do: fc.constant('shift' as const), now: fc.integer({ min: 0, max: 50 }) }),
);

test('property: a DelayHeap returns keys in the order of their times; if a key is put twice, the earlier time counts', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200, size: 'max' }), (steps) => {
      const heap = new DelayHeap();
      let model: { key: string; at: number; order: number; low: boolean }[] = [];
      let order = 0;
      for (const step of steps) {
        model.sort((a, b) => a.at - b.at || a.order - b.order);
        if (step.do === 'put') {
          heap.put(step.key, step.at, step.low);
          const known = model.find((entry) => entry.key === step.key);
          if (known === undefined) model.push({ key: step.key, at: step.at, low: step.low, order: order++ });
          else {
            known.low &&= step.low;
            if (step.at < known.at) Object.assign(known, { at: step.at, order: order++ });
          }
        } else if (step.do === 'delete') {
          assert.equal(
            heap.delete(step.key),
            model.some((entry) => entry.key === step.key),
          );
          model = model.filter((entry) => entry.key !== step.key);
        } else {
          const first = model[0];
          const due = first !== undefined && first.at <= step.now ? first : undefined;
          const got = heap.shift(step.now);
          assert.deepEqual(got && [got.key, got.low], due && [due.key, due.low]);
          if (due !== undefined) model.shift();
        }
        assert.equal(heap.size, model.length);
        assert.equal(heap.nextAt, model.length === 0 ? undefined : Math.min(...model.map((entry) => entry.at)));
      }
      heap.clear();
      assert.equal(heap.nextAt, undefined);
    }),
  );
});
