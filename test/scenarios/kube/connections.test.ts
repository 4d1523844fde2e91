/**
 * Tests every way to log in to an API server with a kubeconfig. A real server names the user.
 */
import assert from 'node:assert/strict';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Connection } from '../../../src/kube/connection.ts';
import { HttpKubeApi } from '../../../src/kube/http.ts';
import { loadKubeconfig } from '../../../src/kube/auth/kubeconfig.ts';
import { parseJson } from '../../../src/kube/json.ts';
import type { Certificate } from '../../servers/certificates.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';

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
  await file(name, `#!/bin/sh\ncat <<'END'\n${credential}\nEND\n`);
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
});
