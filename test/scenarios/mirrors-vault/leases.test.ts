/**
 * Keyferry keeps and renews dynamic credentials of a real database, replaces them before they expire, still has them
 * after a restart, and revokes them. Their lease belongs to one mirror, path and login: Keyferry revokes it when the
 * mirror changes path or login or is deleted, and creates no lease that no copy would use.
 */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { longIt } from '../../support/long.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { within } from '../../support/yardstick.ts';
import { type FaultProxy, startFaultProxy } from '../../servers/fault-proxy.ts';
import type { FaultRule } from '../../servers/fault-rules.ts';
import { findPostgres, type PostgresServer } from '../../servers/postgres.ts';
import { databaseRole, mountDatabase } from '../../servers/vault-database.ts';
import { HOME, mirrorPath, secretPath } from '../mirrors/support.ts';
import { documentedPolicy, LEASE_ID, policy, VaultScene } from './support.ts';

const postgres = findPostgres();
const skip = 'missing' in postgres ? postgres.missing : false;
const MIRRORS = '/apis/mirrors.kts.studio/v1alpha2/secretmirrors';
const ROLES = ['admin', 'ro'] as const;
const HCL = policy({
  'database/creds/*': ['read', 'update'],
  'secret/*': ['create', 'read', 'update'],
  'sys/leases/revoke': ['update'],
});

interface Credentials {
  readonly user: string;
  readonly password: string;
  readonly leaseId: string;
}

