/** Checks which Vault leases are revoked when their SecretMirror is deleted, and when the status records a new lease. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { PatternCache } from '../../../runtime/text/name-patterns.ts';
import type { SecretMirror } from '../api.ts';
import type { ControllerContext } from '../../common/context.ts';
import { MirrorLeases, type MirrorVaultParts, MirrorVault } from './mirror-vault.ts';
import type { LeaseStatus } from '../rules/lease-records.ts';
import { effectiveSpec } from '../rules/spec.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { EntryKey, RuleKey } from '../../../copy/model/keys.ts';

const RULE: RuleKey = asKey('mirrors:default/db');
const VAULT = { addr: 'https://v', path: 'database/creds/app' };
const statusWith = (leaseID: string): LeaseStatus => ({ vaultSource: { leaseID } });

/** Leases of a mirror. A copy uses the lease `held`. @param onRevoked called after each revocation */
function leasesOf(revoked: string[], onRevoked: () => void): MirrorLeases {
  const index = { get: () => ({ annotations: { 'mirrors.kts.studio/vault-lease-id': 'held' } }) };
  const context = {
    engine: { claims: { ownedBy: () => ['c:Secret/team/db'] }, enqueueStatus: onRevoked },
    cluster: { store: () => ({ index }) },
    vault: {
      leases: { of: () => [{ leaseId: 'present' }], find: () => undefined },
      sources: { leaseRecorded: () => undefined },
      revokeLease: async (_rule: string, leaseId: string) => {
        revoked.push(leaseId);
        await Promise.resolve();
      },
    },
    log: { warn: (message: string) => assert.fail(message) },
    clock: { now: () => 0 },
  } as unknown as ControllerContext;
  return new MirrorLeases(context, {});
}

function mirrorWith(deletePolicy: 'delete' | 'retain'): SecretMirror {
  return {
    metadata: { name: 'db', namespace: 'default', uid: 'u', resourceVersion: '1', creationTimestamp: '' },
    spec: { deletePolicy, source: { type: 'vault', vault: VAULT }, destination: { namespaces: ['team'] } },
    status: statusWith('present'),
  } as unknown as SecretMirror;
}

/** Deletes a mirror with leases `present`, `held` (replaced, used by a copy) and `free`. @returns the revoked leases */
async function revokedFor(deletePolicy: 'delete' | 'retain'): Promise<string[]> {
  const revoked: string[] = [];
  const done = Promise.withResolvers<void>();
  const leases = leasesOf(revoked, done.resolve);
  const mirror = mirrorWith(deletePolicy);
  const spec = effectiveSpec(mirror, new PatternCache('full'));
  leases.recorded(RULE, mirror, spec, statusWith('held'), statusWith('free'));
  leases.recorded(RULE, mirror, spec, statusWith('free'), statusWith('present'));
  assert.equal(leases.revocation(RULE, mirror, spec), false);
  await done.promise;
  assert.equal(leases.revocation(RULE, mirror, spec), true, 'only once');
  return revoked.sort();
}

test('when a mirror is deleted, all its leases are revoked; if it retains its copies, only the leases that no copy uses', async () => {
  assert.deepEqual(await revokedFor('retain'), ['free']);
  assert.deepEqual(await revokedFor('delete'), ['free', 'held', 'present']);
});

test('a replaced lease that a copy uses is not forgotten for leases that are revoked already', async () => {
  const revoked: string[] = [];
  let ended = Promise.withResolvers<void>();
  const leases = leasesOf(revoked, () => ended.resolve());
  const mirror = mirrorWith('delete');
  const spec = effectiveSpec(mirror, new PatternCache('full'));
  const names = ['held', ...Array.from({ length: 12 }, (_, n) => `lease-${n}`), 'present'];
  for (const [n, next] of names.slice(1).entries()) {
    ended = Promise.withResolvers<void>();
    leases.recorded(RULE, mirror, spec, statusWith(names[n] ?? ''), statusWith(next));
    leases.revokeReplaced(RULE, spec, []);
    if (n > 0) await ended.promise;
  }
  assert.ok(!revoked.includes('held'));
  ended = Promise.withResolvers<void>();
  leases.revocation(RULE, mirror, spec);
  await ended.promise;
  assert.ok(revoked.includes('held'));
});

test('a new lease of a mirror is recorded in the status at once, because its copies wait for that', () => {
  const enqueued: unknown[] = [];
  const context = {
    engine: { enqueueStatus: (...request: unknown[]) => enqueued.push(request) },
    recordEvent: () => undefined,
    vault: { setLeaseObserver: () => undefined, locations: { get: () => undefined, users: () => [RULE] } },
  } as unknown as ControllerContext;
  const parts = {
    mirrors: { get: () => ({ metadata: {} }) },
    metrics: { leaseRenewed: () => undefined },
  } as unknown as MirrorVaultParts;
  const vault = new MirrorVault(context, parts);
  const key: EntryKey = asKey('vault:https://v/database/creds/app#1');
  vault.onLease(key, { type: 'granted', leaseId: 'new' });
  vault.onLease(key, { type: 'renewed', leaseId: 'new' });
  assert.deepEqual(enqueued, [
    [RULE, 0],
    [RULE, undefined],
  ]);
});
