import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseJson, type JsonObject } from '../../../vault/json.ts';
import { VaultValues } from '../../../vault/kv/values.ts';
import { findProperty } from './entry.ts';

const ENTRY = VaultValues.fromJson(
  parseJson(`{
    "a": {"b": {"c": 1}, "": 2, "n": null, "0": "zero", "x.y": 3},
    "a.b.exact": 5, "list": ["p", {"q": 1}], "text": "{\\"k\\": 1}", "number": 1.10, "nothing": null,
    "toString": {"x": 1}, "user@host": "exact", "*": "exact"
  }`) as JsonObject,
);

test('findProperty returns present, nested or absent as ESO finds the property, and unknown for gjson expressions', () => {
  // What ESO finds in this entry: first by the exact key, then by gjson 1.18.
  const cases: Readonly<Record<string, readonly string[]>> = {
    present: ['a', 'list', 'text', 'number', 'nothing', 'a.b.exact', 'toString', 'user@host', '*'],
    nested: ['a.b', 'a.b.c', 'a.n', 'a.0', 'list.0', 'list.00', 'list.1', 'list.1.q', 'toString.x'],
    absent: [
      'missing',
      'missing.x',
      'a.b.d',
      'a.x.y',
      'a..b',
      'a.toString',
      'a.constructor',
      'a/b',
      'a-b',
      'a:b',
      'list.2',
      'list.-1',
      'list.+0',
      'list.1e0',
      'list.0x0',
      'list. 0',
      'list.length',
      'list.9999999999999999',
      'text.k',
      'text.length',
      'number.x',
      'number.text',
      'nothing.x',
      'constructor',
      '__proto__',
      'a.__proto__',
    ],
    // With gjson, some of these paths have a value, and others have none.
    unknown: [
      'list.#',
      'a.*',
      'a.?',
      '@this',
      'a|b',
      'a\\.b',
      '!1',
      '{a}',
      '[a]',
      'list.#(q==1)',
      '.a',
      'a.',
      'a..',
      '"',
    ],
  };
  for (const [state, properties] of Object.entries(cases)) {
    for (const property of properties) assert.equal(findProperty(ENTRY, property), state, property);
  }
});

test('if the entry does not exist, findProperty returns absent for plain properties and unknown for gjson expressions', () => {
  for (const property of ['password', 'a.b', 'a-b_c', 'ä']) assert.equal(findProperty(undefined, property), 'absent');
  for (const property of ['a.*', 'list.#', '@this']) assert.equal(findProperty(undefined, property), 'unknown');
});
