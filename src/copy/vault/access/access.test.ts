import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import * as fc from 'fast-check';

import { ApiError } from '../../../kube/errors.ts';
import { readAnswer } from '../../../vault/client/answer.ts';
import { type Fault, userCause } from '../../model/cause.ts';
import { VaultError, type VaultErrorKind } from '../../../vault/errors.ts';
import { LONGEST_WAIT_MS, troubleOf, vaultLongestWaitMs, VaultAccess, type VaultLogin } from './access.ts';
import { VaultAuthMissingError } from './login-tokens.ts';
import type { VaultLocation, VaultAuthRef } from '../locations.ts';
import type { VaultCredentials } from './credentials.ts';
import type { VaultSessions } from '../../../vault/session/sessions.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { LoginKey } from '../../model/keys.ts';
import { parseServer } from '../../../vault/client/server.ts';

const LOCATION: VaultLocation = {
  server: parseServer({ addr: 'https://v' }),
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
  it('troubleOf reports a missing credential as pending, even if it is only the cause of the cause of the error', () => {
    const missing = new VaultAuthMissingError('secret a/b for vault approle login not found', 'user');
    for (const error of [missing, failure('connection', { cause: new Error('x', { cause: missing }) })]) {
      const trouble = troubleOf(error, LOCATION, 'reading from');
      assert.deepEqual(trouble, { pending: true, ...userCause('VaultAuthMissing', missing.message) });
    }
  });

  it('troubleOf reports VaultAuthInvalid for a refused login, and also if the auth method is not mounted', () => {
    for (const error of [
      failure('authFailed'),
      failure('tokenInvalid'),
      failure('invalidPath', { path: 'auth/nowhere/login', isLogin: true }),
    ]) {
      const { pending, reason, message } = troubleOf(error, LOCATION, 'reading from');
      assert.deepEqual([pending, reason], [false, 'VaultAuthInvalid']);
      assert.match(message, /^error logging in to vault via approle: vault https:\/\/v: .*words of Vault$/);
    }
  });

  it('troubleOf decides by HTTP status and owner of the credentials whose fault an error is, never by a text', () => {
    const text = fc.oneof(
      fc.constantFrom('no permission to', 'permission denied', '$VAULT_TOKEN', 'sealed', 'invalid secret id'),
      fc.string(),
    );
    const now = Date.now();
    const faultOf = (status: number, words: string, isLogin: boolean, auth: VaultLocation['auth']): Fault => {
      const body = Buffer.from(JSON.stringify({ errors: [words] }));
      const answer = readAnswer({ status, headers: {}, body, stream: undefined }, now);
      assert.ok('kind' in answer);
      const error = new VaultError(words, { ...answer, addr: 'https://v', path: words, status, isLogin });
      return troubleOf(error, { ...LOCATION, path: words, auth }, 'reading from').fault;
    };
    const statuses = fc.constantFrom(302, 400, 403, 404, 405, 412, 413, 429, 472, 473, 500, 501, 502, 503, 504);
    const auths = fc.constantFrom(LOCATION.auth, { method: 'environment' } as const);
    fc.assert(
      fc.property(statuses, text, fc.boolean(), auths, (status, words, isLogin, auth) => {
        assert.equal(faultOf(status, words, isLogin, auth), faultOf(status, 'x', isLogin, auth));
      }),
    );
    // Vault up to version 1.13 answers a login with a wrong secret id with status 500. Any version can answer
    // `Upgrading …`.
    const upgrading = 'Upgrading from non-versioned to versioned data';
    assert.equal(faultOf(400, upgrading, false, LOCATION.auth), 'user');
    const cases = [
      ['user', 403, false, LOCATION.auth],
      ['user', 404, false, LOCATION.auth],
      ['user', 400, true, LOCATION.auth],
      ['user', 500, true, LOCATION.auth],
      ['operator', 500, false, LOCATION.auth],
      ['operator', 503, true, LOCATION.auth],
      ['operator', 429, false, LOCATION.auth],
      ['operator', 302, false, LOCATION.auth],
      ['user', 403, false, { method: 'environment' }],
      ['operator', 403, true, { method: 'environment' }],
    ] as const;
    for (const [fault, status, isLogin, auth] of cases) {
      assert.equal(faultOf(status, 'x', isLogin, auth), fault, `${status} ${isLogin} ${auth.method}`);
    }
  });

  it('an error is the fault of the operator if Vault refuses the own token of the operator or does not answer, and of the user if address or path are wrong', () => {
    const faultOf = (kind: VaultErrorKind, auth: VaultLocation['auth'] = LOCATION.auth): Fault =>
      troubleOf(failure(kind), { ...LOCATION, auth }, 'reading from').fault;
    for (const kind of ['invalidPath', 'invalidServer', 'tooLarge'] as const) assert.equal(faultOf(kind), 'user', kind);
    for (const kind of ['connection', 'tls', 'timeout', 'circuitOpen', 'badResponse', 'unavailable'] as const) {
      assert.equal(faultOf(kind), 'operator', kind);
    }
    for (const kind of ['tokenInvalid', 'authFailed', 'invalidServer'] as const) {
      assert.equal(faultOf(kind, { method: 'environment' }), 'operator', kind);
    }
    const call = { cluster: 'c', method: 'POST', path: '/api/v1/namespaces/a/serviceaccounts/b/token' };
    const refused = 'serviceaccounts "b" is forbidden: User "keyferry" cannot create resource "serviceaccounts/token"';
    const cause = new ApiError(call, 403, { reason: 'Forbidden', message: refused, causes: [] });
    assert.equal(troubleOf(failure('authFailed', { cause }), LOCATION, 'reading from').fault, 'operator');
    assert.equal(
      troubleOf(new VaultAuthMissingError('no token', 'operator'), LOCATION, 'syncing to').fault,
      'operator',
    );
  });

  it('troubleOf does not print a thrown value that is not an error', () => {
    assert.equal(troubleOf('hunter2', LOCATION, 'reading from').message, 'Error reading from vault: unknown');
  });
});

