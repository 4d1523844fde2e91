/** Manifests are read as kubectl reads them, and the error for a mistake names the field. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { parseManifests } from './manifests.ts';

const KINDS = new Set(['Secret', 'Namespace', 'SecretMirror']);

/** Reads the field `value` of a manifest. @param text the YAML of its value */
function read(text: string): unknown {
  const [manifest] = parseManifests(
    `apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nvalue: ${text}\n`,
    'm.yaml',
    KINDS,
  );
  return manifest?.object['value'];
}

test('plan reads YAML numbers and booleans as kubectl does: e1 is a text, and on is true', () => {
  // What sigs.k8s.io/yaml, which kubectl uses, makes of these texts.
  const texts = [
    'e1',
    'e10',
    'E5',
    '-e1',
    '.e1',
    '1e',
    '1e999',
    '1234e567',
    '-.',
    '.',
    '+',
    '2001-01-01',
    '1:20',
    '0b12',
    '0xg',
    '1.2.3',
    'off-site',
  ];
  for (const text of texts) assert.equal(read(text), text);
  const values: readonly (readonly [string, unknown])[] = [
    ['1e1', 10],
    ['1E+2', 100],
    ['-1.5e1', -15],
    ['.5', 0.5],
    ['-.5', -0.5],
    ['1.', 1],
    ['1_000', 1000],
    ['1_0.5', 10.5],
    ['0x1f', 31],
    ['0X1F', 31],
    ['-0x1f', -31],
    ['0b11', 3],
    ['0o17', 15],
    ['017', 15],
    ['08', 8],
    ['on', true],
    ['No', false],
    ['y', true],
    ['~', null],
    ['.inf', Number.POSITIVE_INFINITY],
    ['!!float 5', 5],
    ['!!str 5', '5'],
    ['"5"', '5'],
  ];
  for (const [text, value] of values) assert.equal(read(text), value, text);
});

test('if a manifest has a number or boolean where a text is needed, the error advises to put it in quotes', () => {
  const errors: readonly (readonly [string, string])[] = [
    ['name: 1e1', 'metadata.name is a number: put it in quotes'],
    ['name: on', 'metadata.name is a boolean: put it in quotes'],
    ['name: 0x1f', 'metadata.name is a number: put it in quotes'],
    ['name:', 'metadata.name is missing'],
    ['name: ""', 'metadata.name is missing'],
    ['name: [a]', 'metadata.name is not a string'],
    ['name: a, namespace: 5', 'metadata.namespace is a number: put it in quotes'],
    ['name: a, labels: {b: yes}', 'metadata.labels.b is a boolean: put it in quotes'],
  ];
  for (const [metadata, message] of errors) {
    assert.throws(() => parseManifests(`apiVersion: v1\nkind: Secret\nmetadata: {${metadata}}\n`, 'm.yaml', KINDS), {
      message: `m.yaml, document 1: ${message}`,
    });
  }
});
