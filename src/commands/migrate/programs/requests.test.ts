import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { array, assert as check, constantFrom, property } from 'fast-check';
import { PatternCache } from '../../../runtime/text/name-patterns.ts';
import { isListed } from '../../../controllers/replicator/rules/namespace-lists.ts';
import { common } from './reflector.ts';
import { namespaceList } from './requests.ts';

const PATTERNS = new PatternCache('full');

describe('lists of namespaces of other copiers', () => {
  it('the items in a list of another copier become names or regular expressions of the replicator', () => {
    for (const [text, items] of [
      ['', []],
      ['a', ['a']],
      [' a , b ,,a', ['a', 'b']],
      ['team-.*', ['team-.*']],
      // The replicator would read `team.` as a name, the other copiers as an expression.
      ['team.', ['(?:team.)']],
      ['ns-[0-9]*,prod', ['ns-[0-9]*', 'prod']],
    ] as const) {
      assert.deepEqual(namespaceList(text, PATTERNS), { items, invalid: [] }, text);
    }
    assert.ok(isListed(PATTERNS, namespaceList('team.', PATTERNS).items, 'team1'));
  });

  it('if RE2 refuses an item in a list of another copier, it is reported with the reason; the other items are kept', () => {
    const { items, invalid } = namespaceList('ok,(?!kube-).*', PATTERNS);
    assert.deepEqual(items, ['ok']);
    assert.equal(invalid.length, 1);
    assert.match(invalid[0] ?? '', /^"\(\?!kube-\)\.\*" is not a valid RE2 expression: /);
  });

  it('isListed() finds a namespace only if an item of the list is its whole name, or a pattern that matches the whole name', () => {
    const cases: readonly (readonly [readonly string[], string, boolean])[] = [
      [['a'], 'a', true],
      [['a'], 'ab', false],
      [['team-.*'], 'team-a', true],
      [['team-.*'], 'my-team-a', false],
      [['a|b'], 'b', true],
      [['a|b'], 'ax', false],
      [[], 'a', false],
    ];
    for (const [items, name, expected] of cases)
      assert.equal(isListed(PATTERNS, items, name), expected, `${items.join()} ${name}`);
  });
});

describe('the namespaces in two lists', () => {
  it('common() returns the namespaces in both lists, if at most one list has expressions that the other one lacks', () => {
    for (const [one, other, both] of [
      [['.*'], ['a', 'b'], ['a', 'b']],
      [['a', 'b'], ['b', 'c'], ['b']],
      [['team-a', 'x'], ['team-.*'], ['team-a']],
      [['team-.*'], ['team-.*', 'x'], ['team-.*']],
      [
        ['team-.*', 'x'],
        ['team-a', 'x', 'y'],
        ['x', 'team-a'],
      ],
      [['a'], ['b'], []],
    ] as const) {
      assert.deepEqual(common(PATTERNS, one, other), both);
    }
  });

  it('common() returns undefined for two lists with different expressions', () => {
    assert.equal(common(PATTERNS, ['team-.*'], ['.*-a']), undefined);
  });

  it('common() returns exactly the namespaces that both lists match', () => {
    const item = constantFrom('a', 'b', 'team-a', 'team-b', 'team-.*', 't.*', '.*', '[ab]');
    const name = constantFrom('a', 'b', 'c', 'team-a', 'team-b', 'team-c', 'tx');
    check(
      property(array(item), array(item), name, (one, other, namespace) => {
        const both = common(PATTERNS, one, other);
        if (both === undefined) return;
        assert.equal(
          isListed(PATTERNS, both, namespace),
          isListed(PATTERNS, one, namespace) && isListed(PATTERNS, other, namespace),
        );
      }),
    );
  });
});
