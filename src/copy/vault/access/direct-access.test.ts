import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import type { VaultAccess, VaultLogin } from './access.ts';
import type { VaultCredentials } from './credentials.ts';
import { VaultDirectAccess } from './direct-access.ts';
import type { VaultAuthRef } from '../locations.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { EntryKey, LoginKey } from '../../model/keys.ts';

const { signal } = new AbortController();
const USER: LoginKey = asKey('generator:a/x SecretStore/s');
const tokenIn = (name: string): VaultAuthRef => ({ method: 'token', token: { namespace: 'a', name, key: 'token' } });

/** A direct access, and what it does in its order. */
const scene = (): { vault: VaultDirectAccess; done: string[] } => sceneWith(() => undefined);

function sceneWith(onCredential: (user: LoginKey) => void): { vault: VaultDirectAccess; done: string[] } {
  const done: string[] = [];
  const nameOf = (auth: VaultAuthRef): string => (auth.method === 'token' ? auth.token.name : auth.method);
  const access = {
    open: (_: string, { server }: VaultLogin) => Promise.resolve(done.push(`open ${server.addr}`)),
    close: () => done.push('close'),
  } as unknown as VaultAccess;
  const credentials = {
    follow: (_: string, auth: VaultAuthRef) => done.push(`follow ${nameOf(auth)}`),
    unfollow: (_: string, auth: VaultAuthRef) => done.push(`unfollow ${nameOf(auth)}`),
    versionOf: () => undefined,
    usersOf: () => [USER],
  } as unknown as VaultCredentials;
  return { vault: new VaultDirectAccess(access, credentials, onCredential), done };
}

describe('the connection of a user', () => {
  it('is kept while its server and login stay the same', async () => {
    const { vault, done } = scene();
    const login = (): VaultLogin => ({ server: { addr: 'http://one' }, auth: tokenIn('t') });
    await vault.open(USER, login(), signal);
    done.length = 0;
    await vault.open(USER, login(), signal);
    assert.deepEqual(done, ['open http://one']);
  });

  for (const [what, server, auth] of [
    ['server', 'http://two', 't'],
    ['login', 'http://one', 'u'],
  ] as const) {
    it(`is closed before the next one is opened when its ${what} has changed`, async () => {
      const { vault, done } = scene();
      await vault.open(USER, { server: { addr: 'http://one' }, auth: tokenIn('t') }, signal);
      done.length = 0;
      await vault.open(USER, { server: { addr: server }, auth: tokenIn(auth) }, signal);
      assert.deepEqual(done, [`follow ${auth}`, 'unfollow t', 'close', `open ${server}`]);
      done.length = 0;
      vault.close(USER);
      assert.deepEqual(done, [`unfollow ${auth}`, 'close']);
    });
  }
});

describe('a change of a credential', () => {
  for (const [title, now, called] of [
    ['calls the user that opened with an earlier version', 'v2', true],
    ['calls no user that opened with this version', 'v1', false],
    ['calls the user if the Secret is gone', undefined, true],
  ] as const) {
    it(title, async () => {
      let version: string | undefined = 'v1';
      const users: string[] = [];
      const access = { open: async () => await Promise.resolve({}), close: () => undefined };
      const credentials = {
        follow: () => undefined,
        unfollow: () => undefined,
        versionOf: () => version,
        usersOf: () => [USER, asKey<EntryKey>('vault:http://v/secret/app#1')],
      };
      const vault = new VaultDirectAccess(
        access as unknown as VaultAccess,
        credentials as unknown as VaultCredentials,
        (user) => users.push(user),
      );
      await vault.open(USER, { server: { addr: 'http://v' }, auth: tokenIn('t') }, signal);
      version = now;
      vault.objectKnown(asKey('c:Secret/a/t'));
      assert.deepEqual(users, called ? [USER] : []);
    });
  }

  it('calls a user whose Secrets were not known when it opened', async () => {
    const users: string[] = [];
    const { vault } = sceneWith((user) => users.push(user));
    await vault.open(USER, { server: { addr: 'http://v' }, auth: tokenIn('t') }, signal);
    vault.objectKnown(asKey('c:Secret/a/t'));
    assert.deepEqual(users, [USER]);
  });
});
