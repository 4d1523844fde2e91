import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { ByteCache } from './maps.ts';

const key = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g');
const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('set' as const), key, bytes: fc.integer({ min: 0, max: 60 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('get' as const), key }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('delete' as const), key }) },
);

test('property: a ByteCache never exceeds its limit, and evicts only as many entries as needed, least recently used first', () => {
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 100, size: 'max' }),
      fc.integer({ min: 0, max: 100 }),
      (steps, maxBytes) => {
        const cache = new ByteCache<number>({ maxBytes });
        /** The entries that the cache must have, least recently used first. */
        let model: { key: string; bytes: number }[] = [];
        for (const step of steps) {
          const known = model.find((entry) => entry.key === step.key);
          const others = model.filter((entry) => entry.key !== step.key);
          if (step.do === 'get') {
            assert.equal(cache.get(step.key), known?.bytes);
            if (known !== undefined) model = [...others, known];
          } else if (step.do === 'delete') {
            assert.equal(cache.delete(step.key), known !== undefined);
            model = others;
          } else {
            const fits = step.bytes <= maxBytes;
            assert.equal(cache.set(step.key, step.bytes, step.bytes), fits);
            model = others;
            if (fits) {
              while (sum(model) + step.bytes > maxBytes) model.shift();
              model.push({ key: step.key, bytes: step.bytes });
            }
          }
          assert.ok(cache.bytes <= maxBytes);
          assert.equal(cache.bytes, sum(model));
          assert.equal(cache.size, model.length);
        }
        cache.clear();
        assert.deepEqual([cache.bytes, cache.size], [0, 0]);
      },
    ),
  );
});

function sum(entries: readonly { bytes: number }[]): number {
  return entries.reduce((total, entry) => total + entry.bytes, 0);
}
