/**
 * Tests logins, and the renewal, replacement and revocation of tokens that last only seconds. Vault's audit log counts
 * the calls.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { inspect } from 'node:util';

import { systemClock } from '../../../src/runtime/clock.ts';
import { SecretBytes } from '../../../src/runtime/secret-bytes.ts';
import { VaultEntries } from '../../../src/vault/kv/entries.ts';
import { isVaultError, type VaultErrorKind } from '../../../src/vault/errors.ts';
import type { AppRoleIdentity, VaultIdentity } from '../../../src/vault/session/identity.ts';
import type { SessionEvent } from '../../../src/vault/session/token.ts';
import type { VaultSession } from '../../../src/vault/session/session.ts';
import { VaultSessions } from '../../../src/vault/session/sessions.ts';
import { type AppRole, DevVault } from './dev-vault.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { PATIENCE_MS, waitFor } from '../../support/wait-for.ts';
import { parseServer } from '../../../src/vault/client/server.ts';

let vault: DevVault;
let sessions: VaultSessions;
let events: SessionEvent[];
let roles = 0;

/** A long time limit for calls, because a call may wait behind a thousand others. No test in this file is about it. */
const CALL = { timeoutMs: PATIENCE_MS };

const text = (value: string): SecretBytes => SecretBytes.fromUtf8(value);

/** Makes sessions with a clock that only the test moves. */
function manual(): ManualClock {
  const clock = new ManualClock();
  sessions = new VaultSessions({ ...CALL, clock, onEvent: (event) => events.push(event) });
  return clock;
}

function appRole({ roleId, secretId }: AppRole, mount?: string): AppRoleIdentity {
  return { method: 'approle', roleId: text(roleId), secretId: text(secretId), mount };
}

function open(identity: VaultIdentity): VaultSession {
  return sessions.acquire(parseServer({ addr: vault.addr }), identity).session;
}

async function newRole(settings: object = {}): Promise<AppRole> {
  return await vault.appRole(`r${roles++}`, { token_policies: ['reader'], token_ttl: '1h', ...settings });
}

function read(session: VaultSession): Promise<unknown> {
  return session.request({ method: 'GET', path: 'secret/data/app' });
}

const is =
  (kind: VaultErrorKind, words = /./) =>
  (error: unknown): boolean => {
    assert.ok(isVaultError(error, kind), inspect(error));
    assert.match(error.message, words);
    return true;
  };

const seen = (type: SessionEvent['type']): number => events.filter((event) => event.type === type).length;

/** `calls(path)` counts the calls with this path in the audit log, beginning with this line of the log. */
let mark = 0;
function calls(path: string): number {
  return vault
    .audited()
    .slice(mark)
    .filter((call) => call.path === path).length;
}

before(async () => {
  vault = await DevVault.start();
  await vault.policy('reader', { 'secret/data/app': ['read'] });
  await vault.write('secret/data/app', { data: { k: 'v' } });
});

beforeEach(() => {
  events = [];
  mark = vault.audited().length;
  sessions = new VaultSessions({
    ...CALL,
    clock: systemClock,
    onEvent: (event) => events.push(event),
  });
});

afterEach(async () => {
  await sessions.stop();
});

after(async () => {
  await vault.stop();
});

describe('the number of logins', () => {
  it('all users of a credential share one login for a thousand requests, and a stop revokes the token of this login', async () => {
    const role = await newRole();
    // Editors and `echo` add a line end to a credential.
    const edited = { roleId: `${role.roleId}\n`, secretId: `${role.secretId}\r\n` };
    const users = Array.from({ length: 20 }, (_, user) => open(appRole(user % 2 === 0 ? edited : role)));
    await Promise.all(users.flatMap((session) => Array.from({ length: 50 }, () => read(session))));
    assert.deepEqual([new Set(users).size, calls('auth/approle/login'), calls('secret/data/app')], [1, 1, 1_000]);
    await sessions.stop();
    assert.deepEqual([calls('auth/token/revoke-self'), seen('revoked')], [1, 1]);
    await assert.rejects(read(users[0]!), is('closed'));
    assert.throws(() => open(appRole(role)), is('closed'));
  });

  it('each credential, each auth mount and each Vault namespace has its own login', async () => {
    const first = await newRole();
    const other = await vault.appRole('elsewhere', { token_policies: ['reader'] }, 'team/approle');
    const logins = [open(appRole(first)), open(appRole(other, 'team/approle'))];
    await Promise.all(logins.map(read));
    assert.deepEqual([calls('auth/approle/login'), calls('auth/team/approle/login')], [1, 1]);
    const refused = open(appRole(other));
    await assert.rejects(read(refused), is('authFailed', /invalid role/));
    const team = sessions.acquire(parseServer({ addr: vault.addr, namespace: 'team' }), appRole(first));
    assert.equal(new Set([...logins, refused, team.session]).size, 4);
  });

  it('a Vault session that nobody uses is kept for a while, and renews no token; then its token is revoked', async () => {
    const clock = manual();
    const role = await newRole();
    const hold = sessions.acquire(parseServer({ addr: vault.addr }), appRole(role));
    const { tokenId } = await hold.session.request({ method: 'GET', path: 'secret/data/app' });
    hold.release();
    hold.release();
    assert.notEqual(hold.session.tokenDeadline(tokenId), Infinity);
    const again = sessions.acquire(parseServer({ addr: vault.addr }), appRole(role));
    assert.equal(again.session, hold.session);
    assert.equal(again.session.tokenDeadline(tokenId), Infinity);
    again.release();
    await clock.advance(60_000);
    await waitFor(() => seen('revoked') === 1, { message: 'the token to be revoked' });
    assert.equal(calls('auth/approle/login'), 1);
    assert.notEqual(open(appRole(role)), hold.session);
  });
});

