/** Checks which Vault leases are revoked when their SecretMirror is deleted, and when the status records a new lease. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { PatternCache } from '../../../runtime/text/name-patterns.ts';
import type { SecretMirror } from '../api.ts';
import type { ControllerContext } from '../../common/context.ts';
import { MirrorLeases, type MirrorVaultParts, MirrorVault } from './mirror-vault.ts';
import type { LeaseStatus } from '../rules/lease-records.ts';
import { effectiveSpec, type EffectiveSpec } from '../rules/spec.ts';
import type { Entry } from '../../../copy/book/claim-book.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { EntryKey, RuleKey } from '../../../copy/model/keys.ts';

const RULE: RuleKey = asKey('mirrors:default/db');
const VAULT = { addr: 'https://v', path: 'database/creds/app' };
const statusWith = (leaseID: string): LeaseStatus => ({ vaultSource: { leaseID } });

const ENTRY: EntryKey = asKey('vault:https://v/secret/app#1');

/**
 * Leases of a mirror. A copy uses the lease `held`.
 * @param onRevoked called after the revocation of all leases of a deleted mirror
 * @param sourceVersion the content of the destination in Vault
 */
function leasesOf(revoked: string[], onRevoked: () => void, sourceVersion = ''): MirrorLeases {
  const index = { get: () => ({ annotations: { 'mirrors.kts.studio/vault-lease-id': 'held' } }) };
  const context = {
    engine: { claims: { ownedBy: () => ['c:Secret/team/db'] }, enqueueStatus: onRevoked },
    cluster: { store: () => ({ index }) },
    vault: {
      leases: {
        of: () => ['not yet in the status'],
        isReplaced: (_rule: string, leaseId: string) => leaseId === 'short',
      },
      sources: { leaseRecorded: () => undefined, view: () => ({ state: 'present', version: 'new' }) },
      targets: { written: (entry: string) => (entry === ENTRY ? { sourceVersion } : undefined) },
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

/** Deletes a mirror with the lease `present` and a previous one. @returns the revoked leases */
async function revokedFor(
  deletePolicy: 'delete' | 'retain',
  previous: string,
  destinationType: EffectiveSpec['destinationType'] = 'namespaces',
): Promise<string[]> {
  const revoked: string[] = [];
  const done = Promise.withResolvers<void>();
  const leases = leasesOf(revoked, done.resolve);
  const mirror = mirrorWith(deletePolicy);
  const spec = { ...effectiveSpec(mirror, new PatternCache('full')), destinationType };
  leases.recorded(RULE, mirror, spec, statusWith('older'), statusWith(previous));
  leases.recorded(RULE, mirror, spec, statusWith(previous), statusWith('present'));
  if (leases.revocation(RULE, mirror, spec)) return revoked;
  assert.equal(leases.revocation(RULE, mirror, spec), false);
  await done.promise;
  assert.equal(leases.revocation(RULE, mirror, spec), true, 'only once');
  return revoked.sort();
}

test('when a mirror is deleted, its lease and the previous one are revoked; if it retains its copies, only a previous one that no copy uses; if its copy is an entry in Vault, none', async () => {
  assert.deepEqual(await revokedFor('retain', 'free'), ['free']);
  assert.deepEqual(await revokedFor('retain', 'held'), []);
  assert.deepEqual(await revokedFor('delete', 'free'), ['free', 'not yet in the status', 'present']);
  assert.deepEqual(await revokedFor('delete', 'held'), ['held', 'not yet in the status', 'present']);
  assert.deepEqual(await revokedFor('delete', 'free', 'vault'), []);
});

test('the leases of a mirror that was created again with the same name are revoked, too', async () => {
  const revoked: string[] = [];
  let done = Promise.withResolvers<void>();
  const leases = leasesOf(revoked, () => done.resolve());
  const mirror = mirrorWith('delete');
  const spec = effectiveSpec(mirror, new PatternCache('full'));
  for (const uid of ['u', 'v']) {
    done = Promise.withResolvers<void>();
    assert.equal(leases.revocation(RULE, { ...mirror, metadata: { ...mirror.metadata, uid } }, spec), false);
    await done.promise;
  }
  assert.deepEqual(revoked, ['not yet in the status', 'present', 'not yet in the status', 'present']);
});

for (const [title, before, isRevoked] of [
  ['is revoked one time if no copy uses it', 'free', true],
  ['is not revoked while a copy uses it', 'held', false],
  ['is not revoked if a new lease of the same origin replaced it', 'short', false],
  ['is not revoked if the status names it again', 'present', false],
] as const) {
  test(`the previous lease of a mirror ${title}`, async () => {
    const revoked: string[] = [];
    const leases = leasesOf(revoked, () => undefined);
    const mirror = mirrorWith('delete');
    const spec = effectiveSpec(mirror, new PatternCache('full'));
    leases.recorded(RULE, mirror, spec, statusWith(before), statusWith('other'));
    leases.recorded(RULE, mirror, spec, statusWith(before), statusWith('present'));
    for (let report = 0; report < 2; report++) leases.revokePrevious(RULE, spec, []);
    await Promise.resolve();
    assert.deepEqual(revoked, isRevoked ? [before] : []);
  });
}

for (const [title, target, state, sourceVersion, isRevoked] of [
  ['is revoked when the entry has the present content', ENTRY, 'synced', 'new', true],
  ['is not revoked while the entry has an earlier content', ENTRY, 'synced', 'old', false],
  ['is not revoked while the entry cannot be written', ENTRY, 'error', 'new', false],
  ['is not revoked while nothing shows what the entry has', asKey<EntryKey>('vault:x#2'), 'synced', 'new', false],
] as const) {
  test(`the previous lease of a mirror to Vault ${title}`, () => {
    const revoked: string[] = [];
    const leases = leasesOf(revoked, () => undefined, sourceVersion);
    const mirror = mirrorWith('delete');
    const spec = { ...effectiveSpec(mirror, new PatternCache('full')), destinationType: 'vault' } as const;
    leases.recorded(RULE, mirror, spec, statusWith('free'), statusWith('present'));
    leases.revokePrevious(RULE, spec, []);
    const claim = { source: asKey<EntryKey>('vault:https://v/database/creds/app#2') };
    leases.revokePrevious(RULE, spec, [{ target, outcome: { state }, claim } as unknown as Entry]);
    assert.deepEqual(revoked, isRevoked ? ['free'] : []);
  });
}

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
