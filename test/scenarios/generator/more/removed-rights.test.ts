/**
 * Tests the generator with the permissions in deploy/ alone, and without single ones of them: what it then cannot do,
 * and that the result or the log names the missing permission.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, it } from 'node:test';

import { type FaultProxy, startFaultProxy } from '../../../servers/fault-proxy.ts';
import { readAuditLog } from '../../../support/audit-log.ts';
import { callsIn, manifest } from '../../../support/granted.ts';
import { assertUsed, waitForRights } from '../../../support/permissions.ts';
import { type Role, roleOf, Trial } from '../../../support/permission-trial.ts';
import { requestToken, serviceAccountUser } from '../../../support/service-account.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { GeneratorScene, STORE } from '../support.ts';

const FILE = 'rbac-generator.yaml';
const CREDENTIALS_FILE = 'rbac-generator-credentials.yaml';
const ACCOUNT = 'keyferry-generator';
/** The namespace in which the generator runs. */
const OWN = 'keyferry';
/** The namespace in which the generator has permission to read credentials. */
const APPS = 'apps';

const trial = new Trial();
let scene: GeneratorScene;
let proxy: FaultProxy;
let kubeconfig: string;
let role: Role;
let own: Role;
let credentials: Role;

before(async () => {
  scene = await GeneratorScene.open({ eso: false, plane: { audit: true } });
  const { api, plane } = scene;
  await api.createNamespaces([APPS]);
  for (const file of [FILE, CREDENTIALS_FILE] as const) await api.apply(manifest(file));
  await scene.token(APPS, scene.vault.rootToken);
  await scene.store(STORE, {}, { namespace: APPS });
  const user = serviceAccountUser(OWN, ACCOUNT);
  role = roleOf(FILE, ACCOUNT, plane, user);
  own = roleOf(FILE, ACCOUNT, plane, user, OWN);
  credentials = roleOf(CREDENTIALS_FILE, ACCOUNT, plane, user, APPS);
  proxy = await startFaultProxy({ upstream: plane.url, upstreamCaPem: plane.caPem });
  const token = await requestToken(api, OWN, ACCOUNT);
  kubeconfig = await plane.writeKubeconfig({ server: proxy.url, caPem: proxy.caPem, token, namespace: OWN });
});
afterEach(() => trial.restoreAll());
after(async () => {
  await scene?.close();
  await proxy?.stop();
});

async function start(args: readonly string[] = []): Promise<void> {
  await trial.start(scene.launch({ kubeconfig, args }));
}

async function fails(
  name: string,
  options: { readonly store?: string; readonly storeKind?: string } = {},
): Promise<void> {
  await scene.externalSecret(name, [{ key: `app/${name}`, property: 'a' }], { namespace: APPS, ...options });
  await scene.fail(name, APPS);
}

async function says(name: string, reason: string, message?: RegExp): Promise<void> {
  await scene.says(name, reason, message, APPS);
}

async function logs(text: string): Promise<void> {
  await waitFor(() => trial.program.output.includes(text), { message: () => `${text}\n${scene.tail()}` });
}

it('with the permissions in its manifests, the generator makes a value, and no call is refused', async () => {
  await start(['--leader-elect']);
  await trial.program.ready();
  await fails('story');
  await says('story', 'Success');
  assertUsed(readAuditLog(scene.plane, serviceAccountUser(OWN, ACCOUNT)), callsIn(FILE, CREDENTIALS_FILE));
  await trial.program.stop();
  // The next test needs to create the Lease.
  const leases = `/apis/coordination.k8s.io/v1/namespaces/${OWN}/leases`;
  for (const { metadata } of await scene.api.list(leases)) await scene.api.delete(`${leases}/${metadata.name}`);
});

it('at its start, a generator without a list permission logs it, and a generator without a permission for its Lease waits for it', async () => {
  let missing = await trial.take(own, 'leases get');
  await start(['--leader-elect']);
  await missing.isNamed();
  missing = await missing.next(own, 'leases create');
  await missing.isNamed();
  await missing.giveBack();
  await trial.program.ready();
  await trial.program.stop();
  missing = await trial.take(own, 'leases update');
  await start(['--leader-elect']);
  await missing.isNamed();
  await missing.giveBack();
  await trial.program.ready();
  for (const [call, text] of [
    ['externalsecrets list', 'no permission to list ExternalSecrets, the generator waits for it'],
    ['secretstores list', 'permit to list and watch secretstores'],
    ['customresourcedefinitions get', 'permit to get, list and watch customresourcedefinitions'],
  ] as const) {
    await trial.program.stop();
    missing = await trial.take(role, call);
    await start();
    await logs(text);
    await missing.giveBack();
  }
  await trial.program.stop();
  missing = await trial.take(role, 'clustersecretstores list');
  await scene.store('shared', {}, { kind: 'ClusterSecretStore' });
  await start();
  await fails('unlisted', { store: 'shared', storeKind: 'ClusterSecretStore' });
  await says('unlisted', 'StoreNotFound', /no permission to list clustersecretstores/);
  await missing.giveBack();
});

it('a generator without a permission to watch is not ready, and the log names the permission', async () => {
  await trial.program.stop();
  const lost = [];
  for (const resource of ['externalsecrets', 'secretstores', 'clustersecretstores', 'customresourcedefinitions']) {
    lost.push(await trial.take(role, `${resource} watch`));
  }
  await start();
  for (const missing of lost) await missing.isNamed();
  await trial.isUnready();
  for (const missing of lost) await missing.giveBack();
  await trial.program.ready();
});

