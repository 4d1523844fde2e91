/**
 * A Vault lease ends with the token that created it. After a restart Keyferry no longer has that token and cannot renew
 * it, so Keyferry must replace the credentials before the token expires.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';

import type { Json } from '../../../support/api.ts';
import { findPostgres, type PostgresServer, startPostgres } from '../../../servers/postgres.ts';
import { databaseRole, mountDatabase } from '../../../servers/vault-database.ts';
import { failOnLeaks } from '../../../support/leaks.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { currentStretch, within } from '../../../support/yardstick.ts';
import { mirrorPath } from '../../mirrors/support.ts';
import { documentedPolicy, LEASE_ID, VaultScene } from '../support.ts';

const postgres = findPostgres();
const skip = 'missing' in postgres ? postgres.missing : false;
/** Factor for all durations on a busy machine, where every step of the test takes longer. */
const slower = Math.min(3, Math.ceil(await currentStretch()));
/** The lifetime of the token plus the longest time until Keyferry looks up the lease in Vault, ms. */
const LONGEST_MS = 5000 + 10_000;

describe('credentials whose token is not renewed after a restart', { skip }, () => {
  let database: PostgresServer;
  let scene: VaultScene;
  before(async () => {
    database = await startPostgres();
  });
  beforeEach(async () => {
    scene = await VaultScene.open();
  });
  afterEach(() => scene.close());
  after(() => database[Symbol.asyncDispose]());

  /** Creates a mirror and waits for its copy. @returns the copy, and a function that kills the operator with SIGKILL */
  async function createCopy(
    tokenTtl: string,
    leaseTtl: string,
  ): Promise<{ copy: Json; crash: () => Promise<unknown> }> {
    const { mirrors, vault } = scene;
    await mountDatabase(vault, 'mongodb', database);
    await databaseRole(vault, 'mongodb', 'somedb', { ttl: leaseTtl });
    const hcl = await documentedPolicy('Dynamic credentials to namespaces');
    await scene.approle('lessee', hcl, { role: { token_ttl: tokenTtl } });
    const operator = await mirrors.operator();
    await mirrors.namespaces('target');
    const auth = { approle: { secretRef: { name: 'lessee' } } };
    const block = scene.block('mongodb/creds/somedb', '', { auth });
    await scene.fromVault('creds', block, ['target'], { pollPeriodSeconds: 600 });
    const copy = await waitFor(() => mirrors.find('target', 'creds'), { message: 'credentials' });
    await mirrors.ready('creds', 'Synced');
    return { copy, crash: () => operator.kill9() };
  }

  const leaseOf = ({ metadata }: Json): string => metadata.annotations[LEASE_ID];
  const tokenEnd = async (): Promise<number> =>
    Date.parse((await scene.mirrors.status('creds')).vaultSource.tokenExpirationTime);
  const waitForOther = async (copy: Json): Promise<Json> =>
    await waitFor(
      async () => {
        const now = await scene.mirrors.find('target', 'creds');
        return leaseOf(now) !== leaseOf(copy) && now;
      },
      { message: 'other credentials' },
    );

  async function works({ data }: Json): Promise<boolean> {
    const text = (key: string): string => Buffer.from(data[key], 'base64').toString();
    return await database.sql('select 1', { user: text('username'), password: text('password') }).then(
      () => true,
      () => false,
    );
  }

  it('after a restart, credentials are kept while the token that created them lives, and replaced before it expires', async () => {
    const { mirrors } = scene;
    const { copy, crash } = await createCopy(`${12 * slower}s`, `${15 * slower}s`);
    const first = await tokenEnd();
    await waitFor(async () => (await tokenEnd()) > first, {
      message: 'a renewal to be written down',
    });
    await crash();
    const end = await tokenEnd();
    await mirrors.operator();
    const fresh = await waitForOther(copy);
    const leftMs = end - Date.now();
    assert.ok(await works(copy), 'the old ones are still good');
    assert.ok(await works(fresh));
    // Keyferry replaces the credentials when a third of the lease is left, not earlier.
    assert.ok(leftMs > 0 && leftMs < 8000 * slower, `${leftMs} ms before its end`);
  });

  it("if the record of their token's expiry is lost, a restart replaces credentials within 10 s of that expiry, even if the poll period is long", async () => {
    const { mirrors } = scene;
    const { copy, crash } = await createCopy('5s', '1h');
    await crash();
    await mirrors.api.patch(`${mirrorPath('creds')}/status`, {
      status: { vaultSource: { tokenExpirationTime: null } },
    });
    await mirrors.operator();
    const fresh = await within(LONGEST_MS + 5000, 'the replacement', async () => await waitForOther(copy));
    assert.ok(await works(fresh));
    await mirrors.event('creds', 'VaultNewCreds');
  });
});

failOnLeaks();
