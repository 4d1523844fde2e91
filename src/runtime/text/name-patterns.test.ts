import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { RE2JS } from 're2js';
import { PatternCache, RulePatterns } from './name-patterns.ts';

function matches(mode: 'full' | 'search', pattern: string, namespace: string): boolean {
  const compiled = new PatternCache(mode).get(pattern);
  assert.ok('matches' in compiled, `${pattern} does not compile`);
  return compiled.matches(namespace);
}

test('a namespace pattern matches the whole name in the mode full, and any part of the name in the mode search', () => {
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
    ['team-.+', 'my-team-', false, false],
    ['a.+', 'ba-a', false, true],
  ];
  for (const [pattern, namespace, full, search] of cases) {
    assert.equal(matches('full', pattern, namespace), full, `full ${pattern} ${namespace}`);
    assert.equal(matches('search', pattern, namespace), search, `search ${pattern} ${namespace}`);
  }
});

test('in both modes, NamePattern.matchesWhole matches only whole names, and occursIn any part of a name', () => {
  for (const mode of ['full', 'search'] as const) {
    for (const source of ['team', 'team|x', 't[e]am']) {
      const pattern = new PatternCache(mode).get(source);
      assert.ok('matches' in pattern);
      const results = ['team', 'my-team'].map((name) => [pattern.matchesWhole(name), pattern.occursIn(name)]);
      assert.deepEqual(
        results,
        [
          [true, true],
          [false, true],
        ],
        `${mode} ${source}`,
      );
    }
  }
});

test('for a pattern that is not valid in RE2, PatternCache returns an error and does not throw', () => {
  for (const pattern of ['(', 'a(?=b)', '(a)\\1', '[', 'a{2000}', '*']) {
    assert.ok('error' in new PatternCache('full').get(pattern), pattern);
  }
});

test('patterns that make a backtracking engine take exponential time are fast', () => {
  assert.equal(matches('full', '(a+)+', `${'a'.repeat(62)}!`), false);
  assert.equal(matches('search', '(a|a)*$', 'a'.repeat(63)), true);
});

test('patterns of ordinary complexity are not rejected as too complex', () => {
  const cache = new PatternCache('full');
  const names = Array.from({ length: 800 }, (_, index) => `team-${index}`).join('|');
  for (const pattern of [
    'project-a-.+',
    'a{2,63}',
    '(a|b){1,50}',
    '[{}]{3}x',
    '\\{9999\\}a',
    `(?:${names})`,
    '[]a]{2}',
    'x{,5}',
  ]) {
    const found = cache.get(pattern);
    assert.ok('matches' in found, `${pattern.slice(0, 30)}: ${'error' in found ? found.error : ''}`);
  }
});

test('a pattern or a rule with too many instructions is refused; a rule may have 700 usual patterns', () => {
  const cache = new PatternCache('full');
  for (const large of ['a{501}b{501}', '((a|b){1,30}c){1,33}', '(?:[a-z]*-[a-z]{9}|x){90}']) {
    const found = cache.get(large);
    assert.ok('error' in found && found.error.includes('1000 instructions'), large);
  }
  const rule = new RulePatterns(cache);
  let added = 0;
  for (; !('error' in rule.add(`team-${added}-[a-z]*`)); added += 1);
  assert.ok(rule.isFull && added >= 700, `${added} patterns`);
});

test('refused patterns count in the limit of a rule if they were compiled, and above the limit nothing is compiled', () => {
  const cache = new PatternCache('full');
  const rule = new RulePatterns(cache);
  for (let index = 0; index < 1000; index += 1)
    assert.ok('error' in rule.add(`(?:[a-z]*-[a-z]{9}|x${index}){90}`), 'too complex');
  assert.ok(rule.isFull && cache.size < 20, `${cache.size} compiled`);
});

test('with 31,000 patterns, the cache of patterns stays within its limit, and patterns that left it still match', () => {
  const cache = new PatternCache('full');
  const patterns = Array.from({ length: 1000 }, (_, index) => {
    const pattern = cache.get(`team-${index}-[a-z]*`);
    assert.ok('matches' in pattern);
    return pattern;
  });
  for (let index = 0; index < 30_000; index += 1) cache.get(`other-${index}-[a-z]*`);
  assert.ok(cache.size < 30_000, `${cache.size} patterns`);
  for (const [index, pattern] of patterns.entries()) {
    assert.equal(pattern.matches(`team-${index}-a`), true);
    assert.equal(pattern.matches(`team-${index + 1}-a`), false);
  }
});

test('the cache of compiled programs is bounded, and an evicted program gives the same results again', () => {
  const cache = new PatternCache('full');
  const patterns = Array.from({ length: 60 }, (_, index) => {
    const pattern = cache.get(`x${index}a{1,450}`);
    assert.ok('matches' in pattern);
    return pattern;
  });
  assert.ok(cache.programBytes > 0 && cache.programBytes <= 6 * 1024 * 1024, `${cache.programBytes} bytes`);
  for (const [index, pattern] of patterns.entries()) {
    assert.equal(pattern.matches(`x${index}${'a'.repeat(20)}`), true);
    assert.equal(pattern.matches(`x${index}`), false);
  }
});

test('property: a namespace pattern, whose literal prefix is compared first, gives the same results as RE2 alone', () => {
  const pieces = fc.constantFrom(
    'a',
    'b',
    '-',
    '1',
    '.',
    '.*',
    '.+',
    'a*',
    'b?',
    'a+',
    'b{0,1}',
    '(a|b)',
    '|',
    '[ab]',
    '\\-',
    '(?:a)?',
  );
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 6 }), fc.stringMatching(/^[ab1-]{1,5}$/), (parts, name) => {
      const source = parts.join('');
      const pattern = new PatternCache('full').get(source);
      if ('error' in pattern) return;
      const alone = RE2JS.compile(source);
      assert.equal(pattern.matchesWhole(name), alone.testExact(name), `${source} on ${name}`);
      assert.equal(pattern.occursIn(name), alone.test(name), `${source} in ${name}`);
    }),
    { numRuns: 2000 },
  );
});
