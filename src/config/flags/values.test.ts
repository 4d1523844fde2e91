import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from 'fast-check';
import { parseBool } from '../../runtime/text/go-bool.ts';
import { parseCount, parseDuration, parseLabels, parseList } from './values.ts';

describe('durations', () => {
  it('a duration is accepted if Go accepts it', () => {
    for (const [text, ms] of [
      ['30m', 1_800_000],
      ['1h2m3.5s', 3_723_500],
      ['0', 0],
      ['-0', 0],
      ['+5s', 5000],
      ['-1.5h', -5_400_000],
      ['.5s', 500],
      ['5.s', 5000],
      ['100ms', 100],
      ['1us', 0.001],
      ['1µs', 0.001],
      ['1μs', 0.001],
      ['1000000ns', 1],
      ['1m1m', 120_000],
      ['2562047h', 9_223_369_200_000],
    ] as const) {
      assert.ok(Math.abs(parseDuration(text) - ms) < 1e-9, `${text}: ${parseDuration(text)}`);
    }
  });

  it('a duration is rejected if Go rejects it', () => {
    for (const text of ['', '30', '1d', 's', '-', '1h ', ' 1h', '1,5s', '1e3s', '--1s', '.s', '1h-2m', '3000000h']) {
      assert.throws(() => parseDuration(text), /must be a duration/, text);
    }
  });

  it('a duration of hours, minutes, seconds and milliseconds is their sum', () => {
    const part = fc.nat(10_000);
    fc.assert(
      fc.property(part, part, part, part, (h, m, s, ms) => {
        const expected = ((h * 60 + m) * 60 + s) * 1000 + ms;
        assert.equal(parseDuration(`${h}h${m}m${s}s${ms}ms`), expected);
      }),
    );
  });
});

describe('other values', () => {
  it('parseBool() accepts the same texts as strconv.ParseBool of Go', () => {
    for (const text of ['1', 't', 'T', 'TRUE', 'true', 'True']) assert.equal(parseBool(text), true);
    for (const text of ['0', 'f', 'F', 'FALSE', 'false', 'False']) assert.equal(parseBool(text), false);
    for (const text of ['', 'yes', 'tRUE', 'on', ' true']) assert.throws(() => parseBool(text), RangeError);
  });

  it('parseCount() accepts only decimal whole numbers within the bounds', () => {
    assert.equal(parseCount('16', 1, 256), 16);
    for (const text of ['', '0', '257', '-1', '1.5', '0x10', '1e1', ' 1']) {
      assert.throws(() => parseCount(text, 1, 256), /1 to 256/, text);
    }
  });

  it('parseList() drops spaces around items, empty items and duplicates', () => {
    assert.deepEqual(parseList(' a, b,,a,'), ['a', 'b']);
    assert.deepEqual(parseList(''), []);
  });

  it('parseLabels() reads pairs key=value, and refuses labels that Kubernetes would refuse', () => {
    assert.deepEqual(parseLabels(''), {});
    assert.deepEqual(parseLabels(' a=b, example.com/c=d.e_f ,x='), { a: 'b', 'example.com/c': 'd.e_f', x: '' });
    for (const text of [
      'a',
      'a=b=c',
      '=b',
      'a=b,',
      ',',
      'a b=c',
      'a/b/c=d',
      '/a=b',
      'A.com/a=b',
      'a=-',
      '__proto__=a',
    ]) {
      assert.throws(() => parseLabels(text), RangeError, text);
    }
    assert.throws(() => parseLabels(`a=${'b'.repeat(64)}`), /is not a valid label value/);
  });
});
