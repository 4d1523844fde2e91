import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fixRandom } from '../../../test/support/fixed-random.ts';

import { VaultError, type VaultErrorKind } from '../errors.ts';
import { LoginBackoff } from './login.ts';

const MINUTE = 60_000;
const failed = (kind: VaultErrorKind): VaultError => new VaultError('x', { kind, addr: 'https://v' });

describe('LoginBackoff', () => {
  it('LoginBackoff waits so long that Vault never refuses an AppRole five times in 15 minutes, which would lock it', () => {
    for (const random of [0, 0.5, 0.999]) {
      fixRandom(random);
      const backoff = new LoginBackoff();
      let now = 0;
      let row = 0;
      let last = -Infinity;
      for (let attempt = 0; attempt < 50; attempt++) {
        // As Vault does: it counts refused logins until 15 minutes pass without a refused login.
        row = now - last > 15 * MINUTE ? 1 : row + 1;
        assert.ok(row < 5, `refusal ${row} in a row at minute ${now / MINUTE}`);
        last = now;
        now += backoff.next('approle', failed('authFailed'));
      }
    }
  });

  it('LoginBackoff waits at most 5 s if Vault does not answer, and at most 5 min after other errors than a refused AppRole', () => {
    fixRandom(0.999);
    const backoff = new LoginBackoff();
    const waits = (method: 'approle' | 'kubernetes', kind: VaultErrorKind): number[] =>
      Array.from({ length: 10 }, () => Math.round(backoff.next(method, failed(kind)) / 1_000));
    assert.deepEqual(waits('approle', 'connection'), [1, 2, 4, 5, 5, 5, 5, 5, 5, 5]);
    assert.deepEqual(waits('kubernetes', 'authFailed').slice(0, 4), [5, 10, 20, 40]);
    assert.equal(waits('approle', 'invalidPath').at(-1), 300);
  });

  it('after a successful login, LoginBackoff starts again with its first wait', () => {
    fixRandom(0);
    const backoff = new LoginBackoff();
    const first = backoff.next('approle', failed('authFailed'));
    backoff.next('approle', failed('authFailed'));
    backoff.reset();
    assert.equal(backoff.next('approle', failed('authFailed')), first);
  });
});
