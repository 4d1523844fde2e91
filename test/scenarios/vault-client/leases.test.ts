/** Tests leases of dynamic credentials with Vault's database engine on a real PostgreSQL. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { systemClock } from '../../../src/runtime/clock.ts';
import { SecretBytes } from '../../../src/runtime/secret-bytes.ts';
import { VaultEntries } from '../../../src/vault/kv/entries.ts';
import { isVaultError } from '../../../src/vault/errors.ts';
import type { LeaseGrant } from '../../../src/vault/kv/answers.ts';
import { lookupLease, renewalVerdict, renewLease, revokeLease } from '../../../src/vault/lease-calls.ts';
import type { VaultSession } from '../../../src/vault/session/session.ts';
import { VaultSessions } from '../../../src/vault/session/sessions.ts';
import { findPostgres, type PostgresServer, startPostgres } from '../../servers/postgres.ts';
import { databaseRole, mountDatabase } from '../../servers/vault-database.ts';
import { DevVault } from './dev-vault.ts';
import { waitFor } from '../../support/wait-for.ts';
import { parseServer } from '../../../src/vault/client/server.ts';

const PATH = 'database/creds/app';
const found = findPostgres();
const skip = 'missing' in found ? found.missing : false;
let postgres: PostgresServer;
let vault: DevVault;
let sessions: VaultSessions;

async function open(settings: object = {}, from = sessions): Promise<{ session: VaultSession; entries: VaultEntries }> {
  const role = await vault.appRole(`r${performance.now()}`.replace('.', '-'), {
    token_policies: ['app'],
    token_ttl: '1h',
    ...settings,
  });
  const roleId = SecretBytes.fromUtf8(role.roleId);
  const identity = { method: 'approle', roleId, secretId: SecretBytes.fromUtf8(role.secretId) } as const;
  const { session } = from.acquire(parseServer({ addr: vault.addr }), identity);
  return { session, entries: new VaultEntries(session, { clock: systemClock }) };
}

async function credentials(entries: VaultEntries): Promise<{ lease: LeaseGrant }> {
  const entry = await entries.read(PATH);
  assert.ok(entry.state === 'found' && entry.lease !== undefined);
  return { lease: entry.lease };
}

async function exists(lease: LeaseGrant): Promise<boolean> {
  const found: Response = await fetch(`${vault.addr}/v1/sys/leases/lookup`, {
    method: 'PUT',
    headers: { 'x-vault-token': vault.rootToken },
    body: JSON.stringify({ lease_id: lease.leaseId }),
  });
  return found.ok;
}

describe('leases', { skip }, () => {
  before(async () => {
    postgres = await startPostgres();
    vault = await DevVault.start();
    sessions = new VaultSessions({ clock: systemClock });
    await vault.policy('app', {
      [PATH]: ['read'],
      'sys/leases/revoke': ['update'],
      'auth/token/renew-accessor': ['update'],
    });
    await mountDatabase(vault.server, 'database', postgres);
    await databaseRole(vault.server, 'database', 'app', { ttl: '1h', maxTtl: '2h' });
  });

  after(async () => {
    await sessions.stop();
    await vault.stop();
    await postgres.stop();
  });

  it('a failed renewal means "replace" if the lease has expired, and "retry" if Vault does not answer', async () => {
    const { session, entries } = await open();
    const { lease } = await credentials(entries);
    assert.ok((await lookupLease(session, lease.leaseId))?.renewable);
    await revokeLease(session, lease.leaseId);
    await waitFor(async () => (await lookupLease(session, lease.leaseId)) === undefined, {
      message: 'the lease is gone',
    });
    await revokeLease(session, lease.leaseId);
    const error: unknown = await renewLease(session, lease.leaseId, 3600).catch((error: unknown) => error);
    assert.ok(isVaultError(error, 'leaseGone'), String(error));
    assert.equal(renewalVerdict(error), 'replace');
    assert.equal(renewalVerdict(new Error('no connection')), 'retry');
  });

  it('when a session stops, it does not revoke its token while a lease depends on the token', async () => {
    const own = new VaultSessions({ clock: systemClock });
    const { entries } = await open({}, own);
    const { lease } = await credentials(entries);
    await own.stop();
    assert.ok(await exists(lease));
    // A process with another token can renew the lease.
    const { session: next } = await open();
    assert.equal(next.tokenDeadline(lease.tokenId), undefined);
    assert.equal((await renewLease(next, lease.leaseId, 3600)).durationSeconds, 3600);
    await revokeLease(next, lease.leaseId);
  });

  it('when a session stops, it revokes its token if the leases of the token were revoked', async () => {
    const own = new VaultSessions({ clock: systemClock });
    const { session, entries } = await open({}, own);
    const { lease } = await credentials(entries);
    await revokeLease(session, lease.leaseId);
    await own.stop();
    const lookup = vault.server.request('POST', 'auth/token/lookup-accessor', { accessor: lease.tokenId });
    await assert.rejects(lookup, /invalid accessor/);
  });

  it('when the token that created a lease is revoked, the lease ends, and the session knows that the token has ended', async () => {
    const { session, entries } = await open();
    const { lease } = await credentials(entries);
    await vault.write('auth/token/revoke-accessor', { accessor: lease.tokenId });
    await waitFor(
      async () => {
        const error: unknown = await renewLease(session, lease.leaseId, 3600).catch((error: unknown) => error);
        return isVaultError(error) && renewalVerdict(error) === 'replace' && session.tokenDeadline(lease.tokenId) === 0;
      },
      { message: 'a renewal fails permanently' },
    );
    const next = await credentials(entries);
    assert.equal(session.tokenDeadline(next.lease.tokenId), Infinity);
  });

  it('if a database is down, requests for its credentials fail, and requests for other paths succeed', async () => {
    const { session, entries } = await open();
    await postgres.stop();
    for (let i = 0; i < 6; i++) {
      await assert.rejects(entries.read(PATH), (error) => isVaultError(error, 'unavailable'));
    }
    await session.request({ method: 'GET', path: 'auth/token/lookup-self' });
  });
});
