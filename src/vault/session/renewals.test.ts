/** Tests when a token is renewed or replaced, with a manual clock. Tests with a real Vault are in test/scenarios. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { fixRandom } from '../../../test/support/fixed-random.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { SecretBytes } from '../../runtime/secret-bytes.ts';
import type { VaultRequest } from '../client/client.ts';
import { VaultError } from '../errors.ts';
import { parseServer } from '../client/server.ts';
import { parseJson, isJsonObject } from '../json.ts';
import { VaultSession } from './session.ts';

const LIFE_S = 3_000;
const secret = SecretBytes.fromUtf8('s');
const CONFIGURED = { method: 'token', token: secret } as const;
const LOGIN = { method: 'approle', roleId: secret, secretId: secret } as const;

/** Makes a session that is used. Each renewal gives its token a new life of `answer(number of the renewal)` seconds. */
async function setUp(random: number, answer: (calls: number) => number, given = false, renewable = true) {
  fixRandom(random);
  const clock = new ManualClock();
  const renewedAt: number[] = [];
  const loginsAt: number[] = [];
  const events: string[] = [];
  const none = { status: 200, data: undefined, auth: undefined, leaseId: '', leaseSeconds: 0, renewable: false };
  const life = { ttlSeconds: LIFE_S, renewable, batch: false, limitedUses: false };
  const request = async ({ path }: VaultRequest) => {
    const auth = { ...life, clientToken: 't', accessor: 'a' };
    if (path === 'auth/approle/login') {
      loginsAt.push(clock.monotonic() / 1_000);
      return { ...none, auth };
    }
    if (path === 'auth/token/renew-self') {
      renewedAt.push(clock.monotonic() / 1_000);
      const ttlSeconds = await Promise.resolve(answer(renewedAt.length));
      return { ...none, auth: { ...auth, ttlSeconds, renewable: true } };
    }
    const data = parseJson(JSON.stringify({ accessor: 'a', expire_time: 'soon', ttl: LIFE_S, renewable }));
    return { ...none, ...(isJsonObject(data) && { data }) };
  };
  const session = new VaultSession({
    client: { server: parseServer({ addr: 'http://127.0.0.1:8200' }), request },
    namespace: undefined,
    entryNamespace: undefined,
    clock,
    identity: given ? CONFIGURED : LOGIN,
    onEvent: ({ type }) => events.push(type),
  });
  await session.request({ method: 'GET', path: 'secret/data/app' });
  return { clock, session, renewedAt, replacedAt: () => loginsAt.slice(1), events };
}

const fails = (): never => {
  throw new VaultError('no', { kind: 'connection', addr: 'x' });
};

describe('a token', () => {
  for (const random of [0, 0.5, 0.999]) {
    it(`a token is renewed at two thirds of its life or a little before, every time (random part ${random})`, async () => {
      const { clock, renewedAt } = await setUp(random, () => LIFE_S);
      await clock.advance(4 * LIFE_S * 1_000);
      assert.ok(renewedAt.length >= 5);
      let last = 0;
      for (const at of renewedAt) {
        const share = (at - last) / LIFE_S;
        assert.ok(share > 0.63 && share <= 2 / 3 + 1e-9, `renewed after ${share} of its life`);
        last = at;
      }
    });
  }

  it('if renewals of a token fail, they are tried again several times until the token expires, and not later', async () => {
    const { clock, renewedAt } = await setUp(0, () => fails());
    await clock.advance(LIFE_S * 1_000 + 1_000);
    assert.ok(renewedAt.length >= 5, `${renewedAt.length} attempts`);
    const before = renewedAt.length;
    await clock.advance(LIFE_S * 1_000);
    assert.equal(renewedAt.length, before);
  });

  it('if max_ttl cuts the renewal of a token, a login replaces the token at two thirds of its remaining life', async () => {
    const { clock, renewedAt, replacedAt } = await setUp(0, () => LIFE_S / 2);
    await clock.advance(4_000 * 1_000);
    assert.deepEqual([renewedAt, replacedAt()], [[2_000], [2_000 + 1_000]]);
  });

  it('a token that cannot be renewed is replaced at two thirds of its life, except a configured token', async () => {
    const own = await setUp(0, () => LIFE_S, false, false);
    await own.clock.advance(LIFE_S * 1_000 - 1);
    assert.deepEqual([own.renewedAt, own.replacedAt(), own.events], [[], [2_000], ['login', 'login']]);
    const given = await setUp(0, () => LIFE_S, true, false);
    await given.clock.advance(LIFE_S * 1_000);
    assert.deepEqual([given.renewedAt, given.replacedAt(), given.clock.pendingTimers], [[], [], 0]);
    assert.deepEqual(given.events, ['login', 'expiring']);
  });

  it('while nobody uses its session, a token is not renewed', async () => {
    const { clock, session, renewedAt } = await setUp(0, () => LIFE_S);
    session.setUnused(true);
    await clock.advance(LIFE_S * 1_000);
    assert.deepEqual([renewedAt, clock.pendingTimers], [[], 0]);
  });
});
