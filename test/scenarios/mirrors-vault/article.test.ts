import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { failOnLeaks } from '../../support/leaks.ts';
import { staysTrue } from '../../support/wait-for.ts';
import { within } from '../../support/yardstick.ts';
import { OWNED_BY, PARENT_VERSION, SOURCE_TYPE, mirrorPath, secretPath } from '../mirrors/support.ts';
import { documentedPolicy, policy, VaultScene } from './support.ts';

describe("the scenarios of the original's article", () => {
  let scene: VaultScene;
  before(async () => {
    scene = await VaultScene.open();
    await scene.mirrors.operator();
  });
  after(() => scene.close());

  it("Vault to namespaces, as in the original's article: a mirror copies the entry, and copies it again when it changes", async () => {
    const { mirrors, vault } = scene;
    await scene.put('secret/data/myvaultsecret', { hello: 'there', general: 'kenobi' });
    await scene.approle('vault-approle', await documentedPolicy('Vault to namespaces'));
    await mirrors.namespaces('project-c-one', 'project-c-two', 'other');
    await scene.manifest('vault-to-namespaces.yaml', { 'https://vault.example.com': vault.addr });
    const copy = await mirrors.copied('project-c-one', 'myvaultsecret-sync', { hello: 'there', general: 'kenobi' });
    await mirrors.copied('project-c-two', 'myvaultsecret-sync', { hello: 'there', general: 'kenobi' });
    assert.equal(copy.type, 'Opaque');
    const { annotations } = copy.metadata;
    assert.equal(annotations[OWNED_BY], 'default/myvaultsecret-mirror');
    assert.equal(annotations[SOURCE_TYPE], 'vault');
    assert.equal(annotations[PARENT_VERSION], '');
    assert.equal(annotations['mirrors.kts.studio/vault-path'], '/secret/data/myvaultsecret');
    await mirrors.ready('myvaultsecret-mirror', 'Synced');
    assert.equal((await mirrors.status('myvaultsecret-mirror')).mirrorStatus, 'Active');
    await mirrors.api.patch(mirrorPath('myvaultsecret-mirror'), { spec: { pollPeriodSeconds: 1 } });
    await scene.put('secret/data/myvaultsecret', { hello: 'again' });
    await mirrors.copied('project-c-two', 'myvaultsecret-sync', { hello: 'again' });
    await mirrors.namespaces('project-c-three');
    await mirrors.copied('project-c-three', 'myvaultsecret-sync', { hello: 'again' });
    await mirrors.api.delete(secretPath('project-c-one', 'myvaultsecret-sync'));
    await mirrors.copied('project-c-one', 'myvaultsecret-sync', { hello: 'again' });
    assert.equal(await mirrors.find('other', 'myvaultsecret-sync'), undefined);
    await mirrors.api.delete(mirrorPath('myvaultsecret-mirror'));
    await mirrors.gone(secretPath('project-c-one', 'myvaultsecret-sync'), mirrorPath('myvaultsecret-mirror'));
  });

  it("Secret to Vault, as in the original's article: a mirror writes each change of the Secret within 2 s as one version", async () => {
    const { mirrors, vault } = scene;
    await mirrors.secret('default', 'mysecret', { user: 'me', pass: 'x' });
    const name = 'myvaultsecret-mirror-reverse';
    await scene.approle('vault-approle', await documentedPolicy('Secret to Vault'));
    await vault.request('DELETE', 'secret/metadata/myvaultsecret');
    await scene.manifest('secret-to-vault.yaml', { 'https://vault.example.com': vault.addr });
    const first = await scene.holds('secret/data/myvaultsecret', { user: 'me', pass: 'x' });
    assert.equal(first.metadata.version, 1);
    await mirrors.ready(name, 'Synced');
    assert.equal((await mirrors.api.get(mirrorPath(name))).spec.deletePolicy, 'retain');
    const second = await within(2000, 'the change', async () => {
      await mirrors.change('default', 'mysecret', { user: 'you' });
      return await scene.holds('secret/data/myvaultsecret', { user: 'you' });
    });
    assert.equal(second.metadata.version, 2);
    await mirrors.api.patch(secretPath('default', 'mysecret'), { metadata: { labels: { touched: 'yes' } } });
    const version = async (): Promise<boolean> =>
      (await scene.entry('secret/data/myvaultsecret')).metadata.version === 2;
    await staysTrue(version, 1500, 'the version of an entry whose source has the same data');
    await mirrors.change('default', 'mysecret', {});
    await mirrors.ready(name, 'NoData', /nothing is written/);
    await mirrors.api.delete(mirrorPath(name));
    await mirrors.gone(mirrorPath(name));
    assert.ok(await version());
  });

  it("Vault to Vault, as in the original's article: a mirror copies the entry and makes no Secret", async () => {
    const { mirrors, vault } = scene;
    const second = await scene.anotherVault();
    await scene.put('secret/data/mysecret', { a: 'one', 'not/a secret key': 'two' });
    await scene.approle('vault1-approle', policy({ 'secret/data/mysecret': ['read'] }));
    const write = policy({ 'secret/data/mysecret': ['create', 'read', 'update'] });
    await scene.approle('vault2-approle', write, {}, second);
    const addresses = { 'https://vault1.example.com': vault.addr, 'https://vault2.example.com': second.addr };
    await scene.manifest('vault-to-vault.yaml', addresses);
    await scene.holds('secret/data/mysecret', { a: 'one', 'not/a secret key': 'two' }, second);
    const name = 'secretmirror-from-vault-to-vault';
    await mirrors.ready(name, 'Synced', /entry/);
    await mirrors.api.patch(mirrorPath(name), { spec: { pollPeriodSeconds: 1 } });
    await scene.put('secret/data/mysecret', { a: 'three' });
    const entry = await scene.holds('secret/data/mysecret', { a: 'three' }, second);
    assert.equal(entry.metadata.version, 2);
    const secrets = await mirrors.api.list('/api/v1/secrets', { labelSelector: 'keyferry.dev/copy' });
    assert.deepEqual(secrets, []);
    await mirrors.api.delete(mirrorPath(name));
    await mirrors.gone(mirrorPath(name));
  });

  it("Secret to Vault, as in the original's article, also works with a token as the login", async () => {
    const { mirrors, vault } = scene;
    await scene.tokenSecret('vault-token', policy({ 'secret/data/myteam/mysecret': ['create', 'read', 'update'] }));
    await mirrors.change('default', 'mysecret', { user: 'token' });
    await scene.manifest('secret-to-vault-by-token.yaml', { 'https://vault.example.com': vault.addr });
    await scene.holds('secret/data/myteam/mysecret', { user: 'token' });
  });
});

failOnLeaks();
