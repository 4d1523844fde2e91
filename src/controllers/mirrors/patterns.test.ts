import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SecretMirror } from './api.ts';
import { PatternCache } from '../../copy/patterns.ts';
import { effectiveSpec } from './spec.ts';

function verdict(mode: 'full' | 'search', pattern: string, namespace: string): boolean {
  const compiled = new PatternCache(mode).get(pattern);
  assert.ok('matches' in compiled, `${pattern} does not compile`);
  // Asked twice: the second answer comes from memory.
  assert.equal(compiled.matches(namespace), compiled.matches(namespace));
  return compiled.matches(namespace);
}

test('a pattern stands for the whole name; as a search it may match anywhere', () => {
  const cases: readonly [pattern: string, namespace: string, full: boolean, search: boolean][] = [
    ['project-a-.+', 'project-a-x', true, true],
    ['project-a-.+', 'evil-project-a-x', false, true],
    ['project-a-.+', 'project-a-', false, false],
    ['default', 'default', true, true],
    ['default', 'default2', false, true],
    ['default', 'my-default', false, true],
    ['a|b', 'ab', false, true],
    ['a|b', 'b', true, true],
    ['^a|b$', 'b', true, true],
    ['^a|b$', 'xb', false, true],
    ['(?i)TEAM-\\d+', 'team-7', true, true],
    ['[[:alpha:]]+', 'abc', true, true],
    ['\\pL+', 'abc', true, true],
    ['team-x\\z', 'team-x', true, true],
    ['\\Qa.b', 'a.b', true, true],
    ['.*', '', true, true],
  ];
  for (const [pattern, namespace, full, search] of cases) {
    assert.equal(verdict('full', pattern, namespace), full, `full ${pattern} ${namespace}`);
    assert.equal(verdict('search', pattern, namespace), search, `search ${pattern} ${namespace}`);
  }
});

test('what RE2 does not know is an error, not an exception', () => {
  for (const pattern of ['(', 'a(?=b)', '(a)\\1', '[', 'a{2000}', '*']) {
    assert.ok('error' in new PatternCache('full').get(pattern), pattern);
  }
});

test('patterns that take a backtracking engine for ever take no time', () => {
  assert.equal(verdict('full', '(a+)+', `${'a'.repeat(62)}!`), false);
  assert.equal(verdict('search', '(a|a)*$', 'a'.repeat(63)), true);
});

function mirrorWith(namespaces: readonly string[]): SecretMirror {
  const metadata = { name: 'm', namespace: 'n', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
  return { metadata, spec: { destination: { namespaces } } };
}

test('patterns that are too complex together are left out by name, the others stay', () => {
  const monster = '(a|b){1,50}'.repeat(300);
  const spec = effectiveSpec(mirrorWith(['good', monster, 'late']), new PatternCache('full'));
  assert.equal(spec.matchers.length, 1);
  assert.match(spec.problems.join(), /namespaces\[1\].*too complex/);
});

test('one bad pattern does not take the others along, and each is named', () => {
  const spec = effectiveSpec(mirrorWith(['ok', '(', '', 'fine-.*']), new PatternCache('full'));
  assert.equal(spec.matchers.length, 2);
  assert.match(spec.problems[0] ?? '', /namespaces\[1\].*compiling/);
  assert.match(spec.problems[1] ?? '', /namespaces\[2\].*empty/);
});

test('patterns that nobody uses are forgotten', () => {
  const cache = new PatternCache('full');
  for (const pattern of ['a', 'b', 'c']) cache.get(pattern);
  cache.keepOnly(new Set(['b']));
  assert.equal(cache.size, 1);
});

test('a source name that no object can have is a problem, and never part of a path', () => {
  for (const name of ['A_b', '../c', 'a/b', 'a b', 'x'.repeat(254), '.', 'a..b']) {
    const metadata = { name: 'm', namespace: 'n', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
    const mirror: SecretMirror = { metadata, spec: { source: { name }, destination: { namespaces: ['a'] } } };
    const spec = effectiveSpec(mirror, new PatternCache('full'));
    assert.equal(spec.sourceName, undefined, name);
    assert.match(spec.problems.join(), /spec\.source\.name/, name);
  }
});
