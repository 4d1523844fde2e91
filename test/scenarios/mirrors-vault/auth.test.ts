/**
 * Mirrors log in to Vault with credentials from Secrets. They report failed logins, and use changed credentials
 * immediately.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { failOnLeaks } from '../../support/leaks.ts';
import { HOME, mirrorPath, secretPath } from '../mirrors/support.ts';
import { policy, VaultScene } from './support.ts';

const READ = policy({ 'secret/data/app': ['read'] });

describe('logins to Vault', () => {
  let scene: VaultScene;
  before(async () => {
    scene = await VaultScene.open();
    await scene.put('secret/data/app', { password: 'deadbeef' });
    await scene.mirrors.operator();
    await scene.mirrors.namespaces('target');
  });
  after(() => scene.close());

  it('a mirror that logs in with a token waits for the Secret with the token, and uses the token as soon as it is there', async () => {
    const { mirrors, vault } = scene;
    await scene.fromVault(
      'tok',
      scene.block('secret/data/app', 'my-token', { auth: token('my-token', 'here') }),
      ['target'],
      {
        pollPeriodSeconds: 600,
      },
    );
    const missing = await mirrors.ready(
      'tok',
      'VaultAuthMissing',
      /^secret default\/my-token for vault token not found$/,
    );
    assert.equal(missing.mirrorStatus, 'Pending');
    await mirrors.event('tok', 'VaultAuthMissing');
    await scene.credential('my-token', { token: 'x' });
    await mirrors.ready('tok', 'VaultAuthMissing', /^cannot find token under secret default\/my-token and key here$/);
    await scene.credential('my-token', { here: 'not-a-token-of-this-vault' });
    const refused = await mirrors.ready(
      'tok',
      'VaultAuthInvalid',
      /^error logging in to vault via token: .*permission denied/,
    );
    assert.equal(refused.mirrorStatus, 'Error');
    await vault.request('PUT', 'sys/policies/acl/reader', { policy: READ });
    const { auth } = await vault.request('POST', 'auth/token/create', { policies: ['reader'] });
    await scene.credential('my-token', { here: auth.client_token });
    await mirrors.copied('target', 'tok', { password: 'deadbeef' }, 2000);
    await mirrors.ready('tok', 'Synced');
  });

  it('a login by AppRole works with another mount path and with other key names in its Secret', async () => {
    const { mirrors } = scene;
    const keys = ['my-role', 'my-secret'];
    await scene.approle('elsewhere', READ, { mount: 'team/roles', keys });
    const approle = {
      secretRef: { name: 'elsewhere' },
      appRolePath: 'team/roles',
      roleIDKey: 'my-role',
      secretIDKey: 'my-secret',
    };
    await scene.fromVault('roles', scene.block('secret/app', '', { auth: { approle } }), ['target']);
    await mirrors.copied('target', 'roles', { password: 'deadbeef' });
  });

  it('a mirror that logs in by AppRole reports a missing or refused credential, and uses a changed secret id immediately', async () => {
    const { mirrors, vault } = scene;
    const approle = { secretRef: { name: 'rotated' } };
    await scene.fromVault('rotated', scene.block('secret/data/app', '', { auth: { approle } }), ['target']);
    await mirrors.ready('rotated', 'VaultAuthMissing', /^secret default\/rotated for vault approle login not found$/);
    await scene.credential('rotated', { 'secret-id': 'x' });
    await mirrors.ready(
      'rotated',
      'VaultAuthMissing',
      /^cannot find roleID under secret default\/rotated and key role-id$/,
    );
    await scene.credential('rotated', { 'role-id': 'x' });
    await mirrors.ready(
      'rotated',
      'VaultAuthMissing',
      /^cannot find secretID under secret default\/rotated and key secret-id$/,
    );
    await scene.approle('rotated', READ);
    await mirrors.copied('target', 'rotated', { password: 'deadbeef' });
    const { roleId } = await scene.ids('rotated');
    await scene.credential('rotated', { 'role-id': roleId, 'secret-id': 'wrong' });
    const message =
      /^error logging in to vault via approle: .*invalid (role or )?secret id.*existing copies are unchanged$/i;
    await mirrors.ready('rotated', 'VaultAuthInvalid', message);
    await mirrors.event('rotated', 'VaultAuthInvalid');
    await mirrors.copied('target', 'rotated', { password: 'deadbeef' });
    const wrapped = await vault.raw('POST', 'auth/approle/role/rotated/secret-id', {}, vault.rootToken, {
      'X-Vault-Wrap-TTL': '5m',
    });
    await scene.credential('rotated', { 'role-id': roleId, 'secret-id': `${wrapped.body.wrap_info.token}\n` });
    const unwrap =
      /^error logging in to vault via approle: vault \S+: POST auth\/approle\/login: login at auth\/approle refused: the secret id is a wrapping token: store what `vault unwrap -field=secret_id` prints for it/;
    await mirrors.ready('rotated', 'VaultAuthInvalid', unwrap);
    const ids = await scene.ids('rotated');
    await scene.credential('rotated', { 'role-id': ids.roleId, 'secret-id': ids.secretId });
    await mirrors.ready('rotated', 'Synced');
  });

  it('a mirror into Vault reports a failed login like a mirror from Vault, and can be deleted', async () => {
    const { mirrors, vault } = scene;
    await mirrors.secret(HOME, 'written', { a: 'b' });
    await scene.toVault('writer', { name: 'written' }, scene.block('secret/data/written', 'write-token'));
    await mirrors.ready('writer', 'VaultAuthMissing', /^secret default\/write-token for vault token not found$/);
    await scene.credential('write-token', { token: 'wrong' });
    await mirrors.ready('writer', 'VaultAuthInvalid', /^error logging in to vault via token/);
    await scene.tokenSecret('write-token', READ);
    const failed = await mirrors.ready('writer', 'VaultError', /^Error syncing to vault: .*permission denied/);
    assert.equal(failed.mirrorStatus, 'Error');
    await mirrors.event('writer', 'VaultError', /^Error syncing to vault/);
    const hcl = policy({ 'secret/data/written': ['create', 'read', 'update'] });
    await vault.request('PUT', 'sys/policies/acl/write-token', { policy: hcl });
    await scene.holds('secret/data/written', { a: 'b' });
    await mirrors.ready('writer', 'Synced');
    await mirrors.api.delete(secretPath(HOME, 'write-token'));
    await mirrors.ready('writer', 'VaultAuthMissing');
    await mirrors.api.delete(mirrorPath('writer'));
    await mirrors.gone(mirrorPath('writer'));
  });
});

function token(name: string, tokenKey: string): object {
  return { token: { secretRef: { name }, tokenKey } };
}

failOnLeaks();
