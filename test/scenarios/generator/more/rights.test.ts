/**
 * Tests that the generator's permissions in deploy/ suffice. The generator has permission to read credentials in one
 * namespace only.
 */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import type { Json } from '../../../support/api.ts';
import { readAuditLog } from '../../../support/audit-log.ts';
import { callsIn, manifest, rightsIn } from '../../../support/granted.ts';
import { assertUsed, waitForRights } from '../../../support/permissions.ts';
import { requestToken, serviceAccountUser } from '../../../support/service-account.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { GeneratorScene, HOME, STORE } from '../support.ts';

const FILE = 'rbac-generator.yaml';
const CREDENTIALS_FILE = 'rbac-generator-credentials.yaml';
const ACCOUNT = 'keyferry-generator';
/** The namespace in which the generator runs. */
const OWN = 'keyferry';
const USER = serviceAccountUser(OWN, ACCOUNT);
/** The namespace in which the generator has permission to read credentials. */
const APPS = 'apps';

let scene: GeneratorScene;

before(async () => {
  scene = await GeneratorScene.open({ eso: false, plane: { audit: true } });
  const { api, plane } = scene;
  await api.createNamespaces([APPS]);
  await api.apply(manifest(FILE));
  await api.apply(manifest(CREDENTIALS_FILE));
  await scene.token(APPS, scene.vault.rootToken);
  await scene.store(STORE, {}, { namespace: APPS });
  for (const [namespace, role] of [
    [OWN, FILE],
    [APPS, CREDENTIALS_FILE],
  ] as const) {
    await waitForRights(api, { user: USER, groups: [] }, namespace, rightsIn([role]));
  }
  const token = await requestToken(api, OWN, ACCOUNT);
  const kubeconfig = await plane.writeKubeconfig({ token, namespace: OWN });
  await scene.start({ kubeconfig, args: ['--leader-elect'] });
});
after(() => scene?.close());

/** Creates an ExternalSecret with the status that ESO writes when a value is missing. */
async function fails(name: string, options: Json = {}): Promise<void> {
  const namespace = options.namespace ?? APPS;
  await scene.externalSecret(name, [{ key: `app/${name}`, property: 'a' }], { namespace, ...options });
  await scene.fail(name, namespace);
}

/** Creates an ExternalSecret with a missing value, and waits until the generator has made the value. */
async function makes(name: string, options: Json = {}): Promise<void> {
  await fails(name, options);
  await scene.says(name, 'Success', undefined, options.namespace ?? APPS);
}

it('with the permissions of its manifests, the generator makes a value and uses each of the permissions', async () => {
  await makes('story');
  assertUsed(readAuditLog(scene.plane, USER), callsIn(FILE, CREDENTIALS_FILE));
});

it('if the generator has no permission to read credentials in a namespace, the result of an ExternalSecret there says so, and the operator stays ready', async () => {
  await fails('foreign', { namespace: HOME });
  const words =
    /SecretStore vault-backend: secrets "vault-token" is forbidden: .* resource "secrets" .* in the namespace "default"/;
  const { message } = await scene.says('foreign', 'ErrorCreating', words, HOME);
  assert.ok(message.startsWith('While putting the random value: '), message);
  await makes('beside');
  assert.equal(await scene.operator.isReady(), true);
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
