import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Content, joinKeys, splitKeys } from './content.ts';
import { CONFIG_MAP, isForbiddenType, type Kind, SECRET } from './kind.ts';

const base64 = (text: string): string => Buffer.from(text).toString('base64');
const key = fc.stringMatching(/^[-._a-zA-Z0-9]{1,20}$/);

test('property: all values are written as they were read; equal data has the same digest in any order of keys', () => {
  fc.assert(
    fc.property(fc.dictionary(key, fc.string({ unit: 'grapheme' }), { noNullPrototype: true }), (values) => {
      const data = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, base64(value)]));
      const content = Content.ofObject(SECRET, { data, type: 'Opaque' }, '1');
      const [piece] = content.pieces;
      assert.deepEqual({ ...(JSON.parse(piece?.json.utf8() ?? '') as object) }, data);
      const shuffled = Object.fromEntries(Object.entries(data).reverse());
      assert.equal(
        Content.ofObject(SECRET, { data: shuffled, type: 'other' }, '2').fingerprint.digest,
        content.fingerprint.digest,
      );
      const read = Object.fromEntries([...content.values(SECRET)].map(([name, bytes]) => [name, bytes.utf8()]));
      assert.deepEqual(read, values);
      assert.equal(content.names.size, Object.keys(values).length);
    }),
  );
});

test('different data has different digests', () => {
  const digest = (data: Record<string, string>) => Content.ofObject(SECRET, { data }, '1').fingerprint.digest;
  const all = [{}, { a: '' }, { a: 'eA==' }, { b: 'eA==' }, { a: 'eA==', b: '' }].map(digest);
  assert.equal(new Set(all).size, all.length);
});

test('the content of a ConfigMap has text and binary data; without binaryData the content has none', () => {
  const content = Content.ofObject(CONFIG_MAP, { data: { a: 'plain' }, binaryData: { b: '/w==' } }, '1');
  assert.deepEqual(
    content.pieces.map(({ field, json }) => [field, json.utf8()]),
    [
      ['data', '{"a":"plain"}'],
      ['binaryData', '{"b":"/w=="}'],
    ],
  );
  assert.equal(content.fingerprint.keys, 'a,b');
  assert.equal(content.type, '');
  assert.deepEqual(
    Content.ofObject(CONFIG_MAP, {}, '1').pieces.map(({ field }) => field),
    ['data'],
  );
});

test('a data key with the name __proto__ is copied like any other key', () => {
  const data = JSON.parse('{"__proto__":"eA=="}') as Record<string, string>;
  assert.equal(Content.ofFields(SECRET, { data }, '', '1').pieces[0]?.json.utf8(), '{"__proto__":"eA=="}');
});

const MANIFEST: Kind = {
  ...SECRET,
  kind: 'SecretManifest',
  overlay: 'stringData',
  defaultType: 'Opaque',
  isCustom: true,
};

test('in a custom resource stringData replaces values of data, as the API server does it in a Secret', () => {
  const cases: readonly [string, Record<string, unknown>, Record<string, string>][] = [
    ['none', {}, {}],
    ['only data', { data: { a: 'eA==' } }, { a: 'eA==' }],
    ['only texts', { stringData: { a: 'x' } }, { a: 'eA==' }],
    ['both, with one key in common', { data: { a: 'eQ==', b: '' }, stringData: { a: 'x' } }, { a: 'eA==', b: '' }],
    ['base64 with stray bits', { data: { a: 'eB==' } }, { a: 'eA==' }],
    ['base64 with line breaks', { data: { a: 'eHh4\neHh4' } }, { a: 'eHh4eHh4' }],
    ['an empty text over a value', { data: { a: 'eA==' }, stringData: { a: '' } }, { a: '' }],
    ['any key', { stringData: { 'a\nb,c/d': 'x' } }, { 'a\nb,c/d': 'eA==' }],
    ['null', { data: null, stringData: null }, {}],
  ];
  for (const [name, object, data] of cases) {
    const content = Content.ofObject(MANIFEST, object, '1');
    const expected = Content.ofObject(SECRET, { data }, '1');
    assert.equal(content.fingerprint.digest, expected.fingerprint.digest, name);
    assert.equal(content.pieces[0]?.json.utf8(), expected.pieces[0]?.json.utf8(), name);
    assert.deepEqual(
      [content.fingerprint.keys, content.names.size],
      [expected.fingerprint.keys, expected.names.size],
      name,
    );
  }
  const [piece] = Content.ofObject(
    MANIFEST,
    JSON.parse('{"stringData":{"__proto__":"x"}}') as object as Record<string, unknown>,
    '1',
  ).pieces;
  assert.equal(piece?.json.utf8(), '{"__proto__":"eA=="}');
});

