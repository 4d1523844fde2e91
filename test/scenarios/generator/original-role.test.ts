/**
 * Tests the generator with the Role and the environment variables of the Bash controller. This Role gives no permission
 * to read stores, Secrets or Leases.
 */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import { waitForRights } from '../../support/permissions.ts';
import { requestToken, serviceAccountUser } from '../../support/service-account.ts';
import { GeneratorScene } from './support.ts';

const NAMESPACE = 'apps';
const ACCOUNT = 'controller';
/** The rule in the Role of the Bash controller. It grants permissions in one namespace. */
const ORIGINAL = {
  apiGroups: ['external-secrets.io'],
  resources: ['externalsecrets'],
  verbs: ['get', 'list', 'watch', 'update', 'patch'],
};

let scene: GeneratorScene;

before(async () => {
  scene = await GeneratorScene.open();
  await scene.api.createNamespaces([NAMESPACE]);
  const rbac = 'rbac.authorization.k8s.io';
  const metadata = { name: ACCOUNT, namespace: NAMESPACE };
  await scene.api.apply([
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
    { apiVersion: `${rbac}/v1`, kind: 'Role', metadata, rules: [ORIGINAL] },
    {
      apiVersion: `${rbac}/v1`,
      kind: 'RoleBinding',
      metadata,
      roleRef: { apiGroup: rbac, kind: 'Role', name: ACCOUNT },
      subjects: [{ kind: 'ServiceAccount', ...metadata }],
    },
  ]);
  const user = serviceAccountUser(NAMESPACE, ACCOUNT);
  await waitForRights(scene.api, { user, groups: [] }, NAMESPACE, [
    'external-secrets.io/externalsecrets: get list watch update patch',
  ]);
  const token = await requestToken(scene.api, NAMESPACE, ACCOUNT);
  const kubeconfig = await scene.plane.writeKubeconfig({ token, namespace: NAMESPACE });
  const policy = 'path "secret/data/apps/*" { capabilities = ["create", "read", "update"] }';
  const env = { VAULT_ADDR: scene.vault.addr, VAULT_TOKEN: await scene.limitedToken('apps', policy) };
  await scene.start({ kubeconfig, env, args: ['--leader-elect=false'] });
});
after(() => scene?.close());

it("with the Bash controller's Role and $VAULT_TOKEN, the generator makes values in its own namespace, and logs each missing permission once", async () => {
  await scene.token(NAMESPACE, scene.vault.rootToken);
  await scene.store('own', {}, { namespace: NAMESPACE });
  const item = { key: 'secret/apps/postgres', property: 'password' };
  await scene.externalSecret('postgres', [item]);
  await scene.externalSecret('postgres', [item], { namespace: NAMESPACE, store: 'own' });
  const { 'key-0': value } = await scene.synced('postgres', NAMESPACE);
  const { data, metadata } = await scene.entry('secret/data/apps/postgres');
  assert.deepEqual([data, metadata.version], [{ password: value }, 1]);
  await scene.says('postgres', 'Success', undefined, NAMESPACE);
  // The generator does not serve the namespace `default`. ESO finds the value there, because both ExternalSecrets read
  // the same entry.
  assert.equal(await scene.result('postgres'), undefined);
  const { output } = scene.operator;
  for (const sentence of ['cannot list ExternalSecrets in all namespaces', 'cannot list SecretStores']) {
    assert.equal(output.split(sentence).length, 2, `${sentence}: ${output}`);
  }
});

it("with the Bash controller's Role, the result of an ExternalSecret reports a key without its mount, and a key that the token's policy forbids", async () => {
  const wrong = { key: 'apps/no-mount', property: 'password' };
  await scene.externalSecret('no-mount', [wrong], { namespace: NAMESPACE, store: 'own' });
  await scene.says('no-mount', 'ErrorCreating', /Vault does not say what is mounted at "apps\/no-mount"/, NAMESPACE);
  const denied = { key: 'secret/others/x', property: 'password' };
  await scene.externalSecret('denied', [denied], { namespace: NAMESPACE, store: 'own' });
  await scene.says('denied', 'ErrorCreating', /permission denied/, NAMESPACE);
  assert.equal(await scene.entry('secret/data/others/x'), undefined);
  assert.equal(await scene.entry('secret/data/apps/no-mount'), undefined);
});
