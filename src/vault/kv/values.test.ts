import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { format, inspect } from 'node:util';

import * as fc from 'fast-check';

import { SecretBytes } from '../../runtime/secret-bytes.ts';
import { canonicalJson, isJsonObject, JsonNumber, parseJson } from '../json.ts';
import { invalidSecretKeys, toSecretData, toVaultValues, ValueConversionError, VaultValues } from './values.ts';

function fromJson(text: string): VaultValues {
  const value = parseJson(text);
  assert.ok(isJsonObject(value));
  return VaultValues.fromJson(value);
}

function asText(values: VaultValues): Record<string, string> {
  return Object.fromEntries([...toSecretData(values)].map(([key, value]) => [key, value.utf8()]));
}

const tricky = [
  'password',
  'deadbeef',
  'test',
  'abcd1234',
  '',
  '\uFEFFbom',
  '🔑',
  '-----BEGIN X-----\nAA==\n',
  'x'.repeat(100_000),
];

describe('values', () => {
  it('any text that is written to Vault in plain encoding is read back unchanged', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const sent = toVaultValues(new Map([['k', SecretBytes.fromUtf8(text)]]));
        const back = toSecretData(fromJson(sent.toCanonicalJson()));
        assert.equal(sent.get('k'), text);
        assert.equal(back.get('k')?.utf8(), text);
      }),
      { examples: tricky.map((text) => [text]), numRuns: 500 },
    );
  });

  it('any bytes that are written to Vault in base64 are read back unchanged', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        const sent = toVaultValues(new Map([['k', SecretBytes.fromBytes(bytes)]]), 'base64');
        assert.equal(sent.get('k'), Buffer.from(bytes).toString('base64'));
        assert.deepEqual(new Uint8Array(toSecretData(sent, 'base64').get('k')?.bytes() ?? []), bytes);
      }),
    );
  });

  it('a value of Vault that is no string becomes its JSON text, and numbers keep all digits', () => {
    const json =
      '{"i":42,"big":9007199254740993123,"price":1.10,"huge":1e400,"t":true,"n":null,"o":{"b":[1,2],"a":"<&>"},"l":[]}';
    assert.deepEqual(asText(fromJson(json)), {
      i: '42',
      big: '9007199254740993123',
      price: '1.10',
      huge: '1e400',
      t: 'true',
      n: 'null',
      o: '{"a":"<&>","b":[1,2]}',
      l: '[]',
    });
    assert.equal(toSecretData(fromJson('{"i":42}'), 'base64').get('i')?.utf8(), '42');
  });

  it('values of Vault keep keys that are special in JavaScript: __proto__, constructor', () => {
    const values = fromJson('{"__proto__":"a","constructor":"b"}');
    assert.deepEqual([...toSecretData(values).keys()], ['__proto__', 'constructor']);
    assert.equal(values.toCanonicalJson(), '{"__proto__":"a","constructor":"b"}');
  });

  it('if values cannot be converted, the error names their keys and quotes none of the values', () => {
    const data = new Map([
      ['good', SecretBytes.fromUtf8('x')],
      ['bin', SecretBytes.fromBytes(Buffer.from('secret\xFF', 'latin1'))],
    ]);
    assert.throws(
      () => toVaultValues(data),
      (error) =>
        error instanceof ValueConversionError && error.keys.join() === 'bin' && !error.message.includes('secret'),
    );
    assert.throws(
      () => toSecretData(new VaultValues([['k', 'hellothere!']]), 'base64'),
      (error) => error instanceof ValueConversionError && error.keys.join() === 'k' && !error.message.includes('hello'),
    );
    assert.throws(() => toSecretData(new VaultValues([['k', '\uD83D']])), ValueConversionError);
  });

  it('VaultValues are equal only if their JSON is equal, in any order of the keys', () => {
    assert.ok(fromJson('{"a":{"x":1,"y":2},"b":"1"}').equals(fromJson('{"b":"1","a":{"y":2,"x":1}}')));
    assert.ok(!fromJson('{"a":1}').equals(fromJson('{"a":"1"}')));
    assert.ok(!fromJson('{"a":1}').equals(fromJson('{"a":1,"b":1}')));
    assert.ok(!fromJson('{"a":9007199254740993}').equals(fromJson('{"a":9007199254740992}')));
  });

  it('if VaultValues are printed, only the number of their keys appears: String(), JSON, util.inspect', () => {
    const values = fromJson('{"k":"hunter2"}');
    for (const text of [
      inspect(values),
      inspect({ values }, { showHidden: true }),
      JSON.stringify(values),
      format('%s %j %o', values, values, values),
      values.toString(),
    ]) {
      assert.ok(!text.includes('hunter2') && text.includes('[VaultValues 1 keys]'), text);
    }
  });

  it('invalidSecretKeys returns the keys that Kubernetes does not allow in a Secret', () => {
    const good = ['a', 'A.b_c-1', '.x', '...x'.slice(2), 'a'.repeat(253), '__proto__'];
    const bad = ['', 'a/b', '.', '..', '..a', 'a b', 'ä', 'a\n', 'a'.repeat(254)];
    assert.deepEqual(invalidSecretKeys([...good, ...bad]), bad);
  });
});

describe('canonicalJson', () => {
  it('the text of canonicalJson does not change if it is parsed and written again, and has the same value', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = canonicalJson(parseJson(JSON.stringify(value)));
        assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(value)));
        assert.equal(canonicalJson(parseJson(text)), text);
      }),
    );
    assert.equal(canonicalJson(new JsonNumber('1.0')), '1.0');
  });
});