describe('a token that expires', () => {
  it('a token is renewed at two thirds of its TTL, and replaced when max_ttl shortens a renewal', async () => {
    const session = open(appRole(await newRole({ token_ttl: '3s', token_max_ttl: '7s' })));
    await read(session);
    await waitFor(() => seen('renewed') >= 1, { message: 'a renewal' });
    assert.equal(seen('login'), 1);
    await waitFor(() => seen('login') === 2, { message: 'a second login' });
    await read(session);
    assert.equal(seen('renewFailed') + seen('tokenLost'), 0);
    assert.equal(calls('auth/approle/login'), 2);
  });

  it('a token that cannot be renewed is replaced before it expires', async () => {
    const session = open(appRole(await newRole({ token_ttl: '2s', token_type: 'batch' })));
    await read(session);
    await waitFor(() => seen('login') === 2, { message: 'a second login' });
    await read(session);
    assert.equal(seen('revoked') + seen('revokeFailed') + seen('renewFailed'), 0);
  });

  it('a token that a user supplied is renewed if possible; otherwise its coming expiry is reported', async () => {
    const make = async (settings: object): Promise<VaultIdentity> => {
      const made = await vault.write('auth/token/create', { policies: ['reader'], ...settings });
      return { method: 'token', token: text(`${made.auth.client_token}\n`) };
    };
    const session = open(await make({ ttl: '2s', renewable: true }));
    await read(session);
    await waitFor(() => seen('renewed') >= 2, { message: 'two renewals' });
    await read(session);
    const ending = open(await make({ ttl: '1s', renewable: false }));
    await read(ending);
    assert.equal(seen('expiring'), 1);
    await waitFor(() => ending.state !== 'live', { message: 'its end' });
    await assert.rejects(read(ending), is('tokenInvalid'));
    await sessions.stop();
    assert.equal(seen('revoked'), 0);
  });
});

describe('a token that is no longer valid', () => {
  const accessorOf = (session: VaultSession): Promise<string> =>
    session.request({ method: 'GET', path: 'auth/token/lookup-self' }).then(({ tokenId }) => tokenId);

  it('a 403 shows that a token was revoked, and one login replaces the token for all users', async () => {
    const session = open(appRole(await newRole()));
    const accessor = await accessorOf(session);
    assert.equal(session.tokenDeadline(accessor), Infinity);
    await vault.write('auth/token/revoke-accessor', { accessor });
    // Within 1 s after a successful call, a 403 counts as a refusal by the policy. So repeat the calls.
    await waitFor(
      async () => {
        const results = await Promise.allSettled(Array.from({ length: 30 }, () => read(session)));
        return results.every(({ status }) => status === 'fulfilled');
      },
      { message: 'calls work again' },
    );
    assert.deepEqual([seen('tokenLost'), seen('login'), calls('auth/approle/login')], [1, 2, 2]);
    assert.deepEqual([session.tokenDeadline(accessor), session.tokenEndWithoutRenewal(accessor)], [0, undefined]);
    assert.equal(session.tokenDeadline('of another process'), undefined);
  });

  it('each of several revoked tokens is detected by a 403, even if tokens have no permission to look themselves up', async () => {
    const session = open(appRole(await newRole({ token_no_default_policy: true })));
    for (let round = 1; round <= 3; round++) {
      const { tokenId } = await session.request({ method: 'GET', path: 'secret/data/app' });
      await vault.write('auth/token/revoke-accessor', { accessor: tokenId });
      await waitFor(() => read(session), { message: `calls to work, time ${round}` });
      assert.equal(calls('auth/approle/login'), 1 + round);
    }
  });

  it('if a token has no uses left, the request that gets the refusal replaces the token and succeeds', async () => {
    const session = open(appRole(await newRole({ token_num_uses: 3 })));
    for (let i = 0; i < 20; i++) await read(session);
    assert.ok(seen('login') >= 6, `${seen('login')} logins`);
  });

  it('a 403 that comes from a policy does not replace the token', async () => {
    const session = open(appRole(await newRole()));
    const forbidden = (): Promise<unknown> => session.request({ method: 'GET', path: 'secret/data/other' });
    for (let i = 0; i < 20; i++) await assert.rejects(forbidden(), is('permissionDenied'));
    assert.equal(calls('auth/approle/login'), 1);
  });

  it("if a user's own token is revoked, requests fail, and the token is looked up again only after growing pauses", async () => {
    const made = await vault.write('auth/token/create', { policies: ['reader'], ttl: '1h' });
    const session = open({ method: 'token', token: text(made.auth.client_token) });
    await read(session);
    await vault.write('auth/token/revoke', { token: made.auth.client_token });
    await waitFor(
      async () => {
        const error: unknown = await read(session).catch((error: unknown) => error);
        return isVaultError(error, 'tokenInvalid');
      },
      { message: 'it is noticed' },
    );
    const before = vault.audited().length;
    for (let i = 0; i < 20; i++) await assert.rejects(read(session), is('tokenInvalid'));
    assert.equal(vault.audited().length, before);
    assert.equal(session.state, 'failed');
  });

  it('a token that Vault never issued is an error at once, and the error does not contain the token', async () => {
    const session = open({ method: 'token', token: text('hvs.this-is-not-a-token') });
    await assert.rejects(read(session), (error) => {
      assert.ok(isVaultError(error, 'tokenInvalid', 'permissionDenied'), inspect(error));
      assert.ok(!inspect(error, { depth: null }).includes('this-is-not'));
      return true;
    });
  });

  it('a token without the policy "default" is not replaced after each 403 that comes from a policy', async () => {
    const role = await newRole({ token_no_default_policy: true });
    const session = open(appRole(role));
    await read(session);
    await waitFor(
      async () => {
        await session.request({ method: 'GET', path: 'secret/data/other' }).catch(() => undefined);
        return calls('auth/token/lookup-self') > 0;
      },
      { message: 'it is no longer taken for fresh' },
    );
    for (let i = 0; i < 20; i++) {
      await session.request({ method: 'GET', path: 'secret/data/other' }).catch(() => undefined);
    }
    await read(session);
    assert.ok(calls('auth/approle/login') <= 2);
  });
});

