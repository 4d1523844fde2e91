import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { EsoCondition } from '../api.ts';
import type { Problem, WantedValue } from '../request/requests.ts';
import {
  type EntryState,
  found,
  parseResult,
  recreating,
  type Result,
  resultOf,
  type RunOutcome,
  textOf,
  withCreated,
  withoutCreated,
  WRONG_ANNOTATION,
  wrongSetting,
} from './result.ts';

const TIME = '2026-01-02T03:04:05.678Z';

function state(path: string, version: number | undefined, made = false): EntryState {
  return { path, version, createdTime: version === undefined ? undefined : TIME, made };
}

function run(entries: readonly EntryState[], problems: readonly Problem[] = []): RunOutcome {
  return { entries, nested: [], problems };
}

const PROBLEM: Problem = { reason: 'ErrorCreating', field: 'SecretStore vault', message: 'sealed', fault: 'operator' };
const NESTED: WantedValue = {
  field: 'spec.data[0]',
  store: { kind: 'SecretStore', name: 'vault' },
  key: 'secret/app',
  property: 'a.b',
  decoding: 'None',
};

/** Writes a result as the text of the annotation, and parses the text. */
function readBack(result: Result): Result {
  const parsed = parseResult(textOf(result));
  assert.ok(parsed !== undefined);
  return parsed;
}

test('if ESO finds a new value before the result is written, the result is Success after Recreating, and else Exists', () => {
  assert.equal(found(recreating(undefined)).reason, 'Success');
  assert.equal(found(resultOf(run([], [PROBLEM]), undefined)).reason, 'Exists');
});

test('the text of a result is bounded, however long the paths are: the entries that do not fit are left out', () => {
  const entries = Array.from({ length: 200 }, (_, n) => state(`${'€'.repeat(500)}${n}`, 1, true));
  const result = resultOf(run(entries), undefined);
  assert.ok(Buffer.byteLength(textOf(result)) < 70_000);
  assert.ok(Object.keys(readBack(result).entries).length > 30);
});

test('results have the messages of the original Bash controller', () => {
  const words = ({ created, reason, message }: Result): unknown[] => [created, reason, message];
  assert.deepEqual(words(resultOf(run([state('secret/data/app', 1, true)]), undefined)), [
    true,
    'Success',
    'A random value was put into Vault.',
  ]);
  assert.deepEqual(words(resultOf(run([], [PROBLEM]), undefined)), [
    false,
    'ErrorCreating',
    'While putting the random value: SecretStore vault: sealed',
  ]);
  assert.deepEqual(words(recreating(undefined)), [
    false,
    'Recreating',
    'The Vault secret previously created cannot be found anymore, it needs to be recreated.',
  ]);
  assert.deepEqual(words(found(undefined)), [true, 'Exists', 'The external-secrets operator has found the secret.']);
  assert.deepEqual(words(wrongSetting(WRONG_ANNOTATION, undefined)), [
    false,
    'ErrorAnnotation',
    "The only accepted value for the annotation 'create' is 'true'.",
  ]);
});

test('a result has the reason of its first problem, and a message with all problems, shortened to 1,024 characters', () => {
  const deleted: Problem = { reason: 'Deleted', field: 'spec.data[1]', message: 'is deleted', fault: 'user' };
  const both = resultOf(run([], [deleted, PROBLEM]), undefined);
  assert.deepEqual([both.reason, both.message], ['Deleted', 'spec.data[1]: is deleted; SecretStore vault: sealed']);
  const many = resultOf(
    run(
      [],
      Array.from({ length: 200 }, () => PROBLEM),
    ),
    undefined,
  );
  assert.equal(many.message.length, 1024);
});

test('if ESO finds a value inside another property, the result is NestedProperty, and the next run does not change its text', () => {
  const first = resultOf({ ...run([state('secret/data/app', 1)]), nested: [NESTED] }, undefined);
  assert.deepEqual([first.created, first.reason], [true, 'NestedProperty']);
  assert.match(first.message, /^spec\.data\[0\]\.remoteRef\.property: /);
  const again = resultOf({ ...run([state('secret/data/app', 1)]), nested: [NESTED] }, readBack(first));
  assert.equal(textOf(again), textOf(first));
});

const paths = fc.uniqueArray(fc.integer({ min: 0, max: 30 }), { maxLength: 24 });
const runs: fc.Arbitrary<RunOutcome> = fc.record({
  entries: fc
    .tuple(paths, fc.func(fc.record({ version: fc.option(fc.nat(3), { nil: undefined }), made: fc.boolean() })))
    .map(([numbers, of]) => numbers.map((number) => ({ ...state(`secret/data/${number}`, 1), ...of(number) }))),
  nested: fc.constantFrom([], [NESTED]),
  problems: fc.constantFrom<readonly Problem[]>([], [PROBLEM]),
});

test('if a run finds the same versions and writes nothing, the text of the annotation does not change', () => {
  fc.assert(
    fc.property(runs, fc.option(runs, { nil: undefined }), (now, earlier) => {
      const before = earlier === undefined ? undefined : readBack(resultOf(earlier, undefined));
      const first = resultOf(now, before);
      // The next run finds the same versions and writes nothing.
      const quiet = { ...now, entries: now.entries.map((one) => ({ ...one, made: false })) };
      for (const last of [first, readBack(first)]) {
        assert.equal(textOf(resultOf(quiet, last)), textOf(first));
        assert.equal(textOf(resultOf({ ...quiet, entries: quiet.entries.toReversed() }, last)), textOf(first));
      }
    }),
  );
});

