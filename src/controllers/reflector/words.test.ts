import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from 'fast-check';

import { selects, selectsWith } from '../common/namespaces/selection.ts';
import {
  autoSourceOf,
  globs,
  isRule,
  NAMES,
  readSource,
  referenceIn,
  reflectorPatterns,
  reflectorSelector,
  type SourceRule,
} from './words.ts';

const cache = reflectorPatterns();

/** What a source says with this list of namespaces that it allows. */
function withList(list: string | undefined, selector?: string): SourceRule {
  return readSource(cache, {
    [NAMES.allowed]: 'true',
    ...(list === undefined ? {} : { [NAMES.allowedNamespaces]: list }),
    ...(selector === undefined ? {} : { [NAMES.allowedSelector]: selector }),
  });
}

function allows(list: string | undefined, namespace: string): boolean {
  return selectsWith(withList(list).allowed, namespace, {});
}

describe('lists of namespaces', () => {
  const rows: readonly (readonly [list: string | undefined, yes: readonly string[], no: readonly string[]])[] = [
    [undefined, ['a', 'kube-system'], []],
    ['', ['a'], []],
    ['  ', ['a'], []],
    [',', [], ['a']],
    [' , ,', [], ['a']],
    ['a, b', ['a', 'b'], ['ab', 'c']],
    ['a,,b', ['a', 'b'], ['c']],
    ['^allowed-.*', ['allowed-x'], ['not-allowed-x']],
    ['allowed-.*', ['allowed-x'], ['not-allowed-x']],
    ['ns-[0-9]*', ['ns-12', 'ns-'], ['ns-12x']],
    ['ns|ns-1', ['ns', 'ns-1'], ['ns-2']],
    ['a.*?', ['a', 'abc'], ['ba']],
    ['^(?!(?:a|b)$).*', ['c', 'ab', 'ba'], ['a', 'b']],
    ['(?!kube-).*', ['team'], ['kube-system']],
    ['^(?!kube-)(?!default$).+', ['team', 'default-2'], ['kube-system', 'default']],
    ['^(?=team-).*-prod$', ['team-a-prod'], ['x-prod', 'team-a-dev']],
    ['^(?!a[)]b).*', ['ab'], []],
    ['^(?!a)b|c', [], ['b', 'c']],
    ['^(?!a', [], ['b']],
    ['(?<=x)y', [], ['y', 'xy']],
    ['^((?!kube).)*$', [], ['team', 'kube']],
    [String.raw`(a)\1`, [], ['aa']],
    ['(((', [], ['a']],
    ['*', [], ['a']],
    ['*-db', [], ['a-db']],
    ['(((, team', ['team'], ['a']],
    ['(a+)+$', ['a', 'aaa'], ['ab']],
  ];
  for (const [list, yes, no] of rows)
    it(`${list === undefined ? 'no list' : JSON.stringify(list)} allows ${yes.join(', ') || 'nobody'}, and not ${no.join(', ')}`, () => {
      for (const name of yes) assert.equal(allows(list, name), true, name);
      for (const name of no) assert.equal(allows(list, name), false, name);
    });

  const problems: readonly (readonly [string, readonly string[]])[] = [
    ['(((', ['IllFormed']],
    ['*', ['IllFormed']],
    ['(?<=x)y', ['Unsupported']],
    [String.raw`(a)\1`, ['Unsupported']],
    ['^(?!a)b|c', ['Unsupported']],
    ['(a+)+$', []],
    ['^(?!(?:a|b)$).*', []],
    [Array.from({ length: 100 }, (_, index) => `(${index}`).join(), ['IllFormed', 'IllFormed', 'IllFormed']],
  ];
  for (const [list, reasons] of problems)
    it(`${JSON.stringify(list.slice(0, 20))} has the problems ${reasons.join(', ') || 'none'}`, () => {
      assert.deepEqual(
        withList(list).problems.map(({ reason }) => reason),
        reasons,
      );
    });

  it('a pattern that takes too long, or more patterns than one object may have, match nothing and are problems', () => {
    const [name] = ['x'.repeat(60)];
    for (const list of ['((a|b){50}){20}.*', '^(?!(?:(a|b){50}){20}).*']) {
      assert.equal(allows(list, name ?? ''), false);
      assert.equal(withList(list).problems.length, 1);
    }
    const many = Array.from({ length: 2000 }, (_, index) => `a{9}[b-c]{9}x${index}.y`).join();
    assert.equal(allows(`${many},z[z]`, 'zz'), false);
    assert.equal(withList(many).problems.length, 3);
  });

  it('a look-ahead for a list of names excludes exactly these names', () => {
    const label = fc.stringMatching(/^[a-z][a-z0-9-]{0,6}[a-z0-9]$/);
    fc.assert(
      fc.property(fc.uniqueArray(label, { minLength: 1, maxLength: 5 }), label, (names, other) => {
        const list = `^(?!(?:${names.join('|')})$).*`;
        for (const name of [...names, other]) assert.equal(allows(list, name), !names.includes(name), name);
      }),
    );
  });

  it('the same pattern in JavaScript, over whole names, agrees', () => {
    const part = fc.constantFrom('a', 'b', '-', '.', 'a*', 'b+', '(a|b)', '[a-c]', '(?:ab)?', '$');
    const ahead = fc.constantFrom('', '^', '(?!a)', '^(?!ab$)', '^(?=a)', '(?!(?:a|b)$)(?=.)');
    const name = fc.stringMatching(/^[abc-]{1,5}$/);
    fc.assert(
      fc.property(ahead, fc.array(part, { minLength: 1, maxLength: 5 }), name, (start, parts, text) => {
        const list = `${start}${parts.join('')}`;
        assert.equal(allows(list, text), new RegExp(`^(?:${list})$`).test(text), `${list} on ${text}`);
      }),
    );
  });
});

