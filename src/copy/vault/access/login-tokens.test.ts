/** Checks which tokens of ServiceAccounts are sent to Vault. Those of a real API server: `scenarios/mirrors-vault`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { KubeApi } from '../../../kube/api.ts';
import { ConnectionError } from '../../../kube/errors.ts';
import { CredentialUnavailableError } from '../../../vault/errors.ts';
import { ApiTokenRefusedError, serviceAccountToken } from './login-tokens.ts';

const { signal } = new AbortController();
const account = { namespace: 'default', name: 'app' };
const tokenFor = (aud: unknown): string => `x.${Buffer.from(JSON.stringify({ aud })).toString('base64url')}.x`;

/** Requests a token of an API server whose own audience is `api`. @param made changes the audiences of each request */
async function ask(
  audiences: readonly string[],
  apiTokens: boolean,
  made: (asked: readonly string[]) => unknown = (asked) => asked,
): Promise<string> {
  const api: KubeApi = {
    cluster: 'c',
    stream: () => assert.fail('not used'),
    request: async ({ body = '' }) => {
      const { spec } = JSON.parse(String(body)) as { readonly spec: { readonly audiences?: readonly string[] } };
      const token = tokenFor(made(spec.audiences ?? ['api']));
      const answer = Buffer.from(JSON.stringify({ status: { token } }));
      return await Promise.resolve({ status: 201, headers: {}, body: answer });
    },
  };
  return (await serviceAccountToken(api, account, { audiences, apiTokens }, signal)).utf8();
}

test('a token that the API server would accept is never sent to a Vault server that the administrator does not trust', async () => {
  assert.equal(await ask(['vault'], false), tokenFor(['vault']));
  assert.equal(await ask(['vault', 'api'], true), tokenFor(['vault', 'api']));
  const refused = (error: unknown): boolean =>
    error instanceof ApiTokenRefusedError &&
    /"api".*--vault-addresses.*serviceAccountRef\.audiences/.test(error.message);
  for (const audiences of [[], ['api'], ['vault', 'api']]) await assert.rejects(ask(audiences, false), refused);
  // An admission webhook adds an audience.
  await assert.rejects(
    ask(['vault'], false, (asked) => [...asked, 'api']),
    refused,
  );
  await assert.rejects(
    ask(['vault'], false, (asked) => (asked.includes('vault') ? undefined : asked)),
    ApiTokenRefusedError,
  );
});

test('if the API server cannot make a token now, the login may be tried again', async () => {
  const api: KubeApi = {
    cluster: 'c',
    stream: () => assert.fail('not used'),
    request: async () => await Promise.reject(new ConnectionError('ECONNREFUSED', 'connection refused')),
  };
  const token = serviceAccountToken(api, account, { audiences: ['vault'], apiTokens: false }, signal);
  await assert.rejects(token, CredentialUnavailableError);
});
