/** A Vault lease expires with the token that created it. After a restart nothing renews that token: the credentials must be replaced in time. */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { findPostgres, type PostgresServer, startPostgres } from '../../servers/postgres.ts';
import { databaseRole, mountDatabase } from '../../servers/vault-database.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { waitFor } from '../../support/wait-for.ts';
import { currentStretch, within } from '../../support/yardstick.ts';
import { mirrorPath } from '../mirrors/support.ts';
import { documentedPolicy, LEASE_ID, VaultScene } from './support.ts';

const postgres = findPostgres();
const skip = 'missing' in postgres ? postgres.missing : false;
/** Durations are real time: on a busy machine, everything done during one takes longer. */
const slower = Math.min(3, Math.ceil(await currentStretch()));
/** The token's duration, and the interval after which the lease is looked up next. */
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

  /** Creates a mirror and waits for its copy. @returns the copy, and a function that kills the operator */
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

  it('credentials whose token is not renewed after a restart are kept while the token lives, and replaced before it ends', async () => {
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
    // A third of the lease before its end, and not earlier.
    assert.ok(leftMs > 0 && leftMs < 8000 * slower, `${leftMs} ms before its end`);
  });

  it('credentials whose token is not renewed after a restart are replaced within 10 s of its expiry if that was not recorded, whatever the poll period', async () => {
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
