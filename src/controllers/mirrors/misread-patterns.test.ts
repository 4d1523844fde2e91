import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PatternCache } from '../common/namespace-patterns.ts';
import { misreadPatterns, type SuspectPattern, suspectPattern } from './misread-patterns.ts';

const NAMESPACES = ['default', 'team-a', 'team-b', 'db1'];

function suspects(...texts: readonly string[]): SuspectPattern[] {
  const patterns = new PatternCache('full');
  return texts.flatMap((text, index) => {
    const pattern = patterns.get(text);
    assert.ok(!('error' in pattern), text);
    return suspectPattern(`namespaces[${index}]`, text, pattern) ?? [];
  });
}

const told = (...texts: readonly string[]): string[] => misreadPatterns(suspects(...texts), NAMESPACES);

test('a glob that matches nothing is told, with the regular expression that it would be', () => {
  assert.match(told('team-*').join(), /namespaces\[0\]: "team-\*" matches no namespace: .* it would be team-\.\*$/);
  assert.match(told('db?').join(), /"db\?" matches no namespace: .* it would be db\.$/);
  assert.match(told('^prod*$').join(), /would be \^prod\.\*\$$/);
});

test('a list in one pattern is told', () => {
  for (const text of ['team-a,team-b', 'team-a, team-b', 'team-a team-b'])
    assert.match(told(text).join(), /comma/, text);
});

test('what matches, and what is a regular expression that waits for its namespaces, is not told', () => {
  for (const text of [
    'team-?.*',
    'default*',
    'team-.*',
    'prod-.+',
    '[a-z]*-prod',
    '(x|y)*',
    'x{2,3}',
    'x[,]y',
    'prod-\\d*',
    'prod.*?',
    'prod',
  ]) {
    assert.deepEqual(told(text), [], text);
  }
});

test('of many patterns, and of long ones, some is told', () => {
  const many = told(...Array.from({ length: 6 }, (_, index) => `${'x'.repeat(1000)}${index}-*`));
  assert.equal(many.length, 4);
  assert.match(many[3] ?? '', /^3 more/);
  assert.ok(many.join('; ').length < 2000);
});

test('of very many patterns only some are tried', () => {
  const [suspect] = suspects('team-*');
  assert.ok(suspect);
  let tried = 0;
  const matches = (): boolean => {
    tried += 1;
    return false;
  };
  const counted = { ...suspect, pattern: { matches } as unknown as SuspectPattern['pattern'] };
  misreadPatterns(
    Array.from({ length: 1000 }, () => counted),
    NAMESPACES,
  );
  assert.equal(tried, 20 * NAMESPACES.length);
});