describe('a login that is refused', () => {
  /** Only the test moves this clock. So no pause ends during the many attempts, even on a slow machine. */
  let clock: ManualClock;

  beforeEach(() => {
    clock = manual();
  });

  it("a refused login is tried again after growing pauses that all its users share; the error has Vault's message and no credential", async () => {
    const role = await newRole();
    const session = open(appRole({ ...role, secretId: 'wrong-secret-id' }));
    const attempt = async (): Promise<void> => {
      await assert.rejects(read(session), (error) => {
        assert.ok(isVaultError(error, 'authFailed'), inspect(error));
        assert.match(error.message, /login at auth\/approle refused: .*invalid (role or )?secret id/i);
        assert.ok(!inspect(error, { depth: null }).includes('wrong-secret-id'));
        return true;
      });
    };
    let expected = 1;
    // Up to a tenth of the pause is added at random.
    for (const pauseMs of [30_000, 120_000, 480_000]) {
      await Promise.all(Array.from({ length: 50 }, attempt));
      await clock.advance(pauseMs - 1);
      await attempt();
      assert.equal(calls('auth/approle/login'), expected);
      await clock.advance(pauseMs / 10 + 1);
      await Promise.all(Array.from({ length: 50 }, attempt));
      assert.equal(calls('auth/approle/login'), ++expected);
    }
    const failed = events.filter((event) => event.type === 'loginFailed');
    assert.ok(failed.every((event) => event.retryAfterMs >= 30_000));
  });

  it('the pause after a refused login continues even if its only user leaves and returns', async () => {
    const role = await newRole();
    for (let i = 0; i < 10; i++) {
      const hold = sessions.acquire(parseServer({ addr: vault.addr }), appRole({ ...role, secretId: 'wrong' }));
      await assert.rejects(read(hold.session), is('authFailed'));
      hold.release();
    }
    assert.equal(calls('auth/approle/login'), 1);
  });

  it('if a login uses a mount that does not exist, the error names the mount', async () => {
    const role = await newRole();
    await assert.rejects(read(open(appRole(role, 'nowhere'))), is('authFailed', /login at auth\/nowhere refused/));
    await assert.rejects(read(open(appRole(role, '../x'))), is('invalidPath', /"\.\.\/x"/));
  });
});

describe('a session that is stopped while it logs in', () => {
  it('if a session is stopped during its login, the token that this login gets is revoked', async () => {
    const session = open(appRole(await newRole()));
    const controller = new AbortController();
    const waiting = assert.rejects(
      session.request({ method: 'GET', path: 'secret/data/app', signal: controller.signal }),
      { name: 'AbortError' },
    );
    controller.abort();
    await sessions.stop();
    await waiting;
    assert.deepEqual([calls('auth/approle/login'), calls('auth/token/revoke-self')], [1, 1]);
  });
});

describe('secrecy of credentials', () => {
  it('when a session and its events are printed, they show no credential and no token', async () => {
    const role = await newRole();
    const hold = sessions.acquire(parseServer({ addr: vault.addr }), appRole(role));
    await read(hold.session);
    const printed = inspect([hold, sessions, events, new VaultEntries(hold.session, { clock: systemClock })], {
      depth: null,
      showHidden: true,
    });
    for (const secret of [role.roleId, role.secretId, 'hvs.']) assert.ok(!printed.includes(secret), printed);
    assert.ok(!JSON.stringify([hold, events]).includes('hvs.'));
  });
});
