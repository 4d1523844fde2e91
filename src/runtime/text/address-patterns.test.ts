import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { parseAddressPattern } from './address-patterns.ts';

const matches = (pattern: string, url: string): boolean => parseAddressPattern(pattern).matches(new URL(url));

describe('a pattern of servers', () => {
  it('an address pattern matches URLs with its host, and with its scheme and port if it has them', () => {
    for (const [pattern, url, expected] of [
      ['https://vault.example:8200', 'https://vault.example:8200/', true],
      ['https://vault.example:8200', 'http://vault.example:8200/', false],
      ['https://vault.example:8200/', 'https://vault.example:8201/', false],
      ['https://vault.example:443', 'https://vault.example', true],
      ['vault.example', 'http://VAULT.example.:1', true],
      ['vault.example', 'https://vault.example.evil.example', false],
      ['vault.example', 'https://evil-vault.example', false],
      ['*.vault.svc', 'https://a.b.vault.svc:8200', true],
      ['*.vault.svc', 'https://vault.svc', false],
      ['vault-*:8200', 'http://vault-1:8200', true],
      ['vault-*:8200', 'http://vault-1:8201', false],
      ['*', 'https://anything', true],
      ['127.0.0.1', 'http://2130706433:8200', true],
      ['[::1]:8200', 'http://[0:0::1]:8200', true],
      ['10.0.0.*', 'http://10.0.0.7', true],
      ['v.example', 'http://vaexample', false],
    ] as const) {
      assert.equal(matches(pattern, url), expected, `${pattern} ${url}`);
    }
  });

  it('an address pattern with a path, a user, a bad scheme or a port above 65535 is refused', () => {
    for (const bad of ['', 'ftp://x', 'https://', 'https://u:p@x', 'https://x/path', 'a b', 'x:99999999', '[::1']) {
      assert.throws(() => parseAddressPattern(bad), RangeError, bad);
    }
  });
});
