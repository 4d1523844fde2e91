/** Tests leases of dynamic credentials with Vault's database engine on a real PostgreSQL. Many last only seconds. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { systemClock } from '../../../src/runtime/clock.ts';
import { SecretBytes } from '../../../src/runtime/secret-bytes.ts';
import { VaultEntries } from '../../../src/vault/kv/entries.ts';
import { isVaultError } from '../../../src/vault/errors.ts';
import type { LeaseGrant } from '../../../src/vault/kv/answers.ts';
import { leasePlan } from '../../../src/copy/vault/leases/lease.ts';
import { lookupLease, renewalVerdict, renewLease, revokeLease } from '../../../src/vault/lease-calls.ts';
import type { VaultSession } from '../../../src/vault/session/session.ts';
import { VaultSessions } from '../../../src/vault/session/sessions.ts';
import type { VaultValues } from '../../../src/vault/kv/values.ts';
import { findPostgres, type PostgresServer, startPostgres } from '../../servers/postgres.ts';
import { databaseRole, mountDatabase } from '../../servers/vault-database.ts';
import { DevVault } from './dev-vault.ts';
import { waitFor } from '../../support/wait-for.ts';
import { parseServer } from '../../../src/vault/client/server.ts';

const PATH = 'database/creds/app';
/** The path of credentials that expire within seconds. */
const BRIEF = 'database/creds/brief';
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

async function credentials(entries: VaultEntries, path = PATH): Promise<{ lease: LeaseGrant; values: VaultValues }> {
  const entry = await entries.read(path);
  assert.ok(entry.state === 'found' && entry.lease !== undefined);
  return { lease: entry.lease, values: entry.values };
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
      [BRIEF]: ['read'],
      'sys/leases/revoke': ['update'],
      'auth/token/renew-accessor': ['update'],
    });
    await mountDatabase(vault.server, 'database', postgres);
    await databaseRole(vault.server, 'database', 'app', { ttl: '1h', maxTtl: '2h' });
    await databaseRole(vault.server, 'database', 'brief', { ttl: '3s', maxTtl: '7s' });
  });

  after(async () => {
    await sessions.stop();
    await vault.stop();
    await postgres.stop();
  });

  it('dynamic credentials come with their lease: its id, its duration, and whether it can be renewed', async () => {
    const { entries } = await open();
    assert.equal((await entries.resolve(PATH)).mount.kind, 'other');
    const { lease, values } = await credentials(entries);
    assert.deepEqual([...values.keys()].toSorted(), ['password', 'username']);
    assert.deepEqual([lease.durationSeconds, lease.renewable], [3600, true]);
    assert.ok(lease.leaseId.startsWith(`${PATH}/`));
  });

  it('a lease is renewed until it reaches max_ttl, and replaced before it expires', async () => {
    const { session, entries } = await open();
    const { lease } = await credentials(entries, BRIEF);
    let { issuedAt, durationSeconds, renewable } = lease;
    let renewals = 0;
    let late = false;
    for (;;) {
      const expiresAt = issuedAt + durationSeconds * 1_000;
      const tokenDeadline = session.tokenDeadline(lease.tokenId);
      const times = { issuedAt, expiresAt, fullSeconds: lease.durationSeconds, renewable, tokenDeadline };
      const plan = leasePlan(times, Date.now(), 0.5);
      if (plan.action === 'replace') break;
      if (plan.action === 'wait') {
        await new Promise((resolve) => setTimeout(resolve, plan.at - Date.now()));
        continue;
      }
      issuedAt = Date.now();
      try {
        ({ durationSeconds, renewable } = await renewLease(session, lease.leaseId, lease.durationSeconds));
      } catch (error) {
        // On a slow machine the renewal comes after max_ttl. Then it fails, and new credentials must be requested.
        assert.equal(renewalVerdict(error), 'replace');
        late = true;
        break;
      }
      renewals++;
    }
    assert.ok(renewals >= 1, `${renewals} renewals`);
    assert.ok(late || (await exists(lease)));
    const next = await credentials(entries, BRIEF);
    assert.notEqual(next.lease.leaseId, lease.leaseId);
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

  it('a session knows when max_ttl will end the token of a lease, also after it has replaced the token', async () => {
    const { session, entries } = await open({ token_ttl: '4s', token_max_ttl: '9s' });
    const { lease } = await credentials(entries);
    const deadlines = new Set<number>();
    await waitFor(
      () => {
        const deadline = session.tokenDeadline(lease.tokenId) ?? NaN;
        if (deadline !== Infinity) deadlines.add(deadline - Date.now());
        return deadlines.size > 0;
      },
      { intervalMs: 10, message: 'the end of the token is in sight' },
    );
    for (const leftMs of deadlines) assert.ok(leftMs > 0 && leftMs < 9_000, `${leftMs} ms`);
    await waitFor(
      async () => {
        const { tokenId } = await session.request({ method: 'GET', path: 'auth/token/lookup-self' });
        return tokenId !== lease.tokenId;
      },
      { message: 'another token' },
    );
    assert.ok((session.tokenDeadline(lease.tokenId) ?? Infinity) < Date.now() + 9_000);
  });

  it('if a database is down, requests for its credentials fail, and requests for other paths succeed', async () => {
    const { session, entries } = await open();
    await postgres.stop();
    for (let i = 0; i < 6; i++) {
      await assert.rejects(entries.read(PATH), (error) => isVaultError(error, 'serverError'));
    }
    await session.request({ method: 'GET', path: 'auth/token/lookup-self' });
  });
});
