/** Checks how long Secrets with credentials are followed, and which tokens are refused. With a real API server. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { type ControlPlane, startControlPlane } from '../../../../test/servers/control-plane.ts';
import { clientOf } from '../../../../test/support/kube-client.ts';
import { waitFor } from '../../../../test/support/wait-for.ts';
import type { KubeApi } from '../../../kube/api.ts';
import { ConnectionError } from '../../../kube/errors.ts';
import type { HttpKubeApi } from '../../../kube/http.ts';
import type { SecretBytes } from '../../../runtime/secret-bytes.ts';
import { isVaultError } from '../../../vault/errors.ts';
import { loginRequest, type VaultIdentity } from '../../../vault/session/identity.ts';
import { parseServer } from '../../../vault/client/server.ts';
import { SECRET } from '../../model/kind.ts';
import { KubeStore } from '../../cluster/objects/store.ts';
import { ApiTokenRefusedError, serviceAccountToken } from './login-tokens.ts';
import { VaultCredentials } from './credentials.ts';
import type { VaultAuthRef } from '../locations.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { VaultUser } from '../../model/keys.ts';

const USER: VaultUser = asKey('vault:https://v/secret/data/app#1');
const secret = { namespace: 'default', name: 'credential' };
const byToken = (key: string): VaultAuthRef => ({ method: 'token', token: { ...secret, key } });
const byServiceAccount: VaultAuthRef = {
  method: 'kubernetes',
  mount: 'kubernetes',
  role: 'app',
  serviceAccount: { namespace: 'default', name: 'app' },
  audiences: ['vault'],
  apiTokens: false,
};

let plane: ControlPlane;
let api: HttpKubeApi;
const { signal } = new AbortController();

before(async () => {
  plane = await startControlPlane({ controllerManager: false });
  api = await clientOf(plane);
  await plane.api.create({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: secret,
    stringData: { old: 'one', new: 'two' },
  });
});
after(async () => {
  await api[Symbol.asyncDispose]();
  await plane.stop();
});

const tokenOf = (identity: VaultIdentity): string => (identity.method === 'token' ? identity.token.utf8() : '');

test('a Secret stays followed if a user changes its login to another key of the same Secret', async () => {
  const store = new KubeStore({ api, kind: SECRET, onChange: () => undefined, onKnown: () => undefined });
  try {
    const credentials = new VaultCredentials(store);
    const key = store.key(secret.namespace, secret.name);
    credentials.follow(USER, byToken('old'));
    await waitFor(() => store.view(key).state === 'present', { message: 'the Secret to be known' });
    assert.equal(tokenOf(await credentials.identity(byToken('old'), signal)), 'one');
    credentials.follow(USER, byToken('new'), byToken('old'));
    assert.deepEqual([...credentials.usersOf(key)], [USER]);
    assert.equal(tokenOf(await credentials.identity(byToken('new'), signal)), 'two');
    await plane.api.patch('/api/v1/namespaces/default/secrets/credential', { stringData: { new: 'three' } });
    await waitFor(async () => tokenOf(await credentials.identity(byToken('new'), signal)) === 'three', {
      message: 'the new token',
    });
    credentials.follow(USER, undefined, byToken('new'));
    assert.deepEqual([...credentials.usersOf(key)], []);
    assert.equal(store.view(key).state, 'unknown', 'it is followed still');
  } finally {
    await store.stop();
  }
});

test('if the API server cannot make the ServiceAccount token for a login, the login fails with a transient error', async () => {
  const away: KubeApi = {
    cluster: api.cluster,
    stream: (request) => api.stream(request),
    request: async () => await Promise.reject(new ConnectionError('ECONNREFUSED', 'connection refused')),
  };
  const store = new KubeStore({ api: away, kind: SECRET, onChange: () => undefined, onKnown: () => undefined });
  try {
    const identity = await new VaultCredentials(store).identity(byServiceAccount, signal);
    assert.equal(identity.method, 'kubernetes');
    const server = parseServer({ addr: 'http://127.0.0.1:1' });
    await assert.rejects(loginRequest(server, identity, signal), (error) => {
      assert.ok(isVaultError(error, 'unavailable') && error.transient);
      assert.match(error.message, /cannot log in: no service account token: connection refused/);
      return true;
    });
  } finally {
    await store.stop();
  }
});

test('a token that the API server would accept is never sent to a Vault server that the administrator does not trust', async () => {
  await plane.api.create({
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name: 'poor', namespace: 'default' },
  });
  const account = { namespace: 'default', name: 'poor' };
  const audienceOf = (token: SecretBytes): unknown =>
    JSON.parse(Buffer.from(token.utf8().split('.')[1] ?? '', 'base64url').toString()).aud;
  const ask = (audiences: readonly string[], apiTokens: boolean): Promise<SecretBytes> =>
    serviceAccountToken(api, account, { audiences, apiTokens }, signal);
  assert.deepEqual(audienceOf(await ask(['vault'], false)), ['vault']);
  const own = audienceOf(await ask([], true)) as string[];
  assert.ok(own.length > 0);
  for (const audiences of [[], own, ['vault', ...own]]) {
    await assert.rejects(ask(audiences, false), (error) => {
      assert.ok(error instanceof ApiTokenRefusedError);
      assert.match(error.message, /--vault-addresses.*serviceAccountRef\.audiences/);
      assert.ok(error.message.includes(own[0] ?? '?'));
      return true;
    });
  }
  assert.deepEqual(audienceOf(await ask(own, true)), own);
});
