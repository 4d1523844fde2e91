import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { isVaultError } from '../errors.ts';
import { encodePath, normalizePath, VaultPathError } from '../path.ts';
import { parseServer, type VaultServerOptions } from './server.ts';

function refusal(options: VaultServerOptions): string {
  try {
    parseServer(options);
  } catch (error) {
    assert.ok(isVaultError(error, 'invalidServer'));
    return error.message;
  }
  return assert.fail('it was taken');
}

describe('parseServer', () => {
  it('takes http and https addresses, with a path or without', () => {
    assert.equal(parseServer({ addr: 'https://v.example:8200' }).origin, 'https://v.example:8200');
    assert.equal(parseServer({ addr: ' https://v.example/vault/v1/ ' }).url.pathname, '/vault');
    assert.equal(parseServer({ addr: 'http://[::1]:8200', namespace: '/team/a/' }).namespace, 'team/a');
  });

  it('names field and value in its errors, but no password', () => {
    assert.match(refusal({ addr: 'vault.example:8200' }), /vault\.example:8200.*addr must be a URL/);
    assert.match(refusal({ addr: 'ftp://x' }), /addr/);
    assert.match(refusal({ addr: '' }), /addr/);
    assert.match(refusal({ addr: 'https://v.example?x=1' }), /query/);
    for (const addr of ['https://me:hunter2@v.example', 'me:hunter2@v.example']) {
      assert.doesNotMatch(refusal({ addr }), /hunter2/);
    }
    assert.match(refusal({ addr: 'https://v', namespace: 'a\nb' }), /namespace "a\\nb"/);
    assert.match(refusal({ addr: 'https://v', caBundle: 'nonsense' }), /caBundle holds no PEM/);
    const broken = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----';
    assert.match(
      refusal({ addr: 'https://v', caBundle: broken }),
      /caBundle holds a certificate that cannot be read: number 1/,
    );
  });

  it('shares connections by server and TLS settings, not by namespace', () => {
    const key = (options: Omit<VaultServerOptions, 'addr'>): string =>
      parseServer({ addr: 'https://v', ...options }).connectionKey;
    assert.equal(key({}), key({ namespace: 'a' }));
    assert.notEqual(key({}), key({ tlsServerName: 'a' }));
    assert.notEqual(key({}), key({ insecureSkipVerify: true }));
  });
});

describe('normalizePath', () => {
  it('drops redundant slashes', () => {
    assert.equal(normalizePath('//secret/data//app/'), 'secret/data/app');
  });

  it('refuses paths that Vault would resolve to another path', () => {
    for (const path of ['', '/', 'secret/../sys', './x', 'a\nb', 'a\uD83D']) {
      assert.throws(() => normalizePath(path), VaultPathError, path);
    }
  });

  it('encodes everything but slashes', () => {
    assert.equal(encodePath('secret/data/a b?c#d%'), 'secret/data/a%20b%3Fc%23d%25');
  });
});
