import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { userCause } from '../../../copy/model/cause.ts';
import type { SourceView } from '../../../copy/model/claim.ts';
import { PatternCache } from '../../../runtime/text/name-patterns.ts';
import type { VaultBlock } from '../api.ts';
import { nextLeases, type LeaseStates, type LeaseStatus } from './lease-records.ts';
import { type EffectiveSpec, effectiveSpec } from './spec.ts';

const NOW = Date.parse('2026-11-21T10:00:00Z');
const ADMIN: VaultBlock = { addr: 'https://v', path: 'database/creds/admin' };
const RO: VaultBlock = { addr: 'https://v', path: 'database/creds/ro' };
const NOTHING: SourceView = { state: 'unknown' };

const leased = (leaseId: string, seconds = 3600): SourceView => ({
  state: 'present',
  version: `lease ${leaseId}`,
  labels: {},
  annotations: {},
  lease: { id: leaseId, seconds, origin: 'origin', tokenExpiresAt: undefined },
});
const news = (more: Partial<LeaseStates> = {}): LeaseStates => ({
  expiresSoon: () => false,
  isOver: () => false,
  destinationVersion: undefined,
  ...more,
});

function specOf(vault: VaultBlock): EffectiveSpec {
  const metadata = { name: 'm', namespace: 'default', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
  const destination = { namespaces: ['a'] };
  return effectiveSpec({ metadata, spec: { source: { type: 'vault', vault }, destination } }, new PatternCache('full'));
}

function fold(
  source: SourceView,
  vault: VaultBlock,
  previous?: LeaseStatus,
  known: LeaseStates = news(),
  now = NOW,
): LeaseStatus {
  return nextLeases(source, specOf(vault), previous, known, now);
}

const FIRST = fold(leased('admin/1'), ADMIN);

describe('the leases of a status', () => {
  it('if the source has no lease, the status records no lease', () => {
    assert.deepEqual(fold(NOTHING, RO), {});
    assert.deepEqual(fold({ state: 'present', version: '1', labels: {}, annotations: {} }, RO), {});
  });

  it('the record of a lease has the vault block with which the lease was granted', () => {
    assert.deepEqual(FIRST, {
      vaultSource: { leaseID: 'admin/1', leaseDuration: 3600 },
      vaultLeases: [{ leaseID: 'admin/1', vault: ADMIN }],
    });
    assert.deepEqual(fold(leased('admin/1'), ADMIN, FIRST), FIRST);
  });

  it('after a change of the path in the spec, the old lease stays recorded with its vault block until the new source is read', () => {
    assert.deepEqual(fold(NOTHING, RO, FIRST), FIRST);
    assert.deepEqual(fold({ state: 'failed', ...userCause('VaultError', '') }, RO, FIRST), FIRST);
  });

  it('a replaced lease is recorded with the time of its expiry, until it is revoked or has expired', () => {
    const second = fold(leased('ro/1'), RO, FIRST);
    const old = { leaseID: 'admin/1', vault: ADMIN, expirationTime: '2026-11-21T11:00:00Z' };
    assert.deepEqual(second.vaultLeases, [{ leaseID: 'ro/1', vault: RO }, old]);
    assert.deepEqual(fold(leased('ro/1'), RO, second, news(), NOW + 1_800_000), second);
    const left = [{ leaseID: 'ro/1', vault: RO }];
    const over = news({ isOver: (id) => id === 'admin/1' });
    assert.deepEqual(fold(leased('ro/1'), RO, second, over).vaultLeases, left);
    assert.deepEqual(fold(leased('ro/1'), RO, second, news(), NOW + 3_600_000).vaultLeases, left);
  });

  it('a replaced lease stays recorded if the new source has no lease', () => {
    const plain: SourceView = { state: 'present', version: '1', labels: {}, annotations: {} };
    const { vaultSource, vaultLeases } = fold(plain, RO, FIRST);
    assert.equal(vaultSource, undefined);
    assert.deepEqual(
      vaultLeases?.map(({ leaseID }) => leaseID),
      ['admin/1'],
    );
  });

  it('if the new lease has the same origin, the replaced lease has no record; if a replaced lease is used again, its record has no expiry', () => {
    const known = news({ expiresSoon: (id) => id === 'admin/1' });
    assert.deepEqual(fold(leased('admin/2'), ADMIN, FIRST, known).vaultLeases, [{ leaseID: 'admin/2', vault: ADMIN }]);
    const away = fold(leased('ro/1'), RO, FIRST);
    const back = fold(leased('admin/1'), ADMIN, away);
    assert.deepEqual(
      back.vaultLeases?.map(({ leaseID, expirationTime }) => [leaseID, expirationTime !== undefined]),
      [
        ['admin/1', false],
        ['ro/1', true],
      ],
    );
  });

  it('a replaced lease that only status.vaultSource names, without a duration, is recorded to expire after the longest duration', () => {
    const previous = { vaultSource: { leaseID: 'ro/0' } };
    const { vaultLeases } = fold(leased('ro/1'), RO, previous);
    assert.deepEqual(vaultLeases?.[1], { leaseID: 'ro/0', vault: RO, expirationTime: '2026-12-23T10:00:00Z' });
  });

  it('if a Vault entry has the credentials of a lease, the record of the lease has the version of the entry', () => {
    const written = fold(leased('ro/1'), RO, undefined, news({ destinationVersion: '3 t' }));
    assert.equal(written.vaultLeases?.[0]?.destinationVersion, '3 t');
    assert.deepEqual(fold(leased('ro/1'), RO, written), written);
    for (const record of fold(leased('ro/2'), RO, written).vaultLeases ?? []) {
      assert.equal(record.destinationVersion, undefined);
    }
  });

  it('after 100 changes of the lease, the status records the present lease and the last 10 replaced leases', () => {
    let status: LeaseStatus = {};
    for (let i = 0; i < 100; i++) status = fold(leased(`ro/${i}`), RO, status);
    assert.equal(status.vaultLeases?.length, 11);
    assert.equal(status.vaultLeases?.at(-1)?.leaseID, 'ro/89');
  });
});
