/** Tests a session with refused and replaced tokens and with logins that hang. Real Vaults are in test/scenarios. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';

import { fixRandom } from '../../../test/support/fixed-random.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { SecretBytes } from '../../runtime/secret-bytes.ts';
import type { TokenGrant, VaultResponse } from '../client/answer.ts';
import type { VaultRequest } from '../client/client.ts';
import { isVaultError, VaultError } from '../errors.ts';
import { isJsonObject, parseJson } from '../json.ts';
import { VaultSession } from './session.ts';
import { parseServer } from '../client/server.ts';

const LIFE_S = 3_000;
const CREDENTIALS = { method: 'GET', path: 'database/creds/app' } as const;
const READ = { method: 'GET', path: 'secret/data/app' } as const;
/** Renews a lease that another token created. */
const RENEWAL = { method: 'POST', path: 'sys/leases/renew' } as const;

/** Makes a session whose logins return the tokens `t1`, `t2`, … Calls with a token in `refused` get a 403. */
function setUp() {
  const clock = new ManualClock();
  fixRandom(0.5);
  const server = parseServer({ addr: 'http://127.0.0.1:8200' });
  const refused = new Set<string>();
  const seen: string[] = [];
  const gate = { wait: Promise.resolve(), login: Promise.resolve(), read: Promise.resolve() };
  const none = { status: 200, data: undefined, leaseId: '', leaseSeconds: 0, renewable: false };
  let logins = 0;
  const authOf = (name: string): TokenGrant => {
    const life = { ttlSeconds: LIFE_S, renewable: false, batch: false, limitedUses: false };
    return { clientToken: name, accessor: `accessor of ${name}`, ...life };
  };
  const request = async ({ path, token }: VaultRequest): Promise<VaultResponse> => {
    const name = token?.utf8() ?? '';
    seen.push(`${path} ${name}`.trim());
    if (path === 'auth/approle/login') {
      await gate.login;
      return { ...none, auth: authOf(`t${++logins}`) };
    }
    if (path === 'auth/token/lookup-self') await gate.wait;
    if (path === READ.path) await gate.read;
    if (path === CREDENTIALS.path) {
      const data = parseJson('{}');
      return { ...none, auth: undefined, ...(isJsonObject(data) && { data }), leaseId: 'lease' };
    }
    if (path === RENEWAL.path) return { ...none, auth: undefined, leaseId: 'lease of another token' };
    const kind = 'permissionDenied';
    if (refused.has(name)) throw new VaultError('denied', { kind, addr: server.origin, status: 403 });
    return { ...none, auth: undefined };
  };
  const [roleId, secretId] = [SecretBytes.fromUtf8('r'), SecretBytes.fromUtf8('s')];
  const identity = { method: 'approle', roleId, secretId } as const;
  const session = new VaultSession({
    client: { server, request },
    namespace: undefined,
    entryNamespace: undefined,
    clock,
    identity,
  });
  const count = (call: string): number => seen.filter((one) => one.startsWith(call)).length;
  return { clock, session, refused, gate, count };
}

describe('a refused call', () => {
  it('if Vault refuses a call less than 1 s after it answered another, the session keeps its token', async () => {
    const { session, refused, count } = setUp();
    await session.request(READ);
    refused.add('t1');
    await assert.rejects(session.request(READ), (error) => isVaultError(error, 'permissionDenied'));
    assert.deepEqual([count('auth/token/lookup-self'), count('auth/approle/login')], [0, 1]);
    await session.close();
  });

  it('if a login replaces a token during the check of a refused call, the call is repeated with the new token', async () => {
    const { clock, session, refused, gate, count } = setUp();
    await session.request({ ...READ, path: 'secret/data/other' });
    await clock.advance(10_000);
    refused.add('t1');
    const lookUp = Promise.withResolvers<void>();
    gate.wait = lookUp.promise;
    const call = session.request(READ);
    await clock.advance((LIFE_S - 100) * 1_000);
    assert.deepEqual([count('auth/token/lookup-self t1'), count('auth/approle/login')], [1, 2]);
    lookUp.resolve();
    await call;
    await session.request(READ);
    assert.deepEqual([count('secret/data/app t2'), count('auth/approle/login')], [2, 2]);
    await session.close();
  });
});

describe('a token that was replaced', () => {
  it('a token that a login replaced is left to expire, and the session knows when', async () => {
    const { clock, session, count } = setUp();
    await session.request(CREDENTIALS);
    const end = clock.now() + LIFE_S * 1_000;
    await clock.advance((LIFE_S - 100) * 1_000);
    assert.deepEqual([count('auth/approle/login'), session.tokenDeadline('accessor of t1')], [2, end]);
    assert.equal(session.tokenDeadline('accessor of t3'), undefined);
    await session.close();
    assert.deepEqual([count('auth/token/revoke-self t1'), count('auth/token/revoke-self t2')], [0, 1]);
  });
});

describe('at its close, a session', () => {
  const REVOKE = 'auth/token/revoke-self t1';

  it('when a Vault session is closed, it revokes its token, except if a lease of the token is left', async () => {
    for (const [call, ends, revoked] of [
      [READ, [], 1],
      [CREDENTIALS, [], 0],
      [CREDENTIALS, ['forgetLease'], 1],
      [CREDENTIALS, ['abandonLease', 'forgetLease'], 0],
      // The lease is that of another token.
      [RENEWAL, ['abandonLease'], 1],
    ] as const) {
      const { session, count } = setUp();
      await session.request(call);
      for (const end of ends) session[end]('lease');
      await session.close();
      assert.equal(count(REVOKE), revoked, `${call.path} ${ends.join()}`);
    }
  });
});

describe('while a login hangs', () => {
  it('while a login hangs and the previous login got no answer, other calls fail at once with the error of the previous login', async () => {
    const { clock, session, gate } = setUp();
    const isTimeout = (error: unknown): boolean => isVaultError(error, 'timeout');
    gate.login = Promise.reject(new VaultError('no answer', { kind: 'timeout', addr: session.addr }));
    await assert.rejects(session.request(READ), isTimeout);
    const hangs = Promise.withResolvers<void>();
    gate.login = hangs.promise;
    await clock.advance(120_000);
    const waits = session.request(READ);
    const second = session.request(READ).catch((error: unknown) => error);
    const answer = await Promise.race([second, setImmediate('waits for the login')]);
    assert.ok(isTimeout(answer), String(answer));
    hangs.resolve();
    await waits;
    await session.close();
  });

  it('while a login hangs and the previous login succeeded, other calls wait for the login that hangs', async () => {
    const { clock, session, gate } = setUp();
    gate.login = Promise.reject(new VaultError('no answer', { kind: 'timeout', addr: session.addr }));
    await assert.rejects(session.request(READ), (error) => isVaultError(error, 'timeout'));
    gate.login = Promise.resolve();
    await clock.advance(120_000);
    await session.request(READ);
    const hangs = Promise.withResolvers<void>();
    gate.login = hangs.promise;
    await clock.advance(LIFE_S * 1000);
    const first = session.request(READ);
    const second = session.request(READ).catch((error: unknown) => error);
    assert.equal(await Promise.race([second, setImmediate('waits')]), 'waits');
    hangs.resolve();
    await Promise.all([first, second]);
    await session.close();
  });
});
