/**
 * Tests every way to connect and log in to an API server, with a kubeconfig or in a Pod. A real server names the user.
 */
import assert from 'node:assert/strict';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Connection } from '../../../src/kube/connection.ts';
import { HttpKubeApi } from '../../../src/kube/http.ts';
import { inClusterConnection, loadKubeconfig } from '../../../src/kube/auth/kubeconfig.ts';
import { parseJson } from '../../../src/kube/json.ts';
import type { Certificate } from '../../servers/certificates.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import { ConnectProxy } from '../../support/connect-proxy.ts';
import { HeldObjects } from '../../support/held-objects.ts';
import { waitFor } from '../../support/wait-for.ts';
import { Watcher } from '../../../src/kube/watch/watcher.ts';

const V1 = 'client.authentication.k8s.io/v1';

let plane: ControlPlane;
let carol: Certificate;
let folder: string;
let count = 0;

before(async () => {
  plane = await startControlPlane({ controllerManager: false, users: [{ name: 'alice' }, { name: 'bob' }] });
  carol = await plane.clientCertificate({ commonName: 'carol' });
  folder = path.join(plane.folder, 'connections');
  await mkdir(folder);
  await file('ca.crt', plane.caPem);
  await file('carol.crt', carol.certPem);
  await file('carol.key', carol.keyPem);
});
after(() => plane.stop());

const at = (name: string): string => path.join(folder, name);

async function file(name: string, content: string): Promise<string> {
  await writeFile(at(name), content);
  return at(name);
}

/** Writes a credential plugin: a program that prints an ExecCredential with this status. */
async function plugin(name: string, status: string): Promise<void> {
  const credential = `{"apiVersion":"${V1}","kind":"ExecCredential","status":${status}}`;
  await file(name, `#!/bin/sh\necho x >> "$0.runs"\ncat <<'END'\n${credential}\nEND\n`);
  await chmod(at(name), 0o700);
}

/** The `exec` block of a kubeconfig, which names the plugin. */
const exec = (name: string): object => ({ apiVersion: V1, command: `./${name}`, interactiveMode: 'Never' });

/** A kubeconfig with one cluster and one user, as JSON, which is valid YAML. */
async function kubeconfig(cluster: object, user: object): Promise<string> {
  const config = {
    'current-context': 'c',
    clusters: [{ name: 'c', cluster: { server: plane.url, ...cluster } }],
    users: [{ name: 'u', user }],
    contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
  };
  return await file(`config-${(count += 1)}`, JSON.stringify(config));
}

