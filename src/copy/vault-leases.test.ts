/** When a lease is looked after, whatever the wall clock says. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { ManualClock } from '../runtime/manual-clock.ts';
import type { VaultSession } from '../vault/session.ts';
import { Content } from './content.ts';
import { SECRET } from './kind.ts';
import { type Lease, VaultLeases } from './vault-leases.ts';

const HOUR_MS = 3_600_000;
const { signal } = new AbortController();

/** A lease of an hour, and the paths that Vault would have been asked. */
function granted(clock: ManualClock): { leases: VaultLeases; lease: Lease; asked: string[] } {
  const asked: string[] = [];
  const session = {
    tokenDeadline: () => Infinity,
    tokenEndWithoutUs: () => undefined,
    watchTokens: () => ({ [Symbol.dispose]: () => undefined }),
    request: async ({ path }: { readonly path: string }) => {
      asked.push(path);
      return await Promise.resolve({ leaseSeconds: 3600, renewable: true });
    },
  } as unknown as VaultSession;
  const hold = { session, key: '', release: () => undefined, [Symbol.dispose]: () => undefined };
  const leases = new VaultLeases({
    clock,
    random: () => 0,
    tracesOf: () => [],
    readCopy: async () => await Promise.resolve(undefined),
    onEvent: () => undefined,
    onDoubt: () => undefined,
  });
  const door = { session, entries: undefined as never, hold: () => hold };
  const grant = { leaseId: 'l', durationSeconds: 3600, renewable: true, issuedAt: clock.now(), tokenId: 't' };
  const lease = leases.granted('vault:x', door, grant, Content.ofFields(SECRET, {}, 'Opaque', '1'));
  return { leases, lease, asked };
}

describe('a lease of an hour', () => {
  for (const jumpMs of [0, -10 * HOUR_MS, 10 * HOUR_MS]) {
    it(`is renewed after 40 minutes, and not before, with a clock that was set by ${jumpMs / HOUR_MS} h`, async () => {
      const clock = new ManualClock();
      const { leases, lease, asked } = granted(clock);
      clock.jump(jumpMs);
      await clock.advance(HOUR_MS / 2);
      assert.equal(await leases.tend(lease, 10 * HOUR_MS, signal), HOUR_MS / 6);
      assert.deepEqual(asked, []);
      await clock.advance(HOUR_MS / 6);
      await leases.tend(lease, 10 * HOUR_MS, signal);
      assert.deepEqual(asked, ['sys/leases/renew']);
    });
  }
});
