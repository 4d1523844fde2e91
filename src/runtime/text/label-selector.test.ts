import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from 'fast-check';

import { type LabelSelector, parseSelector, readSelector } from './label-selector.ts';

const read = (selector: LabelSelector): ReturnType<typeof readSelector> => readSelector(selector, 'field', []);

describe('label selector', () => {
  it('a label selector matches labels as the API server does', () => {
    const table: [LabelSelector, Record<string, string>, boolean][] = [
      [{}, {}, true],
      [{ matchLabels: { tier: 'prod' } }, { tier: 'prod', other: 'x' }, true],
      [{ matchLabels: { tier: 'prod' } }, { tier: 'dev' }, false],
      [{ matchLabels: { tier: '' } }, { tier: '' }, true],
      [{ matchLabels: { tier: '' } }, {}, false],
      [{ matchExpressions: [{ key: 'tier', operator: 'In', values: ['a', 'b'] }] }, { tier: 'b' }, true],
      [{ matchExpressions: [{ key: 'tier', operator: 'In', values: ['a', 'b'] }] }, {}, false],
      [{ matchExpressions: [{ key: 'tier', operator: 'NotIn', values: ['a'] }] }, {}, true],
      [{ matchExpressions: [{ key: 'tier', operator: 'NotIn', values: ['a'] }] }, { tier: 'a' }, false],
      [{ matchExpressions: [{ key: 'tier', operator: 'Exists' }] }, { tier: '' }, true],
      [{ matchExpressions: [{ key: 'tier', operator: 'DoesNotExist' }] }, { tier: 'a' }, false],
      [{ matchExpressions: [{ key: 'constructor', operator: 'Exists' }] }, {}, false],
      [{ matchLabels: { a: '1' }, matchExpressions: [{ key: 'b', operator: 'Exists' }] }, { a: '1' }, false],
    ];
    for (const [selector, labels, expected] of table) {
      assert.equal(read(selector)?.matches(labels), expected, JSON.stringify([selector, labels]));
    }
  });

  it('if a label selector has a mistake, the problem names the field with the mistake', () => {
    const table: [LabelSelector, RegExp][] = [
      [{ matchLabels: { 'a b': 'x' } }, /^field\.matchLabels: "a b" is not a key/],
      [{ matchLabels: { a: 'x y' } }, /^field\.matchLabels\["a"\]: "x y" is not a value/],
      [{ matchExpressions: [{ key: 'a', operator: 'Like' }] }, /^field\.matchExpressions\[0\]\.operator: "Like"/],
      [
        { matchExpressions: [{ key: 'a', operator: 'In' }] },
        /^field\.matchExpressions\[0\]\.values: must be specified/,
      ],
      [
        { matchExpressions: [{ key: 'a', operator: 'Exists', values: ['b'] }] },
        /^field\.matchExpressions\[0\]\.values: must be absent/,
      ],
      [{ matchExpressions: [{ key: 'a/b/c', operator: 'Exists' }] }, /matchExpressions\[0\]\.key: "a\/b\/c"/],
    ];
    for (const [selector, message] of table) {
      const problems: string[] = [];
      assert.equal(readSelector(selector, 'field', problems), undefined);
      assert.match(problems[0] ?? '', message);
    }
    const many = Array.from({ length: 101 }, (_, index) => ({ key: `k${index}`, operator: 'Exists' }));
    assert.equal(read({ matchExpressions: many }), undefined);
  });

  it('a label selector as text is read as kubectl -l reads it', () => {
    const labels = { tier: 'prod', 'example.com/team': 'a', empty: '' };
    const table: [string, boolean][] = [
      ['', true],
      ['tier', true],
      ['!tier', false],
      ['! missing', true],
      ['tier=prod', true],
      ['tier == prod', true],
      ['tier!=prod', false],
      ['missing!=prod', true],
      ['empty=', true],
      ['tier in (dev, prod)', true],
      ['tier notin (dev,prod)', false],
      ['example.com/team in (a),tier=prod', true],
      ['example.com/team in (b),tier=prod', false],
    ];
    for (const [text, expected] of table) assert.equal(parseSelector(text).matches(labels), expected, text);
  });

  it('a label selector as text with a syntax error is refused, and the error quotes the part', () => {
    for (const text of ['a=b=c', 'a>1', 'a in b', 'a in ()x', ',', 'a,', 'a b', '(a)', 'in (a)', 'a=b c']) {
      assert.throws(() => parseSelector(text), RangeError, text);
    }
    assert.throws(() => parseSelector('tier=prod,a>1'), /"a>1" is not a requirement/);
  });

  it('property: labels whose keys a label selector does not name never change whether it matches', () => {
    const key = fc.constantFrom('a', 'b', 'c', 'd');
    const value = fc.constantFrom('', '1', '2');
    const requirement = fc.oneof(
      fc.record({ key, operator: fc.constantFrom('In', 'NotIn'), values: fc.array(value, { minLength: 1 }) }),
      fc.record({ key, operator: fc.constantFrom('Exists', 'DoesNotExist') }),
    );
    fc.assert(
      fc.property(fc.array(requirement), fc.dictionary(key, value), (matchExpressions, labels) => {
        const selector = read({ matchExpressions });
        assert.ok(selector);
        const known = Object.fromEntries(Object.entries(labels).filter(([each]) => selector.keys.includes(each)));
        assert.equal(selector.matches(known), selector.matches(labels));
      }),
    );
  });
});