it('after a transient error of Vault the longest wait is a few seconds; after another error it is the longest wait of the queue', () => {
  for (const kind of ['timeout', 'connection', 'circuitOpen', 'unavailable'] as const) {
    const wait = vaultLongestWaitMs(failure(kind)) ?? Infinity;
    assert.ok(wait > LONGEST_WAIT_MS / 2 && wait <= LONGEST_WAIT_MS, `${kind}: ${wait}`);
  }
  for (const error of [failure('permissionDenied'), failure('invalidPath'), new Error('sealed')]) {
    assert.equal(vaultLongestWaitMs(error), undefined);
  }
});

const { signal } = new AbortController();
const USER: LoginKey = asKey('generator:a/x SecretStore/s');
const tokenIn = (name: string): VaultAuthRef => ({ method: 'token', token: { namespace: 'a', name, key: 'token' } });

/** A `VaultAccess`, and `done`: the calls that it makes (for example `acquire http://v`), in order of time. */
function scene(versionOf: () => string | undefined = () => undefined): { access: VaultAccess; done: string[] } {
  const done: string[] = [];
  const nameOf = (auth: VaultAuthRef): string => (auth.method === 'token' ? auth.token.name : auth.method);
  const credentials = {
    follow: (_: string, auth?: VaultAuthRef, before?: VaultAuthRef) => {
      if (auth !== undefined) done.push(`follow ${nameOf(auth)}`);
      if (before !== undefined) done.push(`unfollow ${nameOf(before)}`);
    },
    identity: async () => await Promise.resolve({}),
    versionOf,
  } as unknown as VaultCredentials;
  const sessions = {
    acquire: ({ addr }: { readonly addr: string }) => {
      done.push(`acquire ${addr}`);
      return { session: {}, release: () => done.push(`release ${addr}`) };
    },
  } as unknown as VaultSessions;
  return { access: new VaultAccess({ credentials, sessions }), done };
}

describe('the connection of a user', () => {
  it('a user of Vault keeps its connection while server, login and version of the Secret stay the same', async () => {
    const { access, done } = scene(() => 'v1');
    const login = (): VaultLogin => ({ server: parseServer({ addr: 'http://one' }), auth: tokenIn('t') });
    const first = await access.open(USER, login(), signal);
    assert.deepEqual(done, ['follow t', 'acquire http://one']);
    assert.equal(await access.open(USER, login(), signal), first);
    assert.deepEqual(done, ['follow t', 'acquire http://one']);
  });

  for (const [what, server, auth] of [
    ['server', 'http://two', 't'],
    ['login', 'http://one', 'u'],
  ] as const) {
    it(`when the ${what} of a user has changed, its connection is closed before the next connection is opened`, async () => {
      const { access, done } = scene();
      await access.open(USER, { server: parseServer({ addr: 'http://one' }), auth: tokenIn('t') }, signal);
      done.length = 0;
      await access.open(USER, { server: parseServer({ addr: server }), auth: tokenIn(auth) }, signal);
      assert.deepEqual(done, [`follow ${auth}`, 'unfollow t', 'release http://one', `acquire ${server}`]);
      done.length = 0;
      access.close(USER);
      assert.deepEqual(done, [`unfollow ${auth}`, `release ${server}`]);
    });
  }

  it('if a connection is closed while it is being opened, its session is released', async () => {
    const { access, done } = scene();
    const opening = access.open(USER, { server: parseServer({ addr: 'http://one' }), auth: tokenIn('t') }, signal);
    access.close(USER);
    await opening;
    assert.deepEqual(done, ['follow t', 'unfollow t', 'acquire http://one', 'release http://one']);
  });

  it('once() opens a connection for one call: it follows no credential, and releases its session even if the call fails', async () => {
    const { access, done } = scene();
    const login = { server: parseServer({ addr: 'http://one' }), auth: tokenIn('t') };
    await assert.rejects(
      access.once(login, signal, () => Promise.reject(new Error('no answer'))),
      /no answer/,
    );
    assert.deepEqual(done, ['acquire http://one', 'release http://one']);
  });
});

describe('the credential of a user', () => {
  for (const [title, now, isOutdated] of [
    ['is outdated if its Secret has changed since the user opened the connection', 'v2', true],
    ['is not outdated if its Secret is unchanged since the user opened the connection', 'v1', false],
    ['is outdated if its Secret was deleted', undefined, true],
  ] as const) {
    it(`the credential of a connection to Vault ${title}`, async () => {
      let version: string | undefined = 'v1';
      const { access } = scene(() => version);
      await access.open(USER, { server: parseServer({ addr: 'http://v' }), auth: tokenIn('t') }, signal);
      version = now;
      assert.equal(access.isOutdated(USER), isOutdated);
    });
  }

  it('the credential of a connection to Vault is outdated if its Secrets were not known when the user opened it', async () => {
    const { access } = scene();
    await access.open(USER, { server: parseServer({ addr: 'http://v' }), auth: tokenIn('t') }, signal);
    assert.equal(access.isOutdated(USER), true);
  });
});
