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
  ['a value that has a colon', `${SECRET}stringData:\n  a: b: ${CANARY}\n`, /line \d: .*needs quotes.*BLOCK_AS_/],
  ['the same key twice', `${SECRET}stringData:\n  a: ${CANARY}\n  a: ${CANARY}\n`, /line \d: .*key twice/],
  ['a tab as indentation', `${SECRET}stringData:\n\ta: ${CANARY}\n`, /line \d: invalid YAML: .*by a tab/],
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

test('if a manifest has a name or text that cannot be, the error names the field', () => {
  const errors: readonly (readonly [string, string, string?])[] = [
    ['name: on', 'metadata.name is a boolean: put it in quotes'],
    ['name: 0x1f', 'metadata.name is a number: put it in quotes'],
    ['name:', 'metadata.name is missing'],
    ['name: ""', 'metadata.name is missing'],
    ['name: [a]', 'metadata.name is not a string'],
    ['name: a, namespace: 5', 'metadata.namespace is a number: put it in quotes'],
    ['name: a, labels: {b: yes}', 'metadata.labels.b is a boolean: put it in quotes'],
    ['name: a, annotations: {b: 5}', 'metadata.annotations.b is a number: put it in quotes'],
    ['generateName: x-', 'metadata.name is missing; generateName is not supported, as in kubectl apply'],
    ['name: ../../x', 'metadata.name: "../../x" is not a valid object name'],
    ['name: a/b', 'metadata.name: "a/b" is not a valid object name', 'Role'],
    [
      'name: a.b',
      'metadata.name: "a.b" is not a valid namespace name: use lower case letters, digits and -',
      'Namespace',
    ],
    [
      'name: a, namespace: A/B',
      'metadata.namespace: "A/B" is not a valid namespace name: use lower case letters, digits and -',
    ],
  ];
  for (const [metadata, message, kind = 'Secret'] of errors) {
    assert.throws(() => parseManifests(`apiVersion: v1\nkind: ${kind}\nmetadata: {${metadata}}\n`, 'm.yaml'), {
      message: `m.yaml, document 1: ${message}`,
    });
  }
  const role = 'apiVersion: v1\nkind: ClusterRole\nmetadata: {name: "system:node"}\n';
  assert.equal(parseManifests(role, 'm.yaml')[0]?.metadata.name, 'system:node');
});
