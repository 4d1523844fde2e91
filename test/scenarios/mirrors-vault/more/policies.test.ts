/**
 * Each policy in docs/vault.md permits all calls of its scenario, from the first copy to the deletion of the mirror,
 * and no other calls.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { findPostgres, startPostgres } from '../../../servers/postgres.ts';
import type { VaultServer } from '../../../servers/vault.ts';
import { databaseRole, mountDatabase } from '../../../servers/vault-database.ts';
import type { Json } from '../../../support/api.ts';
import { readJsonLines } from '../../../support/json-lines.ts';
import type { Keyferry } from '../../../support/keyferry.ts';
import { failOnLeaks } from '../../../support/leaks.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { HOME, mirrorPath, secretPath } from '../../mirrors/support.ts';
import { documentedPolicy, LEASE_ID, VaultScene } from '../support.ts';

const ENTRY = 'secret/data/myvaultsecret';
const postgres = findPostgres();

interface AuditLine {
  readonly type: string;
  readonly auth?: { readonly policies?: readonly string[] };
  readonly request: { readonly operation: string; readonly path: string };
  readonly error?: string;
}

describe('the policies in docs/vault.md', () => {
  let scene: VaultScene;
  let second: VaultServer;
  let operator: Keyferry;

  before(async () => {
    scene = await VaultScene.open({ auditLog: true });
    second = await scene.anotherVault({ auditLog: true });
    await scene.mirrors.namespaces('target');
    operator = await scene.mirrors.operator();
  });
  after(() => scene.close());

  const block = (path: string, name: string, vault = scene.vault): Json =>
    scene.block(path, '', { auth: { approle: { secretRef: { name } } } }, vault);

  /** Vault calls of clients with this policy, each as `read secret/data/app`. Fails if Vault refused one of them. */
  async function done(name: string, vault = scene.vault): Promise<ReadonlySet<string>> {
    const lines: readonly AuditLine[] = readJsonLines(vault.auditLogPath);
    const answers = lines.filter(({ type }) => type === 'response');
    const own = answers.filter(({ auth }) => auth?.policies?.includes(name) === true);
    const refused = own.filter(({ error }) => /permission denied/.test(error ?? ''));
    assert.deepEqual(
      refused.map(({ request }) => request),
      [],
      'refused by the policy',
    );
    return new Set(own.map(({ request }) => `${request.operation} ${request.path}`));
  }

  /** Permissions of a policy, each in the same form as a call: `read secret/data/app`. */
  function permitted(hcl: string): string[] {
    return [...hcl.matchAll(/path "([^"]+)" \{ capabilities = \[([^\]]+)\]/g)].flatMap(([, path = '', list = '']) =>
      list.split(',').map((capability) => `${capability.trim().replaceAll('"', '')} ${path}`),
    );
  }

  /** Waits until Keyferry has used every permission of the policy. */
  async function noMore(name: string, hcl: string, vault = scene.vault): Promise<void> {
    assert.ok(permitted(hcl).length > 0, hcl);
    await waitFor(
      async () => {
        const used = await done(name, vault);
        return permitted(hcl).every((one) => used.has(one) || [...used].some((other) => other.startsWith(`${one}/`)));
      },
      { message: () => `all to be used of ${permitted(hcl).join(', ')}` },
    );
  }

  async function ends(name: string): Promise<void> {
    await scene.mirrors.api.delete(mirrorPath(name));
    await scene.mirrors.gone(mirrorPath(name));
  }

  it('the policy in docs/vault.md for Vault to namespaces permits all calls of Keyferry, and Keyferry uses each permission', async () => {
    const hcl = await documentedPolicy('Vault to namespaces');
    await scene.approle('reader', hcl);
    await scene.put(ENTRY, { a: '1' });
    await scene.fromVault('reading', block(ENTRY, 'reader'), ['target']);
    await scene.mirrors.copied('target', 'reading', { a: '1' });
    await scene.put(ENTRY, { a: '2' });
    await scene.mirrors.copied('target', 'reading', { a: '2' });
    await noMore('reader', hcl);
    await ends('reading');
    await done('reader');
  });

  it('the policy in docs/vault.md for Secret to Vault permits all calls of Keyferry, and Keyferry uses each permission', async () => {
    const hcl = await documentedPolicy('Secret to Vault');
    const { mirrors } = scene;
    await scene.approle('writer', hcl, {}, second);
    await mirrors.secret(HOME, 'written', { a: '1' });
    await scene.toVault('writing', { name: 'written' }, block(ENTRY, 'writer', second));
    await scene.holds(ENTRY, { a: '1' }, second);
    await mirrors.change(HOME, 'written', { a: '2' });
    await scene.holds(ENTRY, { a: '2' }, second);
    await second.request('POST', ENTRY, { data: { a: 'by another user' } });
    await scene.holds(ENTRY, { a: '2' }, second);
    await noMore('writer', hcl, second);
    await ends('writing');
    await done('writer', second);
  });

  it(
    'the policy in docs/vault.md for dynamic credentials permits all calls of Keyferry, and Keyferry uses each permission',
    { skip: 'missing' in postgres ? postgres.missing : false },
    async () => {
      const hcl = await documentedPolicy('Dynamic credentials to namespaces');
      const { mirrors, vault } = scene;
      await using database = await startPostgres();
      await mountDatabase(vault, 'mongodb', database);
      await databaseRole(vault, 'mongodb', 'somedb', { ttl: '4s', maxTtl: '1h' });
      await scene.approle('lessee', hcl);
      await scene.fromVault('creds', block('mongodb/creds/somedb', 'lessee'), ['target']);
      const copy = await waitFor(() => mirrors.find('target', 'creds'), { message: 'credentials' });
      await mirrors.event('creds', 'VaultLeaseRenew');
      await ends('creds');
      await noMore('lessee', hcl);
      const lease = { lease_id: copy.metadata.annotations[LEASE_ID] };
      const revoked = async (): Promise<boolean> => (await vault.raw('PUT', 'sys/leases/lookup', lease)).status === 400;
      await waitFor(revoked, { message: 'the lease to be revoked' });
    },
  );

  it('with the policies in docs/vault.md, a clean stop revokes all tokens, and no log, event or status has a credential', async () => {
    const { mirrors, vault } = scene;
    await scene.fromVault('last', block(ENTRY, 'reader'), ['target']);
    await mirrors.ready('last', 'Synced');
    const tokens = async (server: VaultServer): Promise<Json[]> => {
      const { data } = await server.request('LIST', 'auth/token/accessors');
      const answers = data.keys.map((accessor: string) =>
        server.raw('POST', 'auth/token/lookup-accessor', { accessor }),
      );
      const logins = (await Promise.all(answers)).map(({ body }) => body.data?.path ?? '');
      return logins.filter((path) => path === 'auth/approle/login');
    };
    assert.ok((await tokens(vault)).length > 0);
    assert.equal((await operator.stop()).code, 0);
    assert.deepEqual([await tokens(vault), await tokens(second)], [[], []]);
    const output =
      operator.output + JSON.stringify([await mirrors.api.list('/api/v1/events'), await mirrors.status('last')]);
    for (const name of ['reader', 'writer']) {
      const { data } = await mirrors.api.get(secretPath(HOME, name));
      const secretId = Buffer.from(data['secret-id'], 'base64').toString();
      assert.ok(secretId.length > 30 && !output.includes(secretId), name);
    }
    // Service tokens of Vault start with `hvs.`, batch tokens with `hvb.`.
    assert.doesNotMatch(output, /hv[sb]\./);
  });
});

failOnLeaks();
