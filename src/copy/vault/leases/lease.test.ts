import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import * as fc from 'fast-check';

import { leasePlan, type LeaseTimes } from './lease.ts';

const HOUR = 3_600_000;
/** What is done with the lease when the time that its plan names has come. */
const next = (times: LeaseTimes): string => leasePlan(times, leasePlan(times, 0, 0).at, 0).action;
const lease: LeaseTimes = { issuedAt: 0, expiresAt: HOUR, fullSeconds: 3_600, renewable: true };

describe('leasePlan', () => {
  it('leasePlan renews a lease after two thirds of its duration, or a little earlier with jitter', () => {
    assert.deepEqual(leasePlan(lease, 0, 0), { action: 'wait', at: (HOUR * 2) / 3 });
    assert.deepEqual(leasePlan(lease, (HOUR * 2) / 3, 0), { action: 'renew', at: (HOUR * 2) / 3 });
    const { at } = leasePlan(lease, 0, 0.999);
    assert.ok(at < (HOUR * 2) / 3 && at > HOUR * 0.63, String(at));
  });

  it('leasePlan replaces credentials before they expire if the last renewal gave less time than requested', () => {
    const cut = { ...lease, expiresAt: HOUR / 2 };
    assert.deepEqual(leasePlan(cut, 1_000, 0), { action: 'wait', at: HOUR / 2 - 360_000 });
    assert.equal(leasePlan(cut, HOUR / 2 - 360_000, 0).action, 'replace');
  });

  it('leasePlan still renews a lease if the last renewal gave only 1 s less than requested, because of rounding', () => {
    assert.equal(next({ ...lease, fullSeconds: 5, expiresAt: 4_000 }), 'renew');
  });

  it('leasePlan replaces a lease that cannot be renewed, or has ended', () => {
    assert.equal(next({ ...lease, renewable: false }), 'replace');
    assert.equal(leasePlan(lease, HOUR + 1, 0).action, 'replace');
  });

  it('leasePlan replaces a lease before its token expires', () => {
    const tokenDeadline = HOUR / 4;
    assert.deepEqual(leasePlan({ ...lease, tokenDeadline }, 0, 0), { action: 'wait', at: HOUR / 4 - 360_000 });
    assert.equal(next({ ...lease, tokenDeadline }), 'replace');
    assert.equal(leasePlan({ ...lease, tokenDeadline: 0 }, 0, 0).action, 'replace');
    assert.equal(next({ ...lease, tokenDeadline: 10 * HOUR }), 'renew');
  });

  it('leasePlan replaces a lease of 30 days 15 minutes before its end, and a lease of 6 s after two thirds of its duration', () => {
    const month = { ...lease, expiresAt: 720 * HOUR, fullSeconds: 720 * 3_600, renewable: false };
    assert.equal(leasePlan(month, 0, 0).at, 720 * HOUR - 900_000);
    assert.equal(leasePlan({ ...lease, expiresAt: 6_000, fullSeconds: 6, renewable: false }, 0, 0).at, 4_000);
  });

  it('property: leasePlan always names a time before the end of lease and token, and its action is due at that time', () => {
    const times = fc.record({
      life: fc.integer({ min: 1_000, max: 10 * HOUR }),
      full: fc.integer({ min: 1, max: 36_000 }),
      renewable: fc.boolean(),
      deadline: fc.option(fc.integer({ min: 0, max: 20 * HOUR }), { nil: undefined }),
      jitter: fc.double({ min: 0, max: 0.999, noNaN: true }),
    });
    fc.assert(
      fc.property(times, ({ life, full, renewable, deadline, jitter }) => {
        const given = { issuedAt: 0, expiresAt: life, fullSeconds: full, renewable, tokenDeadline: deadline };
        const plan = leasePlan(given, 0, jitter);
        const end = Math.min(life, deadline ?? Infinity);
        assert.ok(plan.at < Math.max(end, 1), `acts at ${plan.at}, ends at ${end}`);
        if (plan.action === 'wait') assert.notEqual(leasePlan(given, plan.at, jitter).action, 'wait');
      }),
    );
  });
});
