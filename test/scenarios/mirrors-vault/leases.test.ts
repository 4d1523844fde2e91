/**
 * Keyferry keeps and renews dynamic credentials of a real database, replaces them before they expire, still has them
 * after a restart, and revokes them.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { longIt } from '../../support/long.ts';
import { waitFor } from '../../support/wait-for.ts';
import { within } from '../../support/yardstick.ts';
import { findPostgres, type PostgresServer } from '../../servers/postgres.ts';
import { databaseRole } from '../../servers/vault-database.ts';
import { mirrorPath, secretPath } from '../mirrors/support.ts';
import { documentedPolicy, LEASE_ID, policy, VaultScene } from './support.ts';

const postgres = findPostgres();
const skip = 'missing' in postgres ? postgres.missing : false;

interface Credentials {
  readonly user: string;
  readonly password: string;
  readonly leaseId: string;
}

describe('dynamic credentials', { skip }, () => {
  let scene: VaultScene;
  let database: PostgresServer;
  let operator: Keyferry;

  before(async () => {
    ({ scene, database } = await VaultScene.openWithDatabase('mongodb'));
    await role('somedb', '1h', '2h');
    const documented = await documentedPolicy('Dynamic credentials to namespaces');
    await scene.approle('vault-approle', `${documented}\n${policy({ 'mongodb/creds/short': ['read'] })}`);
    operator = await scene.mirrors.operator();
  });
  after(() => scene.close());

  async function role(name: string, ttl: string, maxTtl: string): Promise<void> {
    await databaseRole(scene.vault, 'mongodb', name, { ttl, maxTtl });
  }

  async function credentials(namespace: string, name: string, not = ''): Promise<Credentials> {
    return await waitFor(
      async () => {
        const copy = await scene.mirrors.find(namespace, name);
        const leaseId: string = copy?.metadata.annotations[LEASE_ID] ?? '';
        const text = (key: string): string => Buffer.from(copy.data[key], 'base64').toString();
        return leaseId !== '' && leaseId !== not && { user: text('username'), password: text('password'), leaseId };
      },
      { message: () => `credentials in ${namespace}/${name}:\n${scene.mirrors.tail()}` },
    );
  }

  const works = (login: Credentials): Promise<boolean> =>
    database.sql('select 1', login).then(
      () => true,
      () => false,
    );
  /**
   * Checks at each read that the credentials in the copy work, until the condition is true. @returns the last
   * credentials
   */
  async function worksUntil(name: string, condition: (now: Credentials) => Promise<boolean>): Promise<Credentials> {
    let dead: Credentials | undefined;
    const look = async (): Promise<Credentials | false> => {
      const now = await credentials('default', name);
      if (await works(now)) return (await condition(now)) && now;
      // If the copy has other credentials by now, Keyferry may have revoked `now` after it was read.
      const isOld = (await credentials('default', name)).leaseId !== now.leaseId;
      return isOld ? false : (dead = now);
    };
    const last = await waitFor(look, { message: 'the condition on working credentials' });
    assert.equal(dead, undefined, 'the credentials in the copy work');
    return last;
  }

  const created = (): number => operator.logs().filter(({ reason }) => reason === 'VaultNewCreds').length;
  const block = (path: string): Json => ({
    addr: scene.vault.addr,
    path,
    auth: { approle: { secretRef: { name: 'vault-approle' } } },
  });

  it("dynamic credentials are created one time, look as in the original's article, and are copied to namespaces that are created later", async () => {
    const { mirrors, vault } = scene;
    await scene.manifest('dynamic-to-namespaces.yaml', { 'https://vault.example.com': vault.addr });
    const name = 'secretmirror-from-vault-mongo-to-ns';
    const first = await credentials('default', 'mongo-creds');
    assert.ok(await works(first));
    const status = await mirrors.ready(name, 'Synced');
    const { tokenExpirationTime, ...lease } = status.vaultSource;
    assert.deepEqual(lease, { leaseID: first.leaseId, leaseDuration: 3600 });
    const tokenLifeMs = Date.parse(tokenExpirationTime) - Date.now();
    assert.ok(tokenLifeMs > 3_500_000 && tokenLifeMs <= 3_600_000, `${tokenLifeMs} ms`);
    await mirrors.event(
      name,
      'VaultNewCreds',
      new RegExp(`^Fetched new credentials under the lease ${first.leaseId}$`),
    );
    await mirrors.namespaces('lease-one');
    await mirrors.api.patch(mirrorPath(name), {
      spec: { pollPeriodSeconds: 1, destination: { namespaces: ['default', 'lease-.+'] } },
    });
    assert.deepEqual(await credentials('lease-one', 'mongo-creds'), first);
    await mirrors.api.delete(secretPath('lease-one', 'mongo-creds'));
    assert.deepEqual(await credentials('lease-one', 'mongo-creds'), first);
    assert.equal(created(), 1);
  });

  it('after a clean stop and after a kill -9, copies keep their dynamic credentials', async () => {
    const { mirrors } = scene;
    const first = await credentials('default', 'mongo-creds');
    await mirrors.ready('secretmirror-from-vault-mongo-to-ns', 'Synced');
    for (const end of ['stop', 'kill9'] as const) {
      await operator[end]();
      operator = await mirrors.operator();
      await waitFor(() => operator.logs().some(({ msg }) => msg === 'logged in to Vault'), { message: 'a login' });
      await mirrors.namespaces(`lease-after-${end}`);
      assert.deepEqual(await credentials(`lease-after-${end}`, 'mongo-creds'), first);
      assert.equal(created(), 0);
    }
    assert.ok(await works(first));
  });

  it('dynamic credentials are replaced if a user revokes them, and revoked if their mirror is deleted', async () => {
    const { mirrors, vault } = scene;
    const first = await credentials('default', 'mongo-creds');
    await vault.request('PUT', 'sys/leases/revoke', { lease_id: first.leaseId, sync: true });
    const second = await credentials('default', 'mongo-creds', first.leaseId);
    assert.ok(await works(second));
    const name = 'secretmirror-from-vault-mongo-to-ns';
    await waitFor(async () => (await mirrors.status(name)).vaultSource.leaseID === second.leaseId);
    const refused = { mirror: `default/${name}`, vault: vault.addr, http_code: '400' };
    assert.equal(await operator.metric('mirrors_vault_lease_renew_error_total', refused), 1);
    await mirrors.api.delete(mirrorPath(name));
    await mirrors.gone(mirrorPath(name), secretPath('default', 'mongo-creds'));
    await waitFor(async () => !(await works(second)), { message: 'the credentials to be revoked' });
  });

  longIt(
    'dynamic credentials are renewed in time even if the poll period is long, and replaced before max_ttl',
    async () => {
      const { mirrors, vault } = scene;
      await role('short', '4s', '10s');
      await scene.fromVault('short', block('mongodb/creds/short'), ['default'], { pollPeriodSeconds: 600 });
      const first = await credentials('default', 'short');
      const labels = { mirror: 'default/short', vault: vault.addr };
      const renewals = async (): Promise<number> =>
        (await operator.metric('mirrors_vault_lease_renew_ok_total', labels)) ?? 0;
      assert.deepEqual(await worksUntil('short', async () => (await renewals()) >= 1), first);
      await mirrors.event('short', 'VaultLeaseRenew', /^Renewed lease successfully$/);
      const second = await worksUntil('short', async ({ leaseId }) => await Promise.resolve(leaseId !== first.leaseId));
      await worksUntil('short', async () => !(await works(first)));
      assert.notEqual(second.user, first.user);
    },
  );

  it('if the token that created dynamic credentials is revoked, Keyferry replaces the credentials', async () => {
    const { vault } = scene;
    await scene.fromVault('orphaned', block('mongodb/creds/somedb'), ['default']);
    const first = await credentials('default', 'orphaned');
    const { data } = await vault.request('LIST', 'auth/token/accessors');
    for (const accessor of data.keys) {
      const token = await vault.raw('POST', 'auth/token/lookup-accessor', { accessor });
      if (token.body.data?.policies?.includes('vault-approle') === true) {
        await vault.request('POST', 'auth/token/revoke-accessor', { accessor });
      }
    }
    const second = await credentials('default', 'orphaned', first.leaseId);
    assert.ok(await works(second));
  });

  longIt(
    'if a mirror chooses keys of dynamic credentials, a restart replaces them, and the old ones work until all copies have the new ones',
    async () => {
      const { mirrors } = scene;
      const keys = [{ from: 'username' }, { from: 'username', to: 'user' }, { from: 'password' }];
      await scene.fromVault('chosen', block('mongodb/creds/somedb'), ['default', 'lease-.+'], {
        destination: { keys },
      });
      const first = await credentials('default', 'chosen');
      await mirrors.ready('chosen', 'Synced');
      const uid = async (): Promise<string> => (await mirrors.find('default', 'chosen')).metadata.uid;
      const before = await uid();
      await operator.kill9();
      operator = await mirrors.operator();
      const second = await worksUntil(
        'chosen',
        async ({ leaseId }) => await Promise.resolve(leaseId !== first.leaseId),
      );
      await worksUntil('chosen', async () => !(await works(first)));
      await mirrors.ready('chosen', 'Synced');
      assert.deepEqual(await credentials('lease-one', 'chosen'), second);
      const copy = await mirrors.find('default', 'chosen');
      assert.deepEqual(Object.keys(copy.data).sort(), ['password', 'user', 'username']);
      assert.equal(copy.data.user, copy.data.username);
      assert.equal(await uid(), before, 'the copy was written, not made again');
    },
  );

  it('while Vault is down, a mirror with dynamic credentials can be deleted', async () => {
    const { mirrors, vault } = scene;
    await mirrors.ready('orphaned', 'Synced');
    await vault.halt();
    await within(8000, 'the deletion', async () => {
      await mirrors.api.delete(mirrorPath('orphaned'));
      await mirrors.gone(mirrorPath('orphaned'), secretPath('default', 'orphaned'));
    });
  });
});

failOnLeaks();
