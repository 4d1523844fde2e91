import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { isVaultError } from '../errors.ts';
import { encodePath, normalizePath, VaultPathError } from '../path.ts';
import { parseServer, type VaultServerOptions, VaultAddresses } from './server.ts';
import { parseAddressPattern } from '../../runtime/text/address-patterns.ts';

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
  it('parseServer accepts http and https addresses, with a path or without', () => {
    assert.equal(parseServer({ addr: 'https://v.example:8200' }).origin, 'https://v.example:8200');
    assert.equal(parseServer({ addr: ' https://v.example/vault/v1/ ' }).url.pathname, '/vault');
    assert.equal(parseServer({ addr: 'http://[::1]:8200', namespace: '/team/a/' }).namespace, 'team/a');
  });

  it('if a setting is invalid, the error of parseServer names the field and its value, but never a password', () => {
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

  it('parseServer gives the same connectionKey for two namespaces, and different keys for different TLS settings', () => {
    const key = (options: Omit<VaultServerOptions, 'addr'>): string =>
      parseServer({ addr: 'https://v', ...options }).connectionKey;
    assert.equal(key({}), key({ namespace: 'a' }));
    assert.notEqual(key({}), key({ tlsServerName: 'a' }));
    assert.notEqual(key({}), key({ insecureSkipVerify: true }));
  });
});

describe('normalizePath', () => {
  it('normalizePath removes leading, trailing and doubled slashes', () => {
    assert.equal(normalizePath('//secret/data//app/'), 'secret/data/app');
  });

  it('normalizePath refuses a path that is empty or has a dot segment, a control character or a lone surrogate', () => {
    for (const path of ['', '/', 'secret/../sys', './x', 'a\nb', 'a\uD83D']) {
      assert.throws(() => normalizePath(path), VaultPathError, path);
    }
  });

  it('encodePath percent-encodes all special characters of a path except slashes', () => {
    assert.equal(encodePath('secret/data/a b?c#d%'), 'secret/data/a%20b%3Fc%23d%25');
  });
});

const named = (...patterns: string[]): VaultAddresses => new VaultAddresses(patterns.map(parseAddressPattern));

describe('addresses of Vaults', () => {
  it('Vault addresses that are link-local or belong to metadata services are refused in every notation', () => {
    const none = named();
    for (const host of [
      '169.254.169.254',
      '169.254.0.1',
      '2852039166',
      '0xa9fea9fe',
      '0xA9.0xFE.0xA9.0xFE',
      '0251.0376.0251.0376',
      '169.254.43518',
      '[fe80::1]',
      '[febf::1]',
      '[::ffff:169.254.169.254]',
      '[::ffff:a9fe:a9fe]',
      '[::169.254.169.254]',
      '[64:ff9b::169.254.169.254]',
      '[2002:a9fe:a9fe::1]',
      '[fd00:ec2::254]',
      '[fd00:0ec2:0:0::0254]',
      '100.100.100.200',
      '168.63.129.16',
    ]) {
      assert.match(none.problem(new URL(`http://${host}:80`)) ?? '', /link-local or metadata/, host);
    }
    for (const host of ['127.0.0.1', '[::1]', '10.0.0.1', 'vault.example', '169.253.1.1', '[fd00::1]', '1.169.254.2']) {
      assert.equal(none.problem(new URL(`http://${host}`)), undefined, host);
    }
  });

  it('if --vault-addresses is set, only matching Vaults are allowed; a metadata address needs a pattern without *', () => {
    const url = new URL('http://169.254.169.254');
    assert.equal(named('169.254.169.254').problem(url), undefined);
    assert.match(named('*').problem(url) ?? '', /link-local/);
    assert.match(named('169.254.*').problem(url) ?? '', /link-local/);
    assert.match(named('vault.example').problem(new URL('http://other')) ?? '', /--vault-addresses/);
    assert.ok(!named().isNamed(url) && named('*').isNamed(url));
  });

  it('if the host name of a Vault resolves only to forbidden addresses, the lookup fails', async () => {
    // The "host names" here are addresses, which the system's resolver returns unchanged.
    const resolve = (addresses: VaultAddresses, host: string): Promise<unknown> => {
      const { promise, resolve: done, reject } = Promise.withResolvers<unknown>();
      addresses.lookupFor(new URL('http://name.example'))(host, { all: true }, (error, found) => {
        if (error === null) done(found);
        else reject(error);
      });
      return promise;
    };
    await assert.rejects(resolve(named(), '169.254.169.254'), /169\.254\.169\.254 resolves to .*link-local/);
    await assert.rejects(resolve(named('*.example'), '::ffff:169.254.1.1'), /link-local/);
    assert.deepEqual(await resolve(named(), '127.0.0.1'), [{ address: '127.0.0.1', family: 4 }]);
    assert.deepEqual(await resolve(named('name.example'), '169.254.1.1'), [{ address: '169.254.1.1', family: 4 }]);
  });
});
