/** Dynamic credentials hang on the token that asked for them. After a restart nobody renews that token: its end must not be theirs for long. */
import assert from 'node:assert/strict';
import { it } from 'node:test';

import { findPostgres, startPostgres } from '../../servers/postgres.ts';
import { databaseRole, mountDatabase } from '../../servers/vault-database.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { waitFor } from '../../support/wait-for.ts';
import { documentedPolicy, LEASE_ID, VaultScene } from './support.ts';

const postgres = findPostgres();
const skip = 'missing' in postgres ? postgres.missing : false;
/** Of the token, and then until the lease is looked up next. */
const LONGEST_MS = 5000 + 10_000;

it(
  'credentials whose token ends after a restart are replaced within 10 s, whatever the poll period',
  { skip },
  async () => {
    await using database = await startPostgres();
    const scene = await VaultScene.open();
    try {
      const { mirrors, vault } = scene;
      await mountDatabase(vault, 'mongodb', database);
      await databaseRole(vault, 'mongodb', 'somedb', { ttl: '1h' });
      const hcl = await documentedPolicy('Dynamic credentials to namespaces');
      await scene.approle('lessee', hcl, { role: { token_ttl: '5s' } });
      const first = await mirrors.operator();
      await mirrors.namespaces('target');
      const auth = { approle: { secretRef: { name: 'lessee' } } };
      const block = scene.block('mongodb/creds/somedb', '', { auth });
      await scene.fromVault('creds', block, ['target'], { pollPeriodSeconds: 600 });
      const old = await waitFor(() => mirrors.find('target', 'creds'), { message: 'credentials' });
      await mirrors.ready('creds', 'Synced');
      await first.kill9();
      await mirrors.operator();
      const leaseOf = ({ metadata }: typeof old): string => metadata.annotations[LEASE_ID];
      const copy = await waitFor(
        async () => {
          const now = await mirrors.find('target', 'creds');
          return leaseOf(now) !== leaseOf(old) && now;
        },
        { timeoutMs: LONGEST_MS + 5000, message: 'other credentials' },
      );
      const text = (key: string): string => Buffer.from(copy.data[key], 'base64').toString();
      await assert.doesNotReject(database.sql('select 1', { user: text('username'), password: text('password') }));
      await mirrors.event('creds', 'VaultNewCreds');
    } finally {
      await scene.close();
    }
  },
);

failOnLeaks();
