/** Manifests are read as kubectl reads them, and the error for a mistake names the field. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { parseManifests } from './manifests.ts';

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

test('if a manifest has a number or boolean where a text is needed, the error advises to put it in quotes', () => {
  const errors: readonly (readonly [string, string])[] = [
    ['name: on', 'metadata.name is a boolean: put it in quotes'],
    ['name: 0x1f', 'metadata.name is a number: put it in quotes'],
    ['name:', 'metadata.name is missing'],
    ['name: ""', 'metadata.name is missing'],
    ['name: [a]', 'metadata.name is not a string'],
    ['name: a, namespace: 5', 'metadata.namespace is a number: put it in quotes'],
    ['name: a, labels: {b: yes}', 'metadata.labels.b is a boolean: put it in quotes'],
  ];
  for (const [metadata, message] of errors) {
    assert.throws(() => parseManifests(`apiVersion: v1\nkind: Secret\nmetadata: {${metadata}}\n`, 'm.yaml'), {
      message: `m.yaml, document 1: ${message}`,
    });
  }
});
