/**
 * Tests how the generator logs in to Vault: by AppRole, by Kubernetes, with a certificate of a private authority, and with the policy
 * in docs/generator.md, which gives no access to other entries.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, it } from 'node:test';

import { startVault, type VaultServer } from '../../servers/vault.ts';
import { enableKubernetesAuth } from '../../servers/vault-kubernetes.ts';
import type { Json } from '../../support/api.ts';
import { codeBlocks } from '../../support/markdown.ts';
import { GeneratorScene, HOME } from './support.ts';

const POLICY = 'path "secret/data/app/*" { capabilities = ["create", "read", "update"] }';

let scene: GeneratorScene;

before(async () => {
  scene = await GeneratorScene.open({ eso: false });
  await scene.vault.request('PUT', 'sys/policies/acl/maker', { policy: POLICY });
  await scene.start();
});
after(() => scene?.close());

async function makes(name: string, store: string): Promise<void> {
  await scene.externalSecret(name, [{ key: `app/${name}`, property: 'a' }], { store });
  await scene.fail(name);
  await scene.says(name, 'Success');
}

async function secret(name: string, data: Readonly<Record<string, string>>, kind = 'Secret'): Promise<void> {
  const encoded = Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString('base64')]);
  const content: Json = kind === 'Secret' ? Object.fromEntries(encoded) : data;
  await scene.api.create({ apiVersion: 'v1', kind, metadata: { name, namespace: HOME }, data: content });
}

it('the generator logs in by AppRole with the role id in the store', async () => {
  const { vault } = scene;
  await vault.request('POST', 'sys/auth/team', { type: 'approle' });
  await vault.request('POST', 'auth/team/role/maker', { token_policies: ['maker'] });
  const { role_id: role } = (await vault.request('GET', 'auth/team/role/maker/role-id')).data;
  const { secret_id: id } = (await vault.request('POST', 'auth/team/role/maker/secret-id', {})).data;
  await secret('approle', { id });
  const appRole = { path: 'team', roleId: ` ${role} `, secretRef: { name: 'approle', key: 'id' } };
  await scene.store('approle', { auth: { appRole } });
  await makes('approle', 'approle');
});

it('the generator logs in to Vault with a ServiceAccount and an audience from the store; a store without an audience is invalid', async () => {
  const { vault, plane } = scene;
  await scene.api.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'maker', namespace: HOME } });
  await enableKubernetesAuth(vault, 'kubernetes', plane);
  await vault.request('POST', 'auth/kubernetes/role/maker', {
    bound_service_account_names: ['maker'],
    bound_service_account_namespaces: [HOME],
    token_policies: ['maker'],
    audience: 'vault',
  });
  const kubernetes = (serviceAccountRef: Json): Json => ({
    auth: { kubernetes: { mountPath: 'kubernetes', role: 'maker', serviceAccountRef } },
  });
  await scene.store('kubernetes', kubernetes({ name: 'maker', audiences: ['vault'] }));
  await makes('kubernetes', 'kubernetes');
  await scene.store('no-audience', kubernetes({ name: 'maker' }));
  await scene.externalSecret('no-audience', [{ key: 'app/no-audience', property: 'a' }], { store: 'no-audience' });
  await scene.fail('no-audience');
  const { message } = await scene.says('no-audience', 'InvalidStore');
  assert.match(message, /serviceAccountRef\.audiences must be specified.*--vault-addresses/);
});

it('the generator trusts a private certificate authority that the store gives as caBundle, in a Secret or in a ConfigMap', async () => {
  await using vault: VaultServer = await startVault({ tls: true });
  await scene.token(HOME, vault.rootToken, 'tls-token');
  await secret('ca', { 'ca.crt': vault.caPem });
  await secret('ca', { 'ca.crt': vault.caPem }, 'ConfigMap');
  const auth = { tokenSecretRef: { name: 'tls-token', key: 'vault-token' } };
  for (const [name, ca] of [
    ['bundle', { caBundle: Buffer.from(vault.caPem).toString('base64') }],
    ['secret', { caProvider: { type: 'Secret', name: 'ca', key: 'ca.crt' } }],
    ['configmap', { caProvider: { type: 'ConfigMap', name: 'ca', key: 'ca.crt' } }],
  ] as const) {
    await scene.store(`ca-${name}`, { server: vault.addr, auth, ...ca });
    await makes(`ca-${name}`, `ca-${name}`);
  }
  await scene.store('no-ca', { server: vault.addr, auth });
  await scene.externalSecret('no-ca', [{ key: 'app/no-ca', property: 'a' }], { store: 'no-ca' });
  await scene.fail('no-ca');
  await scene.says('no-ca', 'ErrorCreating', /certificate/);
  await scene.store('ca-missing', { server: vault.addr, auth, caProvider: { type: 'Secret', name: 'ca', key: 'x' } });
  await scene.externalSecret('ca-missing', [{ key: 'app/x', property: 'a' }], { store: 'ca-missing' });
  await scene.fail('ca-missing');
  await scene.says('ca-missing', 'InvalidStore', /caProvider: the Secret default\/ca has no key x/);
});

it('when a store is changed, a failed ExternalSecret is tried again at once with the new store', async () => {
  await scene.store('changed', { server: 'http://127.0.0.1:1' });
  await scene.externalSecret('changed', [{ key: 'app/changed', property: 'a' }], { store: 'changed' });
  await scene.fail('changed');
  await scene.says('changed', 'ErrorCreating');
  const provider = { vault: { server: scene.vault.addr } };
  await scene.api.patch(`/apis/external-secrets.io/v1/namespaces/${HOME}/secretstores/changed`, { spec: { provider } });
  await scene.says('changed', 'Success');
});

it('the Vault policy in docs/generator.md permits the generator to create an entry and to add a value to it, and nothing else', async () => {
  const page = readFileSync(new URL('../../../docs/generator.md', import.meta.url), 'utf8');
  const policy = codeBlocks(page).find(({ language }) => language === 'hcl')?.text;
  assert.ok(policy !== undefined);
  await scene.token(HOME, await scene.limitedToken('page', policy), 'page');
  await scene.store('page', { auth: { tokenSecretRef: { name: 'page', key: 'vault-token' } } });
  await scene.externalSecret('inside', [{ key: 'secret/dev-1/inside', property: 'a' }], { store: 'page' });
  await scene.fail('inside');
  await scene.says('inside', 'Success');
  await scene.externalSecret('more', [{ key: 'secret/dev-1/inside', property: 'b' }], { store: 'page' });
  await scene.fail('more');
  await scene.says('more', 'Success');
  assert.deepEqual(Object.keys((await scene.entry('secret/data/dev-1/inside')).data).toSorted(), ['a', 'b']);
  await scene.externalSecret('outside', [{ key: 'secret/dev-2/outside', property: 'a' }], { store: 'page' });
  await scene.fail('outside');
  await scene.says('outside', 'ErrorCreating');
  assert.equal(await scene.entry('secret/data/dev-2/outside'), undefined);
});
