/** Tests when a token is renewed or replaced, with a manual clock. Tests with a real Vault are in test/scenarios. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { ManualClock } from '../../../test/support/manual-clock.ts';
import { SecretBytes } from '../../runtime/secret-bytes.ts';
import type { VaultRequest } from '../client/client.ts';
import { VaultError } from '../errors.ts';
import { parseServer } from '../client/server.ts';
import { SessionToken } from './token.ts';
import { TokenKeeper } from './token-keeper.ts';

const LIFE_S = 3_000;
const secret = SecretBytes.fromUtf8('s');
const CONFIGURED = { method: 'token', token: secret } as const;
const LOGIN = { method: 'approle', roleId: secret, secretId: secret } as const;

/** Makes a keeper. Each renewal gives the token a new life of `answer(number of the renewal)` seconds. */
function setUp(random: number, answer: (calls: number) => number, given = false, renewable = true) {
  const clock = new ManualClock();
  const renewedAt: number[] = [];
  const replacedAt: number[] = [];
  const events: string[] = [];
  const request = async ({ path }: VaultRequest) => {
    assert.equal(path, 'auth/token/renew-self');
    renewedAt.push(clock.monotonic() / 1_000);
    const ttlSeconds = await Promise.resolve(answer(renewedAt.length));
    const auth = { clientToken: '', accessor: undefined, ttlSeconds, renewable: true };
    const none = { status: 200, data: undefined, leaseId: '', leaseSeconds: 0, renewable: false };
    return { ...none, auth: { ...auth, batch: false, limitedUses: false } };
  };
  const client = { server: parseServer({ addr: 'http://127.0.0.1:8200' }), request };
  const keeper = new TokenKeeper({
    context: { client, namespace: undefined, clock, identity: given ? CONFIGURED : LOGIN },
    random: () => random,
    replace: async () => {
      replacedAt.push(clock.monotonic() / 1_000);
      await Promise.resolve();
    },
    replaceNotBefore: () => 0,
    onRefused: async () => await Promise.resolve(),
    emit: ({ type }) => events.push(type),
  });
  const facts = { token: SecretBytes.fromUtf8('t'), id: 'a', revocable: true, limitedUses: false };
  const token = new SessionToken({ ...facts, ttlSeconds: LIFE_S, renewable }, clock.monotonic());
  keeper.keep(token);
  return { clock, keeper, token, renewedAt, replacedAt, events };
}

const fails = (): never => {
  throw new VaultError('no', { kind: 'connection', addr: 'x' });
};

describe('a token', () => {
  for (const random of [0, 0.5, 0.999]) {
    it(`a token is renewed at two thirds of its life or a little before, every time (random part ${random})`, async () => {
      const { clock, renewedAt } = setUp(random, () => LIFE_S);
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
    const { clock, renewedAt } = setUp(0, () => fails());
    await clock.advance(LIFE_S * 1_000 + 1_000);
    assert.ok(renewedAt.length >= 5, `${renewedAt.length} attempts`);
    const before = renewedAt.length;
    await clock.advance(LIFE_S * 1_000);
    assert.equal(renewedAt.length, before);
  });

  it('if max_ttl cuts the renewal of a token, a login replaces the token at two thirds of its remaining life', async () => {
    const { clock, renewedAt, replacedAt } = setUp(0, () => LIFE_S / 2);
    await clock.advance(2 * LIFE_S * 1_000);
    assert.deepEqual(renewedAt, [2_000]);
    assert.equal(replacedAt[0], 2_000 + 1_000);
  });

  it('a token that cannot be renewed is replaced at two thirds of its life, except a configured token', async () => {
    const own = setUp(0, () => LIFE_S, false, false);
    await own.clock.advance(LIFE_S * 1_000 - 1);
    assert.deepEqual([own.renewedAt, own.replacedAt[0], own.events], [[], 2_000, []]);
    const given = setUp(0, () => LIFE_S, true, false);
    await given.clock.advance(LIFE_S * 1_000);
    assert.deepEqual([given.renewedAt, given.replacedAt, given.clock.pendingTimers], [[], [], 0]);
    assert.deepEqual(given.events, ['expiring']);
  });

  it('after TokenKeeper.stop(), a token is not renewed', async () => {
    const { clock, keeper, renewedAt } = setUp(0, () => LIFE_S);
    keeper.stop();
    await clock.advance(LIFE_S * 1_000);
    assert.deepEqual([renewedAt, clock.pendingTimers], [[], 0]);
  });
});