describe('dynamic credentials', { skip }, () => {
  let scene: VaultScene;
  let database: PostgresServer;
  let operator: Keyferry;
  /** The proxy in front of the API server. */
  let cluster: FaultProxy;
  /** The proxy in front of Vault. */
  let proxy: FaultProxy;
  let kubeconfig: string;

  before(async () => {
    ({ scene, database } = await VaultScene.openWithDatabase('database'));
    const { mirrors, vault } = scene;
    for (const role of ROLES) await databaseRole(vault, 'database', role, { ttl: '1h' });
    for (const name of ['one', 'two']) await scene.approle(name, HCL);
    await mountDatabase(vault, 'mongodb', database);
    await databaseRole(vault, 'mongodb', 'somedb', { ttl: '1h', maxTtl: '2h' });
    await scene.approle('vault-approle', await documentedPolicy('Dynamic credentials to namespaces'));
    cluster = await startFaultProxy({ upstream: mirrors.plane.url, upstreamCaPem: mirrors.plane.caPem });
    proxy = await startFaultProxy({ upstream: vault.addr });
    kubeconfig = await mirrors.plane.writeKubeconfig({ server: cluster.url, caPem: cluster.caPem });
    await mirrors.namespaces('target');
    operator = await start();
  });
  /** Removes the objects that a failed test left behind, so that the next test is not affected. */
  beforeEach(async () => {
    cluster.clearRules();
    proxy.clearRules();
    if (!operator.running) operator = await start();
    for (const { metadata } of await scene.mirrors.api.list(MIRRORS)) {
      await scene.mirrors.api.delete(mirrorPath(metadata.name));
      await scene.mirrors.gone(mirrorPath(metadata.name));
    }
    for (const mount of ['database', 'mongodb'])
      await scene.vault.request('PUT', `sys/leases/revoke-prefix/${mount}/creds`);
    for (const user of await vaultUsers()) await drop(user);
  });
  after(async () => {
    await scene.close();
    await cluster.stop();
    await proxy.stop();
  });

  const start = (): Promise<Keyferry> => scene.mirrors.operator({ kubeconfig });
  const block = (role: string, login = 'one', more: Json = {}): Json => ({
    addr: scene.vault.addr,
    path: `database/creds/${role}`,
    auth: { approle: { secretRef: { name: login } } },
    ...more,
  });
  const vaultUsers = async (): Promise<string[]> => {
    const names = await database.sql(`select rolname from pg_roles where rolname like 'v-%' order by 1`);
    return names === '' ? [] : names.split('\n');
  };
  const users = async (count: number): Promise<string[]> => {
    let seen: string[] = [];
    return await waitFor(
      async () => {
        seen = await vaultUsers();
        return seen.length === count && seen;
      },
      { message: () => `${count} users, there are ${seen.join(', ')}:\n${scene.mirrors.tail()}` },
    );
  };
  const works = ({ user, password }: Credentials): Promise<boolean> =>
    database.sql('select 1', { user, password }).then(
      () => true,
      () => false,
    );

  async function credentials(name: string, not?: Credentials, namespace = 'target'): Promise<Credentials> {
    return await waitFor(
      async () => {
        const copy = await scene.mirrors.find(namespace, name);
        const leaseId: string | undefined = copy?.metadata.annotations[LEASE_ID];
        if (leaseId === undefined || leaseId === not?.leaseId) return false;
        const text = (key: string): string => Buffer.from(copy.data[key], 'base64').toString();
        return { user: text('username'), password: text('password'), leaseId };
      },
      { message: () => `credentials in ${namespace}/${name}:\n${scene.mirrors.tail()}` },
    );
  }

  /**
   * Checks at each read that the credentials in the copy work, until the condition is true. @returns the last
   * credentials
   */
  async function worksUntil(name: string, condition: (now: Credentials) => Promise<boolean>): Promise<Credentials> {
    let dead: Credentials | undefined;
    const look = async (): Promise<Credentials | false> => {
      const now = await credentials(name);
      if (await works(now)) return (await condition(now)) && now;
      // If the copy has other credentials by now, Keyferry may have revoked `now` after it was read.
      const isOld = (await credentials(name)).leaseId !== now.leaseId;
      return isOld ? false : (dead = now);
    };
    const last = await waitFor(look, { message: 'the condition on working credentials' });
    assert.equal(dead, undefined, 'the credentials in the copy work');
    return last;
  }

  const created = (): number => operator.logs().filter(({ reason }) => reason === 'VaultNewCreds').length;

  async function edit(name: string, vault: Json): Promise<void> {
    await scene.mirrors.api.patch(mirrorPath(name), { spec: { source: { vault } } });
  }

  async function drop(user: string): Promise<void> {
    await database.sql(`drop role if exists "${user}"`);
  }

  async function remove(...names: readonly string[]): Promise<void> {
    const paths = names.map((name) => mirrorPath(name));
    for (const path of paths) await scene.mirrors.api.delete(path);
    await scene.mirrors.gone(...paths);
    await users(0);
  }

  it("dynamic credentials are created one time, look as in the original's article, and are copied to namespaces that are created later", async () => {
    const { mirrors, vault } = scene;
    await scene.manifest('dynamic-to-namespaces.yaml', { 'https://vault.example.com': vault.addr });
    const name = 'secretmirror-from-vault-mongo-to-ns';
    const first = await credentials('mongo-creds', undefined, 'default');
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
    assert.deepEqual(await credentials('mongo-creds', undefined, 'lease-one'), first);
    await mirrors.api.delete(secretPath('lease-one', 'mongo-creds'));
    assert.deepEqual(await credentials('mongo-creds', undefined, 'lease-one'), first);
    assert.equal(created(), 1);
    await remove(name);
  });

  it('after a clean stop, copies keep their dynamic credentials, and namespaces that are created later get them', async () => {
    const { mirrors } = scene;
    await scene.fromVault('stopped', block('ro'), ['target', 'after-.+'], { pollPeriodSeconds: 600 });
    const first = await credentials('stopped');
    await mirrors.ready('stopped', 'Synced');
    await operator.stop();
    operator = await start();
    await waitFor(() => operator.logs().some(({ msg }) => msg === 'logged in to Vault'), { message: 'a login' });
    await mirrors.namespaces('after-stop');
    assert.deepEqual(await credentials('stopped', undefined, 'after-stop'), first);
    assert.equal(created(), 0);
    assert.ok(await works(first));
    await remove('stopped');
  });

  it('dynamic credentials are replaced if a user revokes them, and revoked if their mirror is deleted', async () => {
    const { mirrors, vault } = scene;
    await scene.fromVault('revoked', block('ro'), ['target']);
    const first = await credentials('revoked');
    await vault.request('PUT', 'sys/leases/revoke', { lease_id: first.leaseId, sync: true });
    const second = await credentials('revoked', first);
    assert.ok(await works(second));
    await waitFor(async () => (await mirrors.status('revoked')).vaultSource.leaseID === second.leaseId);
    const refused = { mirror: 'default/revoked', vault: vault.addr, http_code: '400' };
    assert.equal(await operator.metric('mirrors_vault_lease_renew_error_total', refused), 1);
    await mirrors.api.delete(mirrorPath('revoked'));
    await mirrors.gone(mirrorPath('revoked'), secretPath('target', 'revoked'));
    await waitFor(async () => !(await works(second)), { message: 'the credentials to be revoked' });
  });

  longIt(
    'dynamic credentials are renewed in time even if the poll period is long, and replaced before max_ttl',
    async () => {
      const { mirrors, vault } = scene;
      await databaseRole(vault, 'database', 'short', { ttl: '4s', maxTtl: '10s' });
      await scene.fromVault('short', block('short'), ['target'], { pollPeriodSeconds: 600 });
      const first = await credentials('short');
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
    await scene.approle('lost', HCL);
    await scene.fromVault('orphaned', block('ro', 'lost'), ['target']);
    const first = await credentials('orphaned');
    const { data } = await vault.request('LIST', 'auth/token/accessors');
    for (const accessor of data.keys) {
      const token = await vault.raw('POST', 'auth/token/lookup-accessor', { accessor });
      if (token.body.data?.policies?.includes('lost') === true) {
        await vault.request('POST', 'auth/token/revoke-accessor', { accessor });
      }
    }
    const second = await credentials('orphaned', first);
    assert.ok(await works(second));
  });

  longIt(
    'if a mirror chooses keys of dynamic credentials, a restart replaces them, and the old ones work until all copies have the new ones',
    async () => {
      const { mirrors } = scene;
      const keys = [{ from: 'username' }, { from: 'username', to: 'user' }, { from: 'password' }];
      await scene.fromVault('chosen', block('ro'), ['target', HOME], { destination: { keys } });
      const first = await credentials('chosen');
      await mirrors.ready('chosen', 'Synced');
      const uid = async (): Promise<string> => (await mirrors.find('target', 'chosen')).metadata.uid;
      const before = await uid();
      await operator.kill9();
      operator = await start();
      const second = await worksUntil(
        'chosen',
        async ({ leaseId }) => await Promise.resolve(leaseId !== first.leaseId),
      );
      await worksUntil('chosen', async () => !(await works(first)));
      await mirrors.ready('chosen', 'Synced');
      assert.deepEqual(await credentials('chosen', undefined, HOME), second);
      const copy = await mirrors.find('target', 'chosen');
      assert.deepEqual(Object.keys(copy.data).sort(), ['password', 'user', 'username']);
      assert.equal(copy.data.user, copy.data.username);
      assert.equal(await uid(), before, 'the copy was written, not made again');
    },
  );

  it('if a mirror gets another Vault path, it gets a new lease, and the old lease is revoked once no copy has its credentials', async () => {
    const { mirrors } = scene;
    await scene.fromVault('edited', block('admin'), ['target'], { pollPeriodSeconds: 600 });
    const first = await credentials('edited');
    await mirrors.ready('edited', 'Synced');
    cluster.rule({
      match: ({ method, path }) => method !== 'GET' && path.includes('/namespaces/target/secrets'),
      fault: { kind: 'stall' },
    });
    await edit('edited', { path: 'database/creds/ro' });
    await users(2);
    await waitFor(() => cluster.live({ method: ['PATCH', 'PUT'] }).length > 0, { message: 'the copy to be written' });
    const { vaultLeases } = await waitFor(
      async () => {
        const status = await mirrors.status('edited');
        return status.vaultSource.leaseID.startsWith('database/creds/ro/') && status;
      },
      { message: 'the new lease to be written down' },
    );
    assert.deepEqual(
      vaultLeases.map((lease: Json) => lease.vault.path),
      ['database/creds/ro'],
    );
    assert.ok(await works(first), 'Pods log in with what the copy holds');
    cluster.clearRules();
    cluster.cutAll({ method: ['PATCH', 'PUT'] });
    const second = await credentials('edited', first);
    assert.ok(second.leaseId.startsWith('database/creds/ro/'), second.leaseId);
    await users(1);
    assert.deepEqual([await works(first), await works(second)], [false, true]);
    await remove('edited');
  });

  it("if only the type of a mirror's copies changes, the Vault lease is kept", async () => {
    const { mirrors } = scene;
    await scene.fromVault('typed', block('ro'), ['target'], { pollPeriodSeconds: 600 });
    const first = await credentials('typed');
    await mirrors.ready('typed', 'Synced');
    const secretType = 'kubernetes.io/basic-auth';
    await mirrors.api.patch(mirrorPath('typed'), { spec: { destination: { secretType } } });
    await waitFor(async () => (await mirrors.find('target', 'typed'))?.type === secretType, { message: 'the type' });
    assert.deepEqual(await credentials('typed'), first);
    await users(1);
    await remove('typed');
  });

  it('if a mirror got another Vault path or login while Keyferry was killed, the next start replaces its lease', async () => {
    const { mirrors } = scene;
    await scene.fromVault('path', block('admin'), ['target'], { pollPeriodSeconds: 600 });
    await scene.fromVault('login', block('ro'), ['target'], { pollPeriodSeconds: 600 });
    await scene.fromVault('same', block('ro'), ['target'], { pollPeriodSeconds: 600 });
    const before = [await credentials('path'), await credentials('login'), await credentials('same')] as const;
    for (const name of ['path', 'login', 'same']) await mirrors.ready(name, 'Synced');
    await operator.kill9();
    await edit('path', { path: 'database/creds/ro' });
    await edit('login', { auth: { approle: { secretRef: { name: 'two' } } } });
    operator = await start();
    const after = [await credentials('path', before[0]), await credentials('login', before[1])];
    assert.ok(after[0]?.leaseId.startsWith('database/creds/ro/'));
    await users(3);
    for (const old of [before[0], before[1]]) assert.equal(await works(old), false);
    assert.deepEqual(await credentials('same'), before[2]);
    await remove('path', 'login', 'same');
  });

  longIt(
    'if Keyferry is killed at any moment while a mirror changes its Vault path, its copy always has credentials that work',
    async () => {
      const { mirrors } = scene;
      await scene.fromVault('moment', block('admin'), ['target'], { pollPeriodSeconds: 600 });
      let current = await credentials('moment');
      await mirrors.ready('moment', 'Synced');
      // The first two rounds stall a write of the change, then kill Keyferry: of the status, which names the new lease
      // before a copy has its credentials, and of the copy.
      for (const [index, stalled] of [/\/secretmirrors\/.*status$/, /\/secrets\//, /^nothing$/].entries()) {
        cluster.rule({
          match: ({ method, path }) => method !== 'GET' && stalled.test(path),
          fault: { kind: 'stall' },
        });
        await edit('moment', { path: `database/creds/${ROLES[(index + 1) % 2]}` });
        if (index === 2) await credentials('moment', current);
        else {
          await users(2);
          await waitFor(() => cluster.live({ method: ['PATCH', 'PUT'] }).length > 0, {
            message: 'the write that stalls',
          });
          assert.deepEqual(await credentials('moment'), current);
          assert.ok(await works(current));
        }
        await operator.kill9();
        cluster.clearRules();
        operator = await start();
        const next = await credentials('moment', current);
        assert.ok(await works(next));
        await mirrors.ready('moment', 'Synced');
        // The kill loses the lease that neither status nor copy names any more. It ends by its TTL.
        if (index === 0) await waitFor(async () => !(await works(current)), { message: 'the old one to end' });
        for (const lost of (await vaultUsers()).filter((name) => name !== next.user)) await drop(lost);
        assert.deepEqual(await users(1), [next.user]);
        current = next;
      }
      await remove('moment');
    },
  );

  it('two mirrors of one Vault path share a login, but each has its own lease and database user', async () => {
    const { mirrors } = scene;
    await scene.approle('shared', HCL);
    const logins = (): Promise<number | undefined> => operator.metric('keyferry_vault_logins_total');
    const before = (await logins()) ?? 0;
    for (const name of ['left', 'right']) await scene.fromVault(name, block('ro', 'shared'), ['target']);
    const [left, right] = [await credentials('left'), await credentials('right')];
    assert.notEqual(left.user, right.user);
    for (const name of ['left', 'right']) await mirrors.ready(name, 'Synced');
    assert.equal(await logins(), before + 1);
    await mirrors.api.delete(mirrorPath('left'));
    await users(1);
    assert.deepEqual([await works(left), await works(right)], [false, true]);
    await remove('right');
  });

  it('the Vault lease of a deleted mirror is revoked, even if the Secret with its login is deleted just before', async () => {
    const { mirrors } = scene;
    const names = ['gone-0', 'gone-1', 'gone-2', 'gone-3'];
    for (const name of names) {
      await scene.approle(name, HCL);
      await scene.fromVault(name, block('ro', name), ['target']);
    }
    for (const name of names) {
      await credentials(name);
      await mirrors.ready(name, 'Synced');
    }
    for (const name of names) {
      await mirrors.api.delete(secretPath(HOME, name));
      await mirrors.api.delete(mirrorPath(name));
    }
    await mirrors.gone(...names.map((name) => mirrorPath(name)));
    await users(0);
  });

  it('the Vault lease of a deleted mirror is revoked, even if the mirror has no status yet', async () => {
    const { mirrors } = scene;
    for (let i = 0; i < 4; i++) {
      const name = `brief-${i}`;
      await scene.fromVault(name, block('ro'), ['target', 'nowhere-.+']);
      // In every second round the database user exists before the deletion.
      if (i % 2 === 0) await users(1);
      await mirrors.api.delete(mirrorPath(name));
      await mirrors.gone(mirrorPath(name), secretPath('target', name));
      await users(0);
    }
  });

  it("if a mirror's spec shows that no copy could use the credentials, Keyferry creates no lease", async () => {
    const { mirrors } = scene;
    await scene.fromVault('base64', block('ro', 'one', { encoding: 'base64' }), ['target']);
    await mirrors.secret(HOME, 'plain', { a: '1' });
    await scene.toVault('into', { name: 'plain' }, block('ro'));
    await mirrors.ready('base64', 'InvalidValues', /not in a KV store/);
    await mirrors.ready('into', 'VaultError', /database\/ is not a KV store/);
    assert.deepEqual(await vaultUsers(), []);
    await remove('base64', 'into');
  });

  it('if credentials turn out to be unusable for a mirror, their lease is revoked immediately, and polls create no other lease', async () => {
    const { mirrors } = scene;
    const refused = { errors: ['preflight capability check returned 403'] };
    proxy.rule({
      match: ({ path }) => path.startsWith('/v1/sys/internal/'),
      fault: { kind: 'respond', status: 403, body: refused },
    });
    const behind = { addr: proxy.url };
    await scene.fromVault('blind-base64', block('ro', 'one', { ...behind, encoding: 'base64' }), ['target']);
    await mirrors.secret(HOME, 'blind', { a: '1' });
    await scene.toVault('blind-into', { name: 'blind' }, block('ro', 'one', behind));
    await mirrors.ready('blind-base64', 'InvalidValues');
    await mirrors.ready('blind-into', 'VaultError', /not a KV store/);
    await users(0);
    const asked = (): number => proxy.requests.filter(({ url }) => url === '/v1/database/creds/ro').length;
    assert.equal(asked(), 2);
    // The mirrors go on polling, but request no other credentials.
    const polls = proxy.counters.requests;
    await mirrors.change(HOME, 'blind', { a: '2' });
    await waitFor(() => proxy.counters.requests > polls, { message: 'another try' });
    await scene.fromVault('blind', block('ro', 'one', behind), ['target']);
    assert.ok(await works(await credentials('blind')));
    assert.equal(asked(), 3);
    await remove('blind-base64', 'blind-into', 'blind');
  });

  longIt(
    'credentials that a mirror copied into Vault keep their lease after restarts, but if a client replaced the entry meanwhile, the lease is revoked',
    async () => {
      const { mirrors, vault } = scene;
      const to = block('ro', 'one', { path: 'secret/data/creds' });
      await scene.toVault('carried', { type: 'vault', vault: block('ro') }, to, { pollPeriodSeconds: 600 });
      await mirrors.ready('carried', 'Synced');
      const [user] = await users(1);
      const there = async (): Promise<Json> => (await vault.request('GET', 'secret/data/creds')).data;
      const { metadata, data } = await there();
      assert.equal(data.username, user);
      await waitFor(async () => (await mirrors.status('carried')).vaultLeases?.[0]?.destinationVersion, {
        message: 'it',
      });
      for (const end of ['kill9', 'stop', 'kill9'] as const) {
        await operator[end]();
        operator = await start();
        await waitFor(() => operator.logs().some(({ msg }) => msg === 'logged in to Vault'), { message: 'a login' });
        await mirrors.ready('carried', 'Synced');
        assert.deepEqual(await vaultUsers(), [user]);
      }
      assert.deepEqual((await there()).metadata, metadata);
      await operator.kill9();
      await vault.request('DELETE', 'secret/metadata/creds');
      await vault.request('POST', 'secret/data/creds', { data: { username: 'another', password: 'client' } });
      operator = await start();
      await waitFor(async () => (await there()).data.username.startsWith('v-'), { message: 'the repair of the entry' });
      const [other] = await users(1);
      assert.equal((await there()).data.username, other);
      await mirrors.api.delete(mirrorPath('carried'));
      await mirrors.gone(mirrorPath('carried'));
      // Keyferry never deletes an entry of Vault, so the credentials stay in the entry.
      assert.deepEqual(await vaultUsers(), [other]);
      await vault.request('PUT', 'sys/leases/revoke-prefix/database/creds');
    },
  );

  longIt(
    'credentials in an entry of Vault stay valid until it has others: while the mirror is suspended, and after its deletion',
    async () => {
      const { mirrors, vault } = scene;
      const held = async (): Promise<string> => (await vault.request('GET', 'secret/data/creds')).data.data.username;
      const refuseWrites = (): void => {
        const match: FaultRule['match'] = ({ path, method }) => path.startsWith('/v1/secret/data/') && method !== 'GET';
        proxy.rule({ match, fault: { kind: 'respond', status: 500, body: { errors: ['broken'] } } });
      };
      const to = block('ro', 'one', { path: 'secret/data/creds', addr: proxy.url });
      await vault.request('DELETE', 'secret/metadata/creds');
      await scene.toVault('held', { type: 'vault', vault: block('ro') }, to, { pollPeriodSeconds: 1 });
      await mirrors.ready('held', 'Synced');
      const [first] = await users(1);
      assert.equal(await held(), first);
      refuseWrites();
      await edit('held', block('admin'));
      await users(2);
      await mirrors.api.patch(mirrorPath('held'), { spec: { suspend: true } });
      await mirrors.ready('held', 'Suspended');
      await staysTrue(async () => (await vaultUsers()).includes(first ?? ''), 2000, 'the first credentials are valid');
      proxy.clearRules();
      await mirrors.api.patch(mirrorPath('held'), { spec: { suspend: false } });
      await waitFor(async () => (await held()) !== first, { message: 'the second credentials in the entry' });
      const [second] = await users(1);
      assert.equal(await held(), second);
      refuseWrites();
      await edit('held', block('ro'));
      await users(2);
      await mirrors.api.delete(mirrorPath('held'));
      await mirrors.gone(mirrorPath('held'));
      assert.equal(await held(), second);
      assert.ok((await vaultUsers()).includes(second ?? ''));
      proxy.clearRules();
      await vault.request('PUT', 'sys/leases/revoke-prefix/database/creds');
    },
  );

  longIt('if a database takes 12 s to create a user, the mirror still copies the credentials', async () => {
    proxy.rule({ match: ({ path }) => path.startsWith('/v1/database/'), fault: { kind: 'delay', ms: 12_000 } });
    await scene.fromVault('slow', block('ro', 'one', { addr: proxy.url }), ['target']);
    const slow = await waitFor(() => scene.mirrors.find('target', 'slow'), { message: 'a copy' });
    assert.ok(slow.metadata.annotations[LEASE_ID]);
    proxy.clearRules();
    await remove('slow');
  });

  it('while Vault is down, a mirror with dynamic credentials can be deleted', async () => {
    const { mirrors, vault } = scene;
    await scene.fromVault('down', block('ro'), ['target']);
    await mirrors.ready('down', 'Synced');
    await vault.halt();
    await within(8000, 'the deletion', async () => {
      await mirrors.api.delete(mirrorPath('down'));
      await mirrors.gone(mirrorPath('down'), secretPath('target', 'down'));
    });
  });
});

failOnLeaks();