/** The user name that the API server reports for a connection. */
async function whoAmI(connection: Connection): Promise<string | undefined> {
  await using api = new HttpKubeApi(connection);
  const body = JSON.stringify({ apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' });
  const answer = await api.request({ method: 'POST', path: '/apis/authentication.k8s.io/v1/selfsubjectreviews', body });
  const { status } = parseJson(answer.body, 'a review') as { status: { userInfo: { username: string } } };
  return status.userInfo.username;
}

const CA = { 'certificate-authority': 'ca.crt' };
const base64 = (text: string): string => Buffer.from(text).toString('base64');

describe('authentication with a kubeconfig', () => {
  const cases: Record<string, () => readonly [cluster: object, user: object, as: string]> = {
    'with a token': () => [CA, { token: plane.tokenFor('alice') }, 'alice'],
    'with a file that holds a token': () => [CA, { tokenFile: 'bob.token' }, 'bob'],
    'with certificate and key in files': () => [
      CA,
      { 'client-certificate': 'carol.crt', 'client-key': at('carol.key') },
      'carol',
    ],
    'with certificate and key in it': () => [
      { 'certificate-authority-data': base64(plane.caPem) },
      { 'client-certificate-data': base64(carol.certPem), 'client-key-data': base64(carol.keyPem) },
      'carol',
    ],
    'with the token of a plugin': () => [CA, { exec: exec('token.sh') }, 'bob'],
    'with the certificate of a plugin': () => [CA, { exec: exec('cert.sh') }, 'carol'],
    'at a server by another name': () => [
      { ...CA, 'tls-server-name': 'localhost' },
      { token: plane.tokenFor('alice') },
      'alice',
    ],
    'at a server that insecure-skip-tls-verify permits': () => [
      { 'insecure-skip-tls-verify': true },
      { token: plane.tokenFor('alice') },
      'alice',
    ],
  };
  for (const [name, make] of Object.entries(cases)) {
    test(`the API server accepts a login with a kubeconfig (${name})`, async () => {
      await file('bob.token', `${plane.tokenFor('bob')}\n`);
      await plugin('token.sh', JSON.stringify({ token: plane.tokenFor('bob') }));
      await plugin('cert.sh', JSON.stringify({ clientCertificateData: carol.certPem, clientKeyData: carol.keyPem }));
      const [cluster, user, expected] = make();
      assert.equal(await whoAmI(await loadKubeconfig({ path: await kubeconfig(cluster, user), env: {} })), expected);
    });
  }

  test('a request fails if the kubeconfig has a wrong server name, a wrong certificate authority or an unknown token', async () => {
    const refusals: [object, object, object][] = [
      [{ ...CA, 'tls-server-name': 'elsewhere.example' }, { token: 'x' }, { code: 'ERR_TLS_CERT_ALTNAME_INVALID' }],
      [{ 'certificate-authority': 'carol.crt' }, { token: 'x' }, { name: 'ConnectionError', message: /certificate/u }],
      [CA, { token: 'x' }, { name: 'ApiError', status: 401 }],
    ];
    for (const [cluster, user, expected] of refusals) {
      const path = await kubeconfig(cluster, user);
      await assert.rejects(async () => await whoAmI(await loadKubeconfig({ path, env: {} })), expected);
    }
  });

  test('if $KUBECONFIG lists several files, the client uses the context that its caller names', async () => {
    const users = await file(
      'users',
      JSON.stringify({
        users: ['alice', 'bob'].map((name) => ({ name, user: { token: plane.tokenFor(name) } })),
        contexts: ['alice', 'bob'].map((name) => ({ name, context: { cluster: 'c', user: name } })),
      }),
    );
    const env = { KUBECONFIG: [await kubeconfig(CA, { token: plane.adminToken }), at('nowhere'), users].join(':') };
    assert.equal(await whoAmI(await loadKubeconfig({ path: undefined, env })), 'admin');
    for (const context of ['alice', 'bob']) {
      assert.equal(await whoAmI(await loadKubeconfig({ path: undefined, env, context })), context);
    }
  });
});

test('after a 401, the client reads the token from its file again, and the next request succeeds', async () => {
  await file('renewed.token', 'no-longer-good');
  const connection = await loadKubeconfig({ path: await kubeconfig(CA, { tokenFile: 'renewed.token' }), env: {} });
  await assert.rejects(whoAmI(connection), { status: 401 });
  await file('renewed.token', plane.tokenFor('bob'));
  assert.equal(await whoAmI(connection), 'bob');
});

test('a credential plugin runs one time for several requests, and again after the API server refused its credential', async () => {
  const connection = await loadKubeconfig({ path: await kubeconfig(CA, { exec: exec('renewed.sh') }), env: {} });
  await plugin('renewed.sh', JSON.stringify({ token: plane.tokenFor('alice') }));
  const runs = async (): Promise<number> => (await readFile(`${at('renewed.sh')}.runs`, 'utf8')).length / 2;
  for (let call = 0; call < 3; call += 1) assert.equal(await whoAmI(connection), 'alice');
  assert.equal(await runs(), 1);
  const login = await loadKubeconfig({ path: await kubeconfig(CA, { exec: exec('renewed.sh') }), env: {} });
  await plugin('renewed.sh', JSON.stringify({ token: 'no-longer-good' }));
  await assert.rejects(whoAmI(login), { status: 401 });
  await plugin('renewed.sh', JSON.stringify({ token: plane.tokenFor('bob') }));
  // The client runs a plugin at most one time in a few seconds, so it gets the new credential a little later.
  await waitFor(async () => (await whoAmI(login)) === 'bob', { message: 'the plugin to be asked again' });
});

test('if a kubeconfig has a proxy-url, requests and watches go through this proxy', async (t) => {
  await using proxy = await ConnectProxy.open((target) => `https://${target}` === plane.url);
  proxy.url.username = 'someone';
  const cluster = { ...CA, 'proxy-url': proxy.url.href };
  const connection = await loadKubeconfig({ path: await kubeconfig(cluster, { token: plane.adminToken }), env: {} });
  assert.equal(await whoAmI(connection), 'admin');
  await using api = new HttpKubeApi(connection);
  const held = new HeldObjects();
  const target = { collection: 'configmaps', path: '/api/v1/namespaces/default/configmaps', metadataOnly: true };
  const watcher = new Watcher({ api, target, sink: held }).start();
  t.after(() => watcher.stop());
  await watcher.synced;
  await plane.api.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'news', namespace: 'default' } });
  await waitFor(() => held.objects.has('default/news'), { message: 'the news to come through the proxy' });
  assert.deepEqual(new Set(proxy.tunnels), new Set([`Basic ${base64('someone:')}`]));
});

test('in a Pod, the client uses the mounted token, and reads the token again after it was renewed', async () => {
  const dir = at('pod');
  await mkdir(dir);
  await writeFile(path.join(dir, 'ca.crt'), plane.caPem);
  await writeFile(path.join(dir, 'namespace'), 'keyferry');
  await writeFile(path.join(dir, 'token'), 'out-of-date');
  const { hostname, port } = new URL(plane.url);
  const env = { KUBERNETES_SERVICE_HOST: hostname, KUBERNETES_SERVICE_PORT: port };
  const connection = await inClusterConnection({ env, dir });
  assert.ok(connection);
  assert.equal(connection.namespace, 'keyferry');
  await assert.rejects(whoAmI(connection), { status: 401 });
  await writeFile(path.join(dir, 'token'), plane.tokenFor('alice'));
  assert.equal(await whoAmI(connection), 'alice');
});
