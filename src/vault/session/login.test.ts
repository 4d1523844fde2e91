import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { VaultError, type VaultErrorKind } from '../errors.ts';
import { LoginBackoff } from './login.ts';

const MINUTE = 60_000;
const failed = (kind: VaultErrorKind): VaultError => new VaultError('x', { kind, addr: 'https://v' });

describe('LoginBackoff', () => {
  it('LoginBackoff never causes a fifth refusal of an AppRole within 15 minutes', () => {
    for (const random of [0, 0.5, 0.999]) {
      const backoff = new LoginBackoff(() => random);
      let now = 0;
      let row = 0;
      let last = -Infinity;
      for (let attempt = 0; attempt < 50; attempt++) {
        // Vault counts so: refusals add up until 15 minutes pass without one.
        row = now - last > 15 * MINUTE ? 1 : row + 1;
        assert.ok(row < 5, `refusal ${row} in a row at minute ${now / MINUTE}`);
        last = now;
        now += backoff.next('approle', failed('authFailed'));
      }
    }
  });

  it('LoginBackoff waits seconds to minutes after other failures', () => {
    const backoff = new LoginBackoff(() => 0.999);
    const waits = (method: 'approle' | 'kubernetes', kind: VaultErrorKind): number[] =>
      Array.from({ length: 10 }, () => Math.round(backoff.next(method, failed(kind)) / 1_000));
    assert.deepEqual(waits('approle', 'connection'), [1, 2, 4, 5, 5, 5, 5, 5, 5, 5]);
    assert.deepEqual(waits('kubernetes', 'authFailed').slice(0, 4), [5, 10, 20, 40]);
    assert.equal(waits('approle', 'invalidPath').at(-1), 300);
  });

  it('LoginBackoff starts over after a login', () => {
    const backoff = new LoginBackoff(() => 0);
    const first = backoff.next('approle', failed('authFailed'));
    backoff.next('approle', failed('authFailed'));
    backoff.reset();
    assert.equal(backoff.next('approle', failed('authFailed')), first);
  });
});