test('if an object has no type, its content has the default type of its kind', () => {
  for (const type of [undefined, '', null]) assert.equal(Content.ofObject(MANIFEST, { type }, '1').type, 'Opaque');
  assert.equal(Content.ofObject(MANIFEST, { type: 'kubernetes.io/tls' }, '1').type, 'kubernetes.io/tls');
  assert.equal(Content.ofObject(SECRET, {}, '1').type, '');
});

test('if only version or type of a content change, its keys and digest stay the same', () => {
  const keys = Array.from({ length: 500 }, (_, index) => `key-${index}`);
  const content = Content.ofObject(SECRET, { data: Object.fromEntries(keys.map((one) => [one, ''])) }, '1');
  const other = content.withVersion('2', 'other');
  assert.deepEqual(
    [other.fingerprint.keys, other.names.size, other.fingerprint.digest],
    [content.fingerprint.keys, 500, content.fingerprint.digest],
  );
});

test('no text form of a content shows a secret value: util.inspect, JSON, String()', () => {
  const content = Content.ofObject(SECRET, { data: { password: base64('hunter2-hunter2') } }, '1');
  for (const text of [inspect(content, { depth: 9 }), JSON.stringify(content), String(content.pieces[0]?.json)]) {
    assert.doesNotMatch(text, /hunter2|aHVudGVyMi/);
  }
});

test('the minimal content of a Secret has the keys that its type requires; Secrets of some types are never created', () => {
  const keys = (type: string) => Object.keys(SECRET.minimal(type)['data'] ?? {});
  assert.deepEqual(keys('Opaque'), []);
  assert.deepEqual(keys('kubernetes.io/tls'), ['tls.crt', 'tls.key']);
  assert.deepEqual(keys('kubernetes.io/ssh-auth'), ['ssh-privatekey']);
  assert.deepEqual(keys('kubernetes.io/dockercfg'), ['.dockercfg']);
  const passwords = [0, 1].map(() => SECRET.minimal('kubernetes.io/basic-auth')['data']?.['password'] ?? '');
  assert.notEqual(passwords[0], passwords[1]);
  assert.ok(Buffer.from(passwords[0] ?? '', 'base64').length >= 100);
  assert.ok(isForbiddenType('kubernetes.io/service-account-token') && isForbiddenType('bootstrap.kubernetes.io/token'));
  assert.ok(!isForbiddenType('Opaque'));
});

test('joinKeys gives different texts for different lists of data keys, whatever characters the keys have', () => {
  const lists = [['a,b'], ['a', 'b'], ['["a', 'b"]'], ['a\nb'], ['a,b', ''], [''], [], ['__proto__'], ['a/b']];
  assert.equal(new Set(lists.map((list) => joinKeys(list))).size, lists.length);
});

test('joinKeys gives the same text for the same data keys in any order', () => {
  assert.equal(joinKeys(['b', 'a']), joinKeys(['a', 'b']));
});

test('joinKeys gives a digest of less than 100 characters for thousands of data keys', () => {
  const keys = Array.from({ length: 4000 }, (_, index) => `key-${index}-${'x'.repeat(200)}`);
  assert.ok(joinKeys(keys).length < 100);
  assert.equal(joinKeys(keys), joinKeys(keys.toReversed()));
  assert.notEqual(joinKeys(keys), joinKeys(keys.slice(1)));
});

test('property: a merged content has the keys of the upper one, and of the lower one those that the upper one lacks', () => {
  const values = fc.dictionary(key, fc.string({ unit: 'grapheme' }), { noNullPrototype: true });
  const mapOf = (data: Record<string, string>, isBinary: boolean): Content => {
    const fields = isBinary ? { binaryData: data } : { data };
    return Content.ofFields(CONFIG_MAP, fields, '', '1');
  };
  fc.assert(
    fc.property(values, values, fc.boolean(), fc.boolean(), (lower, upper, lowerIsBinary, upperIsBinary) => {
      const [below, above] = [mapOf(lower, lowerIsBinary), mapOf(upper, upperIsBinary)];
      const merged = Content.merged(CONFIG_MAP, below, above, '');
      const found = merged.pieces.flatMap(({ json }) => Object.entries(JSON.parse(json.utf8()) as object));
      assert.deepEqual(Object.fromEntries(found), { ...lower, ...upper });
      assert.equal(found.length, merged.names.size, 'a key stands in one field');
      assert.equal(merged.digestOf([...above.names]), above.fingerprint.digest);
      assert.equal(merged.without(above.names).fingerprint.digest, below.without(above.names).fingerprint.digest);
      assert.deepEqual(new Set(splitKeys(merged.fingerprint.keys)), merged.names);
    }),
  );
});

test('keys whose text is too long are a digest, which cannot be split', () => {
  const keys = Array.from({ length: 400 }, (_, index) => `key-${'x'.repeat(50)}-${index}`);
  assert.equal(splitKeys(joinKeys(keys)), undefined);
  assert.deepEqual(splitKeys(joinKeys([])), []);
});
