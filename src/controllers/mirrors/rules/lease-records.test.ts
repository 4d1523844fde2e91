import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { userCause } from '../../../copy/model/cause.ts';
import type { SourceView } from '../../../copy/model/claim.ts';
import { PatternCache } from '../../../runtime/text/name-patterns.ts';
import type { VaultBlock } from '../api.ts';
import { nextLease, type LeaseStatus } from './lease-records.ts';
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
function specOf(vault: VaultBlock): EffectiveSpec {
  const metadata = { name: 'm', namespace: 'default', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
  const destination = { namespaces: ['a'] };
  return effectiveSpec({ metadata, spec: { source: { type: 'vault', vault }, destination } }, new PatternCache('full'));
}

/** The next status of a mirror with the path `vault`, if the copies get the content that `source` shows. */
function fold(source: SourceView, vault: VaultBlock, previous?: LeaseStatus, destinationVersion?: string): LeaseStatus {
  const lease = source.state === 'present' ? source.lease : undefined;
  return nextLease(source, specOf(vault), previous, { lease, destinationVersion });
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

  it('a new lease replaces the one before', () => {
    const second = fold(leased('ro/1'), RO, FIRST);
    assert.deepEqual(second, {
      vaultSource: { leaseID: 'ro/1', leaseDuration: 3600 },
      vaultLeases: [{ leaseID: 'ro/1', vault: RO }],
    });
    assert.deepEqual(fold({ state: 'present', version: '1', labels: {}, annotations: {} }, RO, FIRST), {});
  });

  it('a lease that the copies do not have yet is recorded, but not with the version of a Vault entry', () => {
    const written = fold(leased('ro/1'), RO, undefined, '3 t');
    const lease = { id: 'ro/2', seconds: 60, origin: 'origin', tokenExpiresAt: NOW };
    assert.deepEqual(nextLease(leased('ro/1'), specOf(RO), written, { lease, destinationVersion: '3 t' }), {
      vaultSource: { leaseID: 'ro/2', leaseDuration: 60, tokenExpirationTime: '2026-11-21T10:00:00Z' },
      vaultLeases: [{ leaseID: 'ro/2', vault: RO }],
    });
  });

  it('if a Vault entry has the credentials of a lease, the record of the lease has the version of the entry', () => {
    const written = fold(leased('ro/1'), RO, undefined, '3 t');
    assert.equal(written.vaultLeases?.[0]?.destinationVersion, '3 t');
    assert.deepEqual(fold(leased('ro/1'), RO, written), written);
    assert.equal(fold(leased('ro/2'), RO, written).vaultLeases?.[0]?.destinationVersion, undefined);
  });

  it('of the replaced leases that an earlier version of Keyferry recorded, none stays', () => {
    const old = { ...FIRST, vaultLeases: [{ leaseID: 'ro/0', vault: RO }, ...(FIRST.vaultLeases ?? [])] };
    assert.deepEqual(fold(NOTHING, RO, old), FIRST);
  });
});