describe('selectors', () => {
  const labels = { tier: 'prod', team: 'a' };
  const rows: readonly (readonly [string, boolean | 'problem'])[] = [
    ['tier=prod', true],
    ['tier==prod', true],
    ['tier != dev', true],
    ['tier', true],
    ['!tier', false],
    ['tier in (prod, dev),team', true],
    ['tier notin (prod)', false],
    ['other notin (x)', true],
    ['tier=prod,,team=a,', true],
    ['tier=prod,tier=dev', false],
    ['tier in ()', 'problem'],
    ['tier in (prod,)', 'problem'],
    ['tier in(prod)', true],
    ['tierin (prod)', 'problem'],
    ['tier=', 'problem'],
    [',', 'problem'],
    ['tier<3', 'problem'],
    [`tier=${'x'.repeat(64)}`, 'problem'],
    ['not a key!=x', 'problem'],
  ];
  for (const [text, expected] of rows)
    it(`${text.slice(0, 40)} ${expected === 'problem' ? 'matches nothing and is a problem' : `is ${expected}`}`, () => {
      const { allowed, problems } = withList(undefined, text);
      assert.equal(selectsWith(allowed, 'x', labels), expected === true);
      assert.equal(problems.length, expected === 'problem' ? 1 : 0);
      if (expected === 'problem') assert.throws(() => reflectorSelector(text), RangeError);
    });

  it('a selector alone selects only by labels; with a list, either selects; the pairs of both kinds must both select', () => {
    const alone = withList(undefined, 'tier=prod').allowed;
    assert.deepEqual([selectsWith(alone, 'x', labels), selectsWith(alone, 'x', {})], [true, false]);
    const either = withList('a', 'tier=prod').allowed;
    assert.deepEqual(
      [selectsWith(either, 'a', {}), selectsWith(either, 'b', labels), selectsWith(either, 'b', {})],
      [true, true, false],
    );
    const { targets } = readSource(cache, { [NAMES.allowedNamespaces]: 'a,b', [NAMES.autoSelector]: 'tier=prod' });
    assert.deepEqual(
      [selectsWith(targets, 'a', labels), selectsWith(targets, 'a', {}), selectsWith(targets, 'c', labels)],
      [true, false, false],
    );
    assert.deepEqual([selects(targets, 'a'), selects(targets, 'c')], [true, false]);
  });
});

it('booleans are read as .NET reads them, and other values are problems', () => {
  const read = (text: string): SourceRule => readSource(cache, { [NAMES.allowed]: text, [NAMES.auto]: text });
  for (const yes of ['true', 'TRUE', ' True ']) assert.deepEqual([read(yes).isAllowed, read(yes).isAuto], [true, true]);
  for (const no of ['false', 'False', '', ' '])
    assert.deepEqual([read(no).isAllowed, read(no).problems.length], [false, 0]);
  for (const bad of ['1', 'yes', 't']) assert.deepEqual([read(bad).isAllowed, read(bad).problems.length], [false, 2]);
});

it('reflects names an object in two parts, with spaces around them', () => {
  const read = (text: string): unknown => referenceIn({ [NAMES.reflects]: text });
  assert.deepEqual(read(' a / b '), { namespace: 'a', name: 'b' });
  for (const bad of ['a/b/c', '/b', 'a/', 'b', '', '../secrets/x', 'a/..', 'A/b'])
    assert.equal((read(bad) as { reason?: string }).reason, 'IllFormed', bad);
  assert.equal(referenceIn({}), undefined);
});

it('marks of an automatic mirror count at its name in another namespace, in the forms of all versions of reflector', () => {
  const at = { namespace: 'b', name: 's' };
  const of = (auto: string | undefined, reflects = 'a/s', more = {}): unknown =>
    autoSourceOf(at, {
      [NAMES.reflects]: reflects,
      ...(auto === undefined ? {} : { [NAMES.autoReflects]: auto }),
      ...more,
    });
  const source = { namespace: 'a', name: 's' };
  for (const auto of ['True', 'true', 'a/s']) assert.deepEqual(of(auto), source);
  for (const auto of ['False', undefined, '', 'a/other']) assert.equal(of(auto), undefined);
  for (const reflects of ['b/s', 'a/t', 'a']) assert.equal(of('True', reflects), undefined);
  assert.deepEqual(of('False', 'a/s', { 'keyferry.dev/target': 'b/s' }), source);
  assert.equal(of('True', 'a/s', { 'keyferry.dev/target': 'c/s' }), undefined);
});

it('an object is a rule if it is a source or a direct mirror, and not if reflector made it', () => {
  assert.equal(isRule({ [NAMES.allowed]: 'false' }), true);
  assert.equal(isRule({ [NAMES.reflects]: 'a/s', [NAMES.autoReflects]: 'False' }), true);
  assert.equal(isRule({ [NAMES.reflects]: 'a/s', [NAMES.autoReflects]: 'True' }), false);
  assert.equal(isRule({ [NAMES.at]: 'x' }), false);
});

it('globs match whole names in any case', () => {
  const matches = globs(['prod-*', 'ns-?', 'A.b']);
  for (const yes of ['prod-', 'prod-x-y', 'ns-1', 'a.b']) assert.equal(matches(yes), true, yes);
  for (const no of ['xprod-1', 'ns-', 'ns-12', 'acb']) assert.equal(matches(no), false, no);
  assert.equal(globs([])('x'), false);
});