it('without the permission to patch externalsecrets, the generator makes the value, and writes the result when it gets the permission', async () => {
  const use = async (): Promise<void> => {
    await fails('unpatched');
    await waitFor(() => scene.entry('secret/data/app/unpatched'), { message: 'the entry' });
  };
  await trial.without(role, 'externalsecrets patch', use, () => scene.says('unpatched', 'Success', undefined, APPS));
  assert.equal((await scene.entry('secret/data/app/unpatched')).metadata.version, 1);
});

it('without the permission to create events, the generator writes the result of an ExternalSecret but no event', async () => {
  const missing = await trial.take(role, 'events create');
  await fails('unseen');
  await says('unseen', 'Success');
  await missing.isNamed();
  await missing.giveBack();
});

it('without the permission to get namespaces, the generator does not use a store that selects namespaces by labels', async () => {
  const tokenSecretRef = { name: 'vault-token', namespace: APPS, key: 'vault-token' };
  const conditions = [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': APPS } } }];
  await scene.store('labels', { auth: { tokenSecretRef } }, { kind: 'ClusterSecretStore', spec: { conditions } });
  const missing = await trial.take(role, 'namespaces get');
  await fails('labels', { store: 'labels', storeKind: 'ClusterSecretStore' });
  await says('labels', 'ErrorCreating', /cannot get resource "namespaces" .* "apps"/);
  await missing.giveBack();
  await says('labels', 'Success');
});

it('without the permission to list or get Secrets, or to request tokens, the result of an ExternalSecret names the permission', async () => {
  for (const verb of ['list', 'get'] as const) {
    await trial.program.kill9();
    const missing = await trial.take(credentials, `secrets ${verb}`);
    await start();
    await fails(`secret-${verb}`);
    await says(`secret-${verb}`, 'ErrorCreating', new RegExp(`cannot ${verb} resource "secrets" .* "apps"`));
    await missing.giveBack();
    await says(`secret-${verb}`, 'Success');
  }
  const serviceAccountRef = { name: 'vault', audiences: ['vault'] };
  await scene.store('account', { auth: { kubernetes: { role: 'x', serviceAccountRef } } }, { namespace: APPS });
  const missing = await trial.take(credentials, 'serviceaccounts/token create');
  await fails('account', { store: 'account' });
  await says('account', 'ErrorCreating', /cannot create resource "serviceaccounts\/token" .* "apps"/);
  await missing.giveBack();
});

it('without the permission to get configmaps, the result of an ExternalSecret with a CA in a ConfigMap names the permission', async () => {
  const caProvider = { type: 'ConfigMap', name: 'vault-ca', key: 'ca.crt' };
  await scene.store('ca', { caProvider }, { namespace: APPS });
  const missing = await trial.take(credentials, 'configmaps get');
  await fails('ca', { store: 'ca' });
  await says('ca', 'ErrorCreating', /cannot get resource "configmaps" .* "apps"/);
  await missing.giveBack();
  await scene.api.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'vault-ca', namespace: APPS } });
  await says('ca', 'InvalidStore', /apps\/vault-ca has no key ca.crt/);
});

it('with deploy/rbac.yaml alone, keyferry run is ready and logs the permission that the generator lacks', async () => {
  const { api, plane } = scene;
  await api.apply(manifest('rbac.yaml'));
  const user = serviceAccountUser(OWN, 'keyferry');
  await waitForRights(api, { user, groups: [] }, OWN, ['core/secrets: list']);
  const token = await requestToken(api, OWN, 'keyferry');
  const kubeconfig = await plane.writeKubeconfig({ token, namespace: OWN });
  const operator = await scene.start({ kubeconfig, command: 'run' });
  await waitFor(() => operator.output.includes('no permission to list ExternalSecrets, the generator waits for it'), {
    message: () => operator.output,
  });
  assert.equal(await operator.isReady(), true);
});

it('with --namespaces, keyferry run lists and watches ExternalSecrets and stores only in these namespaces', async () => {
  const { api, plane } = scene;
  const [name, group] = ['narrow', 'rbac.authorization.k8s.io'];
  const account = { kind: 'ServiceAccount', name, namespace: OWN };
  await api.apply([
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace: OWN } },
    {
      apiVersion: `${group}/v1`,
      kind: 'ClusterRoleBinding',
      metadata: { name },
      roleRef: { apiGroup: group, kind: 'ClusterRole', name: ACCOUNT },
      subjects: [account],
    },
  ]);
  const user = serviceAccountUser(OWN, name);
  await waitForRights(api, { user, groups: [] }, OWN, ['external-secrets.io/externalsecrets: list']);
  const kubeconfig = await plane.writeKubeconfig({ token: await requestToken(api, OWN, name), namespace: OWN });
  const operator = await scene.start({
    kubeconfig,
    command: 'run',
    args: ['--controllers=generator', `--namespaces=${APPS}`],
  });
  await operator.ready();
  const read = (plural: string): string[] => {
    const uris = readAuditLog(plane, user).map(({ uri }) => uri);
    return uris.filter((uri) => new RegExp(`/${plural}(\\?|$)`).test(uri));
  };
  for (const plural of ['externalsecrets', 'secretstores']) {
    const uris = await waitFor(() => read(plural).length > 0 && read(plural), { message: `a list of ${plural}` });
    for (const uri of uris) assert.ok(uri.includes(`/namespaces/${APPS}/`), uri);
  }
});
