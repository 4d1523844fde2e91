import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';

import { serverRecipe } from '../../test/servers/catalogue.ts';
import { countsIn, type MatrixResult, pageWith, withResult } from './results.ts';

const resultOf = (run: string, passed: number): MatrixResult => ({
  run,
  kubernetes: '1.36.3',
  vault: 'Vault 1.13.0',
  externalSecrets: '0.20.4',
  date: '2026-01-02',
  commit: 'c0ffee0123-dirty',
  passed,
  repeated: 0,
  skipped: 0,
});

it('a new result of test:matrix replaces that of the same run and keeps the others, except those of removed runs', () => {
  const before = [resultOf('a', 1), resultOf('b', 2), resultOf('gone', 3)];
  assert.deepEqual(withResult(before, resultOf('a', 4), ['a', 'b']), [resultOf('a', 4), resultOf('b', 2)]);
  assert.deepEqual(withResult([resultOf('b', 2)], resultOf('a', 1), ['a', 'b']), [resultOf('a', 1), resultOf('b', 2)]);
});

it('the counts of a run are read from the last line of its output, and the files with failed tests from the lines above', () => {
  const failures = ['test at test/scenarios/a/b.test.ts:79:3', '✖ x (1ms)', '  at foo (file:///x.test.ts:1:2)'];
  assert.deepEqual(countsIn([...failures, '', '10 passed, 1 failed, 2 skipped', ''].join('\n')), {
    passed: 10,
    failed: 1,
    skipped: 2,
    failedIn: ['test/scenarios/a/b.test.ts'],
  });
  assert.deepEqual(countsIn('3 passed, 0 failed\n'), { passed: 3, failed: 0, skipped: 0, failedIn: [] });
  assert.equal(countsIn('3 passed, 0 failed\nkilled'), undefined);
});

it('the table in docs/versions.md shows the results in scripts/matrix/results.json', () => {
  const read = (path: string): string => readFileSync(new URL(path, import.meta.url), 'utf8');
  const results = JSON.parse(read('results.json')) as MatrixResult[];
  const page = read('../../docs/versions.md');
  assert.equal(pageWith(page, results), page);
  assert.notEqual(pageWith(page, [...results, resultOf('more', 1)]), page);
  assert.throws(() => pageWith('no table', results), /docs\/versions\.md/);
});

it('the Kubernetes versions in scripts/matrix/results.json are versions that the tests use now', () => {
  const results = JSON.parse(readFileSync(new URL('results.json', import.meta.url), 'utf8')) as MatrixResult[];
  const pinned = new Set(
    ['', '1.34'].map((choice) => serverRecipe('kube-apiserver', { KEYFERRY_TEST_KUBERNETES: choice }).version.slice(1)),
  );
  for (const { kubernetes } of results)
    assert.ok(pinned.has(kubernetes), `${kubernetes} is not tested any more; run npm run test:matrix`);
});
