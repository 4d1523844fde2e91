/** Manifests are read as kubectl reads them, and the error for a mistake names the field. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { assertNoCanaries, makeCanary } from '../../../test/support/canary.ts';
import { ManifestError, parseManifests } from './manifests.ts';

/** Reads the field `value` of a manifest. @param text the YAML of its value */
function read(text: string): unknown {
  const [manifest] = parseManifests(`apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nvalue: ${text}\n`, 'm.yaml');
  return manifest?.object['value'];
}

test('plan reads YAML 1.1 as kubectl does: on is true, 017 is 15, and e1, times and 1:20 are texts', () => {
  const texts = ['e1', '1e999', '1234e567', '2001-01-01', '1:20', '1.2.3', 'off-site'];
  for (const text of texts) assert.equal(read(text), text);
  const values: readonly (readonly [string, unknown])[] = [
    ['.5', 0.5],
    ['1_000', 1000],
    ['0x1f', 31],
    ['017', 15],
    ['on', true],
    ['No', false],
    ['~', null],
    ['!!str 5', '5'],
    ['"5"', '5'],
  ];
  for (const [text, value] of values) assert.equal(read(text), value, text);
});

const CANARY = makeCanary('manifest');
const SECRET = 'apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: home}\n';
const MISTAKES: readonly (readonly [title: string, text: string, message: RegExp])[] = [
  ['too many aliases', `${SECRET}x: &a [1]\ny: [${'*a, '.repeat(2000)}]\n`, /document 1: .*aliases/],
  ['an alias without an anchor', `${SECRET}stringData:\n  password: *${CANARY}\n`, /document 1: .*alias/],
  ['a merge of a text', `${SECRET}stringData:\n  <<: ${CANARY}\n`, /document 1: .*merge/],
  ['a value that has a colon', `${SECRET}stringData:\n  a: b: ${CANARY}\n`, /line \d: invalid YAML \(BLOCK_AS_/],
  [
    'the same key twice',
    `${SECRET}stringData:\n  a: ${CANARY}\n  a: ${CANARY}\n`,
    /line \d: invalid YAML \(DUPLICATE_KEY/,
  ],
  ['a tab as indentation', `${SECRET}stringData:\n\ta: ${CANARY}\n`, /line \d: invalid YAML/],
  ['a mistake in JSON', `{"kind": "Secret", "stringData": {"a": "${CANARY}" "b"}}`, /invalid YAML/],
  ['an unknown tag', `${SECRET}stringData: !!js/function "${CANARY}"\n`, /./],
  ['only a text in it', CANARY, /must be an object/],
  ['a list as metadata', 'apiVersion: v1\nkind: Secret\nmetadata: [1]\n', /metadata\.name/],
  ['no apiVersion', `a: b\n---\nkind: Secret\n`, /document 1: apiVersion is missing/],
  ['no name in the second document', `${SECRET}---\napiVersion: v1\nkind: Secret\n`, /document 2: metadata\.name is m/],
];
for (const [title, text, expected] of MISTAKES)
  test(`a manifest with ${title} is refused, and the error names the place and no value`, () => {
    assert.throws(
      () => parseManifests(text, 'm.yaml'),
      (error) => {
        assert.ok(error instanceof ManifestError);
        assert.match(error.message, expected);
        assertNoCanaries({ message: error.message }, { value: CANARY });
        return true;
      },
    );
  });

test('names and namespaces must be texts that are one part of a path; the API server checks the rest', () => {
  const parsed = (metadata: string) =>
    parseManifests(`apiVersion: v1\nkind: Secret\nmetadata: {${metadata}}\n`, 'm.yaml');
  const wrong = ['on', '0x1f', '', '""', '[a]', '.', '..', '../../x', 'a/b', 'a%2Fb'];
  for (const [field, texts] of [
    ['name', wrong],
    ['namespace', wrong.filter((text) => text !== '' && text !== '""')],
  ] as const) {
    for (const text of texts)
      assert.throws(() => parsed(field === 'name' ? `name: ${text}` : `name: a, namespace: ${text}`), {
        message: `m.yaml, document 1: metadata.${field} is missing, is no text, or cannot be a name`,
      });
  }
  for (const namespace of ['', '""', 'null'])
    assert.deepEqual(parsed(`name: a, namespace: ${namespace}`)[0]?.metadata, { name: 'a' });
  assert.deepEqual(parsed('name: "system:a b?#", namespace: NS')[0]?.metadata, {
    name: 'system:a b?#',
    namespace: 'NS',
  });
});
