import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Backoff, RECONNECT } from './backoff.ts';
import { fixRandom } from '../../../test/support/fixed-random.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';

const randoms = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

test('property: every wait of a back-off is within its limits, and not shorter than a Retry-After', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 5000 }),
      fc.integer({ min: 1, max: 100 }),
      fc.array(fc.tuple(randoms, fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 200_000 }))), {
        maxLength: 2000,
        size: 'max',
      }),
      (baseMs, times, tries) => {
        const maxMs = baseMs * times;
        const backoff = new Backoff({ baseMs, maxMs });
        for (const [index, [nextRandom, floorMs]] of tries.entries()) {
          fixRandom(nextRandom);
          const ceiling = Math.min(maxMs, baseMs * 2 ** index);
          const wait = backoff.next({ retryAfterMs: floorMs });
          assert.ok(wait >= floorMs);
          assert.ok(wait <= Math.max(ceiling, floorMs * 1.1));
          assert.ok(wait >= ceiling / 2);
        }
      },
    ),
  );
});

test('waits before reconnects grow; after a stream was open for stableMs, they start again with the first', async () => {
  const clock = new ManualClock();
  fixRandom(0);
  const backoff = new Backoff({ ...RECONNECT, clock });
  assert.equal(backoff.next(), 400);
  backoff.opened();
  await clock.advance(9000);
  assert.equal(backoff.next(), 800, 'nine seconds are not stable');
  backoff.opened();
  await clock.advance(10_000);
  assert.equal(backoff.next(), 400);
  await clock.advance(60_000);
  assert.equal(backoff.next(), 800, 'time without a stream does not count');
  for (let i = 0; i < 2000; i++) assert.ok(backoff.next() <= 30_000);
  assert.equal(backoff.next({ retryAfterMs: 45_000 }), 45_000);
  backoff.reset();
  assert.equal(backoff.next(), 400);
});
