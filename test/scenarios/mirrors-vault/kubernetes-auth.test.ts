/**
 * Mirrors log in to Vault with a ServiceAccount. Vault checks its token at the real API server, and Keyferry has only
 * the documented permissions.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';

import { enableKubernetesAuth } from '../../servers/vault-kubernetes.ts';
import type { Json } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { waitFor } from '../../support/wait-for.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { KEYFERRY_ACCOUNT } from '../../support/service-account.ts';
import { HOME, mirrorPath } from '../mirrors/support.ts';
import { documentedRoleBinding, policy, VaultScene } from './support.ts';

const ISSUER = 'https://kubernetes.default.svc.cluster.local';

const audiencesOf = (jwt: string): string[] =>
  JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString()).aud;

/** Starts a server that is not Vault and records the tokens it receives. */
async function startRecorder(received: string[]): Promise<{ url: string } & AsyncDisposable> {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      if (body !== '') received.push(JSON.parse(body).jwt);
      response.writeHead(403).end('{"errors":["thank you"]}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

describe('logins by a ServiceAccount', () => {
  let scene: VaultScene;
  let operator: Keyferry;
  before(async () => {
    scene = await VaultScene.open({}, { users: [KEYFERRY_ACCOUNT], controllerManager: true });
    const { mirrors, vault } = scene;
    await mirrors.api.apply(await readFile(new URL('../../../deploy/rbac.yaml', import.meta.url), 'utf8'));
    await mirrors.api.apply(
      [HOME, 'elsewhere'].flatMap((namespace) => [
        { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } },
        { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'reader', namespace } },
      ]),
    );
    await enableKubernetesAuth(vault, 'team-kube', mirrors.plane);
    const read = policy({ 'secret/data/app': ['read'] });
    await vault.request('PUT', 'sys/policies/acl/reader', { policy: read });
    await role('reader', HOME, { audience: 'vault' });
    await scene.put('secret/data/app', { password: 'deadbeef' });
    operator = await mirrors.operator({
      kubeconfig: await mirrors.plane.writeKubeconfig({ token: mirrors.plane.tokenFor(KEYFERRY_ACCOUNT.name) }),
    });
    await mirrors.namespaces('target');
  });
  after(() => scene.close());

  const role = (name: string, namespace: string, more: Json = {}): Promise<Json> =>
    scene.vault.request('POST', `auth/team-kube/role/${name}`, {
      bound_service_account_names: ['reader'],
      bound_service_account_namespaces: [namespace],
      token_policies: ['reader'],
      token_ttl: '1h',
      ...more,
    });

  const block = (kubernetes: Json = {}): Json => {
    const reference = { name: 'reader', audiences: ['vault'] };
    const auth = {
      kubernetes: { mountPath: 'team-kube', role: 'reader', serviceAccountRef: reference, ...kubernetes },
    };
    return scene.block('secret/data/app', '', { auth });
  };

  it('without permission to request tokens, a mirror that logs in with a ServiceAccount reports it, and works once Keyferry has it', async () => {
    const { mirrors } = scene;
    await scene.fromVault('sa', block(), ['target']);
    const refused = await mirrors.ready('sa', 'VaultAuthInvalid', /serviceaccounts "reader" is forbidden/);
    assert.equal(refused.mirrorStatus, 'Error');
    await mirrors.api.apply(await documentedRoleBinding());
    await mirrors.copied('target', 'sa', { password: 'deadbeef' });
    await mirrors.ready('sa', 'Synced');
  });

  it('all mirrors with the same ServiceAccount and role share one login', async () => {
    const { mirrors } = scene;
    await scene.fromVault('same', block(), ['target']);
    await mirrors.copied('target', 'same', { password: 'deadbeef' });
    await scene.put('secret/data/app', { password: 'later' });
    await mirrors.copied('target', 'same', { password: 'later' });
    await mirrors.copied('target', 'sa', { password: 'later' });
    const logins = { method: 'auth/team-kube', result: 'ok' };
    assert.equal(await operator.metric('keyferry_vault_logins_total', logins), 1);
  });

  it('without --vault-addresses, a token that the API server would accept is not sent to a server that a mirror names', async () => {
    const { mirrors } = scene;
    const received: string[] = [];
    await using recorder = await startRecorder(received);
    const named = (audiences: readonly string[]): Json => ({
      ...block({ serviceAccountRef: { name: 'reader', audiences } }),
      addr: recorder.url,
      caBundle: '',
    });
    await scene.fromVault('bare', named([]), ['target']);
    await mirrors.ready('bare', 'InvalidSpec', /serviceAccountRef\.audiences: must be specified.*--vault-addresses/);
    await scene.fromVault('api', named(['vault', ISSUER]), ['target']);
    await mirrors.ready(
      'api',
      'VaultAuthInvalid',
      /accepts tokens for the audience .*cluster\.local.*--vault-addresses/,
    );
    await scene.fromVault('metadata', { ...block(), addr: 'http://169.254.169.254', caBundle: '' }, ['target']);
    await mirrors.ready('metadata', 'InvalidSpec', /spec\.source\.vault\.addr: .*link-local or metadata/);
    assert.deepEqual(received, []);
    // A token whose audience is only Vault may go to any server, because the API server does not accept it.
    await scene.fromVault('other', named(['vault']), ['target']);
    await waitFor(() => received.length > 0, { message: 'a login' });
    assert.ok(received.every((jwt) => !audiencesOf(jwt).includes(ISSUER)));
    for (const name of ['bare', 'api', 'metadata', 'other']) await mirrors.api.delete(mirrorPath(name));
  });

  it("if Vault refuses a ServiceAccount because of an unknown role or another namespace, the mirror reports Vault's message", async () => {
    const { mirrors } = scene;
    await scene.fromVault('norole', block({ role: 'unknown' }), ['target']);
    await mirrors.ready('norole', 'VaultAuthInvalid', /^error logging in to vault via kubernetes: .*role/);
    await role('foreign', 'elsewhere', { audience: 'vault' });
    await scene.fromVault('foreign', block({ role: 'foreign' }), ['target']);
    await mirrors.ready('foreign', 'VaultAuthInvalid', /^error logging in to vault via kubernetes: .*namespace/);
    await mirrors.api.delete(mirrorPath('foreign'));
    await mirrors.gone(mirrorPath('foreign'));
  });

  it('with --vault-addresses, tokens that the API server would accept are sent only to the servers in that list', async () => {
    const { mirrors } = scene;
    await operator.stop();
    const received: string[] = [];
    await using trusted = await startRecorder(received);
    await mirrors.operator({
      kubeconfig: await mirrors.plane.writeKubeconfig({ token: mirrors.plane.tokenFor(KEYFERRY_ACCOUNT.name) }),
      args: [`--vault-addresses=${trusted.url},*.vault.svc`],
    });
    const serviceAccountRef = { name: 'reader' };
    await scene.fromVault('trusted', { ...block({ serviceAccountRef }), addr: trusted.url, caBundle: '' }, ['target']);
    await waitFor(() => received.some((jwt) => audiencesOf(jwt).includes(ISSUER)), { message: 'a login' });
    await mirrors.ready('sa', 'InvalidSpec', /addr: .* is not in --vault-addresses/);
  });
});

failOnLeaks();
