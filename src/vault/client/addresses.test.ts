import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { parseAddressPattern } from '../../runtime/text/address-patterns.ts';
import { VaultAddresses } from './addresses.ts';

const named = (...patterns: string[]): VaultAddresses => new VaultAddresses(patterns.map(parseAddressPattern));

describe('addresses of Vaults', () => {
  it('that are link-local or of metadata services are refused in every form', () => {
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

  it('are allowed by a pattern, but metadata services not by a wildcard', () => {
    const url = new URL('http://169.254.169.254');
    assert.equal(named('169.254.169.254').problem(url), undefined);
    assert.match(named('*').problem(url) ?? '', /link-local/);
    assert.match(named('169.254.*').problem(url) ?? '', /link-local/);
    assert.match(named('vault.example').problem(new URL('http://other')) ?? '', /--vault-addresses/);
    assert.ok(!named().isNamed(url) && named('*').isNamed(url));
  });

  it('are checked again when a name is resolved', async () => {
    // The resolver of the system takes numbers as they are.
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
