/** Tests which calls read an entry that is written, too. The answers are constructed; scenario tests use a real Vault. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ManualClock } from '../../../test/support/manual-clock.ts';
import { VaultError } from '../errors.ts';
import type { VaultCaller } from '../session/session.ts';
import { VaultEntries } from './entries.ts';
import { VaultValues } from './values.ts';

test('an entry that is written is read only in KV; credentials that the read creates are revoked, and there is no other read for ten minutes', async () => {
  const clock = new ManualClock();
  const calls: string[] = [];
  let mount: object | undefined = { path: 'db/', type: 'database' };
  const caller = {
    addr: 'http://v',
    forgetLease: () => undefined,
    request: async ({ method, path }: { readonly method: string; readonly path: string }) => {
      const isLookUp = path.startsWith('sys/internal/');
      if (!isLookUp) calls.push(`${method} ${path}`);
      if (isLookUp && mount === undefined) throw new VaultError('', { kind: 'permissionDenied', addr: 'http://v' });
      const lease = { leaseId: 'db/creds/app/1', leaseSeconds: 60, renewable: true, tokenId: 't' };
      return await Promise.resolve({ status: 200, ...lease, data: isLookUp ? mount : { password: 'x' } });
    },
  } as unknown as VaultCaller;
  const entries = new VaultEntries(caller, { clock });
  /** Reads and updates the entry, both in vain. @returns the calls, without lookups of the mount */
  const refused = async (): Promise<readonly string[]> => {
    const error = { message: /db\/ is not a KV store/ };
    await assert.rejects(entries.readKv('db/creds/app'), error);
    const update = entries.update('db/creds/app', () => new VaultValues([['a', 'b']]));
    await assert.rejects(update, error);
    return calls.splice(0);
  };
  assert.deepEqual(await refused(), []);
  mount = undefined;
  await clock.advance(600_001);
  assert.deepEqual(await refused(), ['GET db/creds/app', 'PUT sys/leases/revoke']);
  await clock.advance(599_000);
  assert.deepEqual(await refused(), []);
  await clock.advance(1001);
  assert.deepEqual(await refused(), ['GET db/creds/app', 'PUT sys/leases/revoke']);
});
