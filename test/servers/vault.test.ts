import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';

import { waitFor } from '../support/wait-for.ts';
import { startFaultProxy } from './fault-proxy.ts';
import { findPostgres, startPostgres } from './postgres.ts';
import { databaseRole, mountDatabase } from './vault-database.ts';
import { startVault } from './vault.ts';
import type { VaultServer } from './vault.ts';

describe('vault', () => {
  let vault: VaultServer;
  before(async () => {
    vault = await startVault({ auditLog: true });
  });
  after(() => vault.stop());

  it('Vault in a test has KV version 2 at secret/, a root token and an audit log', async () => {
    await vault.request('POST', 'secret/data/app', { data: { password: 'one' } });
    assert.deepEqual((await vault.request('GET', 'secret/data/app')).data.data, { password: 'one' });
    await assert.rejects(vault.request('GET', 'secret/data/app', undefined, 'wrong'), { status: 403 });
    await waitFor(async () => (await readFile(vault.auditLogPath, 'utf8')).includes('"path":"secret/data/app"'));
  });

  it('Vault in a test can be used through the fault proxy', async () => {
    await using proxy = await startFaultProxy({ upstream: vault.addr });
    proxy.rule({ match: { path: 'secret/data' }, fault: { kind: 'respond', status: 503 }, times: 1 });
    const statuses = [];
    for (let n = 0; n < 2; n += 1) {
      const response = await fetch(`${proxy.url}/v1/secret/data/app`, {
        headers: { 'x-vault-token': vault.rootToken },
      });
      await response.text();
      statuses.push(response.status);
    }
    assert.deepEqual(statuses, [503, 200]);
  });

  it('if Vault in a test stores its data in memory, only its root token is left after a restart', async () => {
    await vault.restart();
    assert.equal((await vault.raw('GET', 'secret/data/app')).status, 404);
    await vault.request('POST', 'secret/data/app', { data: {} });
  });
});

describe('vault with storage and TLS', () => {
  it('if Vault in a test stores its data in files, it keeps them in a restart, and is sealed until it is unsealed', async () => {
    await using vault = await startVault({ storage: 'file', tls: true });
    assert.ok(vault.addr.startsWith('https://') && vault.caPem !== '');
    await vault.request('POST', 'secret/data/app', { data: { password: 'one' } });
    await vault.restart({ unseal: false });
    assert.equal((await vault.raw('GET', 'secret/data/app')).status, 503);
    await vault.unseal();
    assert.deepEqual((await vault.request('GET', 'secret/data/app')).data.data, { password: 'one' });
    await vault.seal();
    assert.equal((await vault.raw('GET', 'secret/data/app')).status, 503);
    await vault.unseal();
    await vault.request('GET', 'secret/data/app');
  });
});

const postgres = findPostgres();
const skip = 'missing' in postgres ? postgres.missing : false;

describe('postgres', { skip }, () => {
  it('Vault creates and revokes users in the PostgreSQL of a test', async () => {
    await using database = await startPostgres();
    await using vault = await startVault();
    await mountDatabase(vault, 'database', database);
    await databaseRole(vault, 'database', 'reader', { ttl: '1h' });
    const { data, lease_id } = await vault.request('GET', 'database/creds/reader');
    const login = { user: data.username, password: data.password };
    assert.equal(await database.sql('select current_user', login), data.username);
    await vault.request('PUT', 'sys/leases/revoke', { lease_id, sync: true });
    await assert.rejects(database.sql('select 1', login));
    await database.halt();
    await assert.rejects(database.sql('select 1'));
    await database.start();
    assert.equal(await database.sql('select 1'), '1');
  });
});
