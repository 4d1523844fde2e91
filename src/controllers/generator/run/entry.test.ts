import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type JsonObject, type JsonValue, parseJson } from '../../../vault/json.ts';
import { type KvEntry, MISSING } from '../../../vault/kv/answers.ts';
import { VaultValues } from '../../../vault/kv/values.ts';
import { decideEntry, findProperty } from './entry.ts';
import type { Decoding } from '../request/settings.ts';
import type { WantedValue } from '../request/requests.ts';

function wanted(index: number, property: string, decoding: Decoding = 'None'): WantedValue {
  const store = { kind: 'SecretStore', name: 'vault' } as const;
  return { field: `spec.data[${index}]`, store, key: 'secret/app', property, decoding };
}

function entry(values: readonly (readonly [string, JsonValue])[]): KvEntry {
  return { state: 'found', values: new VaultValues(values), version: 3 };
}

const NOT_DELETED = { whenDeleted: false };

test('values are made for properties that an entry lacks, but not for properties that it has, even if these are null or empty', () => {
  const all = [wanted(0, 'a'), wanted(1, 'b'), wanted(2, 'c')];
  assert.deepEqual(decideEntry(MISSING, all, NOT_DELETED), { make: all, nested: [], problems: [] });
  const [, b] = all;
  const partly = entry([
    ['a', 'value'],
    ['c', null],
    ['other', 1],
  ]);
  assert.deepEqual(decideEntry(partly, all, NOT_DELETED), { make: [b], nested: [], problems: [] });
  const whole = entry(['a', 'b', 'c'].map((key) => [key, '']));
  assert.deepEqual(decideEntry(whole, all, NOT_DELETED).make, []);
});

test('two items that read the same missing property get one common value', () => {
  const same = [wanted(0, 'a', 'Base64'), wanted(1, 'a', 'Base64'), wanted(2, 'b')];
  const { make, problems } = decideEntry(MISSING, same, NOT_DELETED);
  assert.deepEqual(make, [same[0], same[2]]);
  assert.deepEqual(problems, []);
});

test('if two items read the same missing property with different decoding strategies, a problem names both, and the entry gets no value', () => {
  const different = [wanted(0, 'a'), wanted(1, 'a', 'Base64'), wanted(2, 'b')];
  const { make, problems } = decideEntry(MISSING, different, NOT_DELETED);
  assert.deepEqual(make, []);
  assert.deepEqual(
    problems.map(({ reason, field }) => [reason, field]),
    [['NotMade', 'spec.data[1].remoteRef.decodingStrategy']],
  );
  assert.match(problems[0]?.message ?? '', /spec\.data\[0\]/);
  // If the value exists, two items may read it with different strategies.
  assert.deepEqual(decideEntry(entry([['a', 'x']]), different.slice(0, 2), NOT_DELETED).problems, []);
});

test('no value is made for a property that ESO finds inside another property; the other missing values are made', () => {
  const all = [wanted(0, 'a.b'), wanted(1, 'c')];
  const nested = decideEntry(entry([['a', { b: 1 }]]), all, NOT_DELETED);
  assert.deepEqual(nested, { make: [all[1]], nested: [all[0]], problems: [] });
});

test('if one item reads a gjson expression, this is a problem, and the whole entry gets no value', () => {
  for (const current of [MISSING, entry([['x', 1]])]) {
    const { make, problems } = decideEntry(current, [wanted(0, 'a.#'), wanted(1, 'c')], NOT_DELETED);
    assert.deepEqual(make, []);
    assert.deepEqual(
      problems.map(({ reason, field }) => [reason, field]),
      [['NotMade', 'spec.data[0].remoteRef.property']],
    );
  }
});

test('if an entry is deleted or destroyed, each of its items is a problem; with generate-when-deleted, each gets a value', () => {
  const all = [wanted(0, 'a'), wanted(1, 'b')];
  for (const state of ['deleted', 'destroyed'] as const) {
    const { make, problems } = decideEntry({ state, version: 2 }, all, NOT_DELETED);
    assert.deepEqual(make, []);
    assert.deepEqual(
      problems.map(({ reason, field }) => [reason, field]),
      [
        ['Deleted', 'spec.data[0]'],
        ['Deleted', 'spec.data[1]'],
      ],
    );
    assert.match(problems[0]?.message ?? '', new RegExp(`is ${state}; .*keyferry\\.dev/generate-when-deleted: "true"`));
    assert.deepEqual(decideEntry({ state, version: 2 }, all, { whenDeleted: true }).make, all);
  }
});

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
