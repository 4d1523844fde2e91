import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allows, dialectOf, NAMES, readList, readPush, referenceIn } from './words.ts';

const NAMESPACES = ['a', 'dev', 'dev-2', 'the-dev', 'team', 'team-a', 'team-b', 'my-team-a'];

/** The namespaces that a list selects. */
function selected(list: string, isOriginal = false): string[] {
  const { patterns } = readList(dialectOf(isOriginal), NAMES.to, list);
  return NAMESPACES.filter((name) => patterns.some((pattern) => pattern.matches(name)));
}

test('a pattern matches whole names; a star at its begin stands for any text', () => {
  const table: Record<string, readonly string[]> = {
    dev: ['dev'],
    'team-a, team-b': ['team-a', 'team-b'],
    '*': NAMESPACES,
    '*-dev': ['the-dev'],
    '^*-a': ['team-a', 'my-team-a'],
    '.*': NAMESPACES,
    'team-.*': ['team-a', 'team-b'],
    '^team': ['team'],
    'team-[ab]$': ['team-a', 'team-b'],
    'team|dev': ['team', 'dev'],
    '(team|dev)': ['team', 'dev'],
    '': [],
    ' , ,': [],
  };
  for (const [list, places] of Object.entries(table))
    assert.deepEqual(
      selected(list),
      NAMESPACES.filter((name) => places.includes(name)),
      list,
    );
});

test('the original anchors only the outer alternatives, and what it matches besides is known', () => {
  assert.deepEqual(selected('team|dev', true), ['dev', 'the-dev', 'team', 'team-a', 'team-b']);
  assert.deepEqual(selected('team|x|dev', true), ['dev', 'the-dev', 'team', 'team-a', 'team-b']);
  assert.deepEqual(selected('(team|dev)', true), ['dev', 'team']);
  assert.deepEqual(selected('team', true), ['team']);
  const half = (list: string): readonly string[] =>
    readList(dialectOf(false), NAMES.to, list).half.map(({ item }) => item);
  assert.deepEqual(half('team|dev,(a|b),a[|]b,a\\|b,x'), ['team|dev']);
});

test('an item that cannot be read matches nothing and is a problem; the others count', () => {
  const { patterns, problems } = readList(dialectOf(false), NAMES.to, 'team,((,a**');
  assert.equal(patterns.length, 1);
  assert.deepEqual(
    problems.map(({ reason }) => reason),
    ['IllFormed', 'IllFormed'],
  );
  assert.equal(readPush(dialectOf(false), { [NAMES.toMatching]: 'a=b=c' }, []).problems.length, 1);
  assert.equal(readPush(dialectOf(false), { [NAMES.toMatching]: '' }, []).problems.length, 0);
});

test('a pull needs both annotations of its source', () => {
  const given = (allowed: string | undefined, list: string | undefined): Record<string, string> => ({
    ...(allowed === undefined ? {} : { [NAMES.allowed]: allowed }),
    ...(list === undefined ? {} : { [NAMES.allowedNamespaces]: list }),
  });
  const isAllowed = (allowed: string | undefined, list: string | undefined): boolean =>
    allows(dialectOf(false), given(allowed, list), 'team-a');
  for (const yes of ['true', '1', 't', 'TRUE']) assert.ok(isAllowed(yes, 'x,team-.'), yes);
  for (const no of ['false', '0', 'yes', '', ' true', undefined]) assert.ok(!isAllowed(no, 'team-a'), no);
  for (const list of ['team', 'team-b', '', '(', undefined]) assert.ok(!isAllowed('true', list), list);
});

test('a reference is <namespace>/<name>, without blanks, and of another object', () => {
  const read = (text: string): unknown => {
    const found = referenceIn({ namespace: 'ns', name: 'own' }, { [NAMES.from]: text });
    return found !== undefined && 'reason' in found ? found.reason : found;
  };
  assert.deepEqual(read('a/b.c'), { namespace: 'a', name: 'b.c' });
  for (const bad of ['a', '/a', 'a/', ' a/b', 'a/b ', 'a/b/c', 'ns/own', '']) assert.equal(read(bad), 'IllFormed', bad);
});
