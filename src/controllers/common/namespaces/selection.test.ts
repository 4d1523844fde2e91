import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PatternCache } from '../../../runtime/text/name-patterns.ts';
import { misreadPatterns, type SuspectPattern, suspectPattern } from './selection.ts';

const NAMESPACES = ['default', 'team-a', 'team-b', 'db1'];

function suspects(...texts: readonly string[]): SuspectPattern[] {
  const patterns = new PatternCache('full');
  return texts.flatMap((text, index) => {
    const pattern = patterns.get(text);
    assert.ok(!('error' in pattern), text);
    return suspectPattern(`namespaces[${index}]`, text, pattern) ?? [];
  });
}

const messages = (...texts: readonly string[]): string[] => misreadPatterns(suspects(...texts), NAMESPACES);

test('if a glob such as team-* matches no namespace, the report shows the regular expression to write instead', () => {
  assert.match(
    messages('team-*').join(),
    /namespaces\[0\]: "team-\*" matches no namespace: .* to match as a glob, write team-\.\*$/,
  );
  assert.match(messages('db?').join(), /"db\?" matches no namespace: .* to match as a glob, write db\.$/);
  assert.match(messages('^prod*$').join(), /to match as a glob, write \^prod\.\*\$$/);
});

test('a pattern that is a list of names with commas or spaces is reported, with advice', () => {
  for (const text of ['team-a,team-b', 'team-a, team-b', 'team-a team-b'])
    assert.match(messages(text).join(), /comma/, text);
});

test('a pattern with a space at its beginning or end is reported, with advice', () => {
  for (const text of [' team-a', 'team-a ', ' team-.*'])
    assert.match(messages(text).join(), /namespace names contain no spaces; remove those around it$/, text);
});

test('a pattern with a character that no namespace has is reported, except if its case has no meaning', () => {
  for (const text of ['TA', 'Team-.*', 'team_a', '(?P<Name>team)_.*'])
    assert.match(messages(text).join(), /only lower-case letters, digits and -$/, text);
  for (const text of ['(?i)NONE', '(?P<Name>none)', String.raw`none\S\D`, '[A-Za-z]x', 'none'])
    assert.deepEqual(messages(text), [], text);
});

test('a pattern that looks like a glob is not reported if it matches a namespace; a regular expression is never reported', () => {
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
    assert.deepEqual(messages(text), [], text);
  }
});

test('of six long patterns that match no namespace, the report shows three, shortened, and the number of the others', () => {
  const many = messages(...Array.from({ length: 6 }, (_, index) => `${'x'.repeat(900)}${index}-*`));
  assert.equal(many.length, 4);
  assert.match(many[3] ?? '', /^3 more/);
  assert.ok(many.join('; ').length < 2000);
});

test('if a rule has 1,000 patterns that look like globs, only 20 of them are matched against the namespaces', () => {
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
