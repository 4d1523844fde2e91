import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VaultAuthMissingError } from '../../../copy/vault/access/login-tokens.ts';
import { ApiError, ConnectionError } from '../../../kube/errors.ts';
import { VaultError, type VaultErrorKind } from '../../../vault/errors.ts';
import { problemOf } from './result.ts';
import { StoreError } from '../store/store-spec.ts';

const STORE = 'SecretStore vault';

function vaultError(kind: VaultErrorKind, path?: string): VaultError {
  return new VaultError('words of the server', { kind, addr: 'http://vault', ...(path && { path }) });
}

test('the message of a problem quotes an error of Vault, but nothing from a server that does not respond as Vault does', () => {
  const messageOf = (error: unknown): string => {
    const problem = problemOf(error, STORE, undefined);
    assert.deepEqual([problem?.reason, problem?.field], ['ErrorCreating', 'SecretStore vault']);
    return problem?.message ?? '';
  };
  assert.equal(
    messageOf(vaultError('permissionDenied', 'secret/data/app')),
    'vault http://vault: secret/data/app: words of the server',
  );
  assert.equal(messageOf(vaultError('unavailable')), 'vault http://vault: words of the server');
  for (const kind of ['badResponse', 'redirect'] as const) {
    assert.doesNotMatch(messageOf(vaultError(kind, 'secret/data/app')), /words/);
  }
});

test('if a credential or a permission is missing, the message of the problem names it', () => {
  const missing = new VaultAuthMissingError('the Secret dev/token does not exist', 'user');
  const login = new Error('login', { cause: missing });
  assert.equal(problemOf(login, STORE, undefined)?.message, 'the Secret dev/token does not exist');
  const call = { cluster: 'main', method: 'GET', path: '/api/v1/namespaces/dev/secrets/ca' };
  const message = 'secrets "ca" is forbidden in the namespace "dev"';
  const forbidden = new ApiError(call, 403, { reason: 'Forbidden', message, causes: [] });
  assert.equal(problemOf(forbidden, STORE, undefined)?.message, message);
  assert.ok(problemOf(new ConnectionError('ECONNREFUSED', 'no connection'), STORE, undefined));
});

test('if the CA certificates of a store cannot be found, the problem has the reason InvalidStore', () => {
  const error = new StoreError('InvalidStore', 'spec.provider.vault.caProvider: the Secret dev/ca has no key pem');
  assert.deepEqual(problemOf(error, STORE, undefined), {
    reason: 'InvalidStore',
    field: 'SecretStore vault',
    message: error.message,
    fault: 'user',
  });
});

test('problemOf returns undefined for errors of the program, such as a TypeError', () => {
  for (const error of [new TypeError('x'), undefined, 'text'])
    assert.equal(problemOf(error, STORE, undefined), undefined);
});
