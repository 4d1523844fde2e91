import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { VaultError, type VaultErrorKind } from '../../vault/errors.ts';
import { LONGEST_WAIT_MS, isSkippedCall, troubleOf, vaultLongestWaitMs, vaultRetryAfterMs } from './access.ts';
import { VaultAuthMissingError } from './auth-missing.ts';
import type { VaultLocation } from './locations.ts';

const LOCATION: VaultLocation = {
  server: { addr: 'https://v' },
  auth: {
    method: 'approle',
    mount: 'approle',
    roleId: { namespace: 'a', name: 'b', key: 'r' },
    secretId: { namespace: 'a', name: 'b', key: 's' },
  },
  path: 'secret/data/app',
  encoding: 'plain',
  secretType: 'Opaque',
};
const failure = (kind: VaultErrorKind, more: object = {}): VaultError =>
  new VaultError('words of Vault', { kind, addr: 'https://v', path: LOCATION.path, ...more });

describe('troubleOf', () => {
  it('reports a missing credential as pending, at any depth of causes', () => {
    const missing = new VaultAuthMissingError('secret a/b for vault approle login not found');
    for (const error of [missing, failure('connection', { cause: new Error('x', { cause: missing }) })]) {
      const trouble = troubleOf(error, LOCATION, 'reading from');
      assert.deepEqual(trouble, { pending: true, reason: 'VaultAuthMissing', message: missing.message });
    }
  });

  it('reports a refused login, also when the auth method is not mounted', () => {
    for (const error of [
      failure('authFailed'),
      failure('tokenInvalid'),
      failure('invalidPath', { path: 'auth/nowhere/login' }),
    ]) {
      const { pending, reason, message } = troubleOf(error, LOCATION, 'reading from');
      assert.deepEqual([pending, reason], [false, 'VaultAuthInvalid']);
      assert.match(message, /^error logging in to vault via approle: vault https:\/\/v: .*words of Vault$/);
    }
  });

  it('reports other errors with the action, the address and the message of Vault', () => {
    for (const kind of ['invalidPath', 'permissionDenied', 'redirect', 'badResponse', 'tls', 'sealed'] as const) {
      const { pending, reason, message } = troubleOf(failure(kind), LOCATION, 'syncing to');
      assert.deepEqual([pending, reason], [false, 'VaultError']);
      assert.equal(message, 'Error syncing to vault: vault https://v: GET secret/data/app: words of Vault');
    }
  });

  it('does not print a thrown value that is not an error', () => {
    assert.equal(troubleOf('hunter2', LOCATION, 'reading from').message, 'Error reading from vault: unknown');
  });
});

it('a skipped call is not reported; a wait that Vault requested is', () => {
  assert.ok(isSkippedCall(failure('circuitOpen')));
  assert.ok(isSkippedCall(failure('throttled')));
  assert.ok(!isSkippedCall(failure('throttled', { status: 429 })));
  assert.ok(!isSkippedCall(failure('sealed')));
  assert.ok(!isSkippedCall(new Error('circuitOpen')));
});

it('transient errors are retried within seconds, others with the growing wait of the queue', () => {
  for (const kind of ['sealed', 'timeout', 'connection', 'circuitOpen', 'unavailable', 'serverError'] as const) {
    const wait = vaultLongestWaitMs(failure(kind)) ?? Infinity;
    assert.ok(wait > LONGEST_WAIT_MS / 2 && wait <= LONGEST_WAIT_MS, `${kind}: ${wait}`);
  }
  for (const error of [failure('permissionDenied'), failure('invalidPath'), new Error('sealed')]) {
    assert.equal(vaultLongestWaitMs(error), undefined);
  }
});

it('a wait that Vault requested is passed on', () => {
  assert.equal(vaultRetryAfterMs(failure('throttled', { retryAfterMs: 1500 })), 1500);
  assert.equal(vaultRetryAfterMs(failure('sealed')), undefined);
  assert.equal(vaultRetryAfterMs(new Error('x')), undefined);
});