test('each write of a value changes the text of the annotation, also with KV 1', () => {
  const engines = fc.array(fc.boolean(), { minLength: 1, maxLength: 14 });
  const writes = fc.array(fc.nat(13), { maxLength: 12 });
  fc.assert(
    fc.property(engines, writes, (versioned, order) => {
      const versions = versioned.map(() => 0);
      const look = (made: number | undefined): RunOutcome =>
        run(
          versioned.map((hasVersions, index) => ({
            ...state(`secret/data/${index}`, hasVersions ? versions[index] : undefined),
            made: index === made,
          })),
        );
      let last = resultOf(look(undefined), undefined);
      for (const number of order) {
        const written = number % versioned.length;
        versions[written]! += 1;
        const next = resultOf(look(written), readBack(last));
        assert.notEqual(textOf(next), textOf(last));
        assert.equal(next.reason, 'Success');
        last = next;
      }
    }),
  );
});

test('if entries on two servers have the same path, a write to one of them changes the text of the annotation', () => {
  for (const [a, b] of [
    [1, 1],
    [undefined, 1],
    [undefined, undefined],
  ]) {
    const first = resultOf(run([state('secret/app', a, true), state('secret/app', b, true)]), undefined);
    const next = a === undefined ? undefined : a + 1;
    const second = resultOf(run([state('secret/app', next, true), state('secret/app', b)]), readBack(first));
    assert.notEqual(textOf(second), textOf(first));
    const quiet = resultOf(run([state('secret/app', next), state('secret/app', b)]), readBack(second));
    assert.equal(textOf(quiet), textOf(second));
  }
});

test('if another client writes a new version of an entry, or recreates it with the same version number, the text of the annotation changes', () => {
  const made = readBack(resultOf(run([state('secret/data/app', 1, true)]), undefined));
  const other = resultOf(run([state('secret/data/app', 2)]), made);
  assert.deepEqual([other.reason, other.message], ['Exists', 'Vault has the values.']);
  assert.notEqual(textOf(other), textOf(made));
  const recreated = resultOf(run([{ ...state('secret/data/app', 1), createdTime: '2026-02-02T03:04:05Z' }]), made);
  assert.notEqual(textOf(recreated), textOf(made));
});

test('if a run reads no entries (a failure, a wrong setting, ESO has the values), the new result keeps the versions of the last result', () => {
  const made = readBack(resultOf(run([state('kv/a', undefined, true), state('secret/data/b', 1)]), undefined));
  assert.equal(found(made), made);
  const failed = [resultOf(run([], [PROBLEM]), made), recreating(made), wrongSetting('x', made)];
  for (const next of [...failed, ...failed.map(found)]) {
    assert.deepEqual(next.entries, made.entries);
  }
});

test('parseResult returns the result that textOf has written as text', () => {
  fc.assert(
    fc.property(runs, (one) => {
      const result = resultOf(one, undefined);
      assert.deepEqual(readBack(result), result);
    }),
  );
  for (const result of [recreating(undefined), found(undefined), wrongSetting('x', undefined)]) {
    assert.deepEqual(readBack(result), result);
  }
});

test('parseResult returns undefined for a text that is not from Keyferry, and never throws', () => {
  const texts = [
    '',
    'x',
    'null',
    '5',
    '[]',
    '"Success"',
    '{}',
    '{"reason":"Other","message":"m"}',
    '{"reason":"Success"}',
  ];
  for (const text of [undefined, ...texts, '{"reason":"Success","message":7}']) {
    assert.equal(parseResult(text), undefined);
  }
  const start = '{"reason":"Success","message":"m"';
  for (const rest of ['}', ',"entries":null}', ',"entries":5}', ',"entries":{"a/b":5}}']) {
    const parsed = parseResult(start + rest);
    assert.deepEqual(parsed, { created: true, reason: 'Success', message: 'm', entries: {} });
    // The next result can also be made if this was the last result.
    assert.equal(resultOf(run([state('a/b', undefined, true)]), parsed).entries['a/b'], 'writes 1');
  }
  fc.assert(fc.property(fc.json(), (text) => void parseResult(text)));
});

test('withCreated puts the condition Created at the end of the list, and does not change the other conditions', () => {
  const others: readonly (EsoCondition & Record<string, unknown>)[] = [
    { type: 'Audited', status: 'Unknown', observed: { by: ['x'] } },
    { status: 'False', type: 'Ready', lastTransitionTime: TIME, reason: 'SecretSyncedError', message: 'ü' },
  ];
  const old: EsoCondition = { type: 'Created', status: 'False', reason: 'ErrorCreating', message: 'm' };
  const [audited, ready] = others;
  const expected = {
    type: 'Created',
    status: 'True',
    reason: 'Exists',
    message: 'The external-secrets operator has found the secret.',
  };
  for (const list of [others, [old, ...others], [audited!, old, ready!], [audited!, old, ready!, old]]) {
    const next = withCreated(list, found(undefined));
    assert.equal(JSON.stringify(next), JSON.stringify([...others, expected]));
    assert.equal(withCreated(next!, found(undefined)), undefined, 'nothing to write');
    assert.equal(JSON.stringify(withoutCreated(list)), JSON.stringify(others));
  }
  assert.equal(withCreated([], recreating(undefined))?.[0]?.status, 'False');
});
