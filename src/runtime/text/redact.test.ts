import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import * as fc from 'fast-check';

import { markCommonPieces, redact } from './redact.ts';
import { withinCpu } from '../../../test/support/yardstick.ts';

const PEM = `-----BEGIN KEY-----\n${'QUJD'.repeat(16)}\nshort\nc2VjcmV0\n-----END KEY-----\n`;

describe('redact', () => {
  it('redact removes a value whose beginning or end is missing in the message', () => {
    const value = Array.from({ length: 3000 }, (_, n) => String.fromCharCode(97 + ((n * n + 7 * n) % 26))).join('');
    for (const form of [value, Buffer.from(value).toString('base64')]) {
      assert.equal(redact(`denied: ${form.slice(0, 1000)}…`, [value]), 'denied: [redacted]…');
      assert.equal(redact(`denied: <${form.slice(1717, 1740)}>`, [value]), 'denied: <[redacted]>');
    }
  });

  it('redact removes single lines and quoted strings of a value', () => {
    assert.equal(redact('the line c2VjcmV0 is bad', [PEM]), 'the line [redacted] is bad');
    const docker = JSON.stringify({ auths: { 'r.example.com': { username: 'me', password: 'hunter22' } } });
    assert.equal(redact('hunter22 is too weak, me', [docker]), '[redacted] is too weak, me');
    assert.equal(redact(Buffer.from('hunter22').toString('base64'), [docker]), '[redacted]');
  });

  it('redact removes each of several values that begin alike', () => {
    const [one, two, three] = ['1', '23', 'quite another'].map((end) => `postgres://user:password-of-${end}`);
    const values = [one ?? '', two ?? '', three ?? ''];
    for (const value of values) {
      assert.equal(redact(`not this: ${value} (1)`, values), 'not this: [redacted] (1)');
      const base64 = Buffer.from(value).toString('base64');
      assert.equal(redact(`not this: ${base64} (1)`, values), 'not this: [redacted] (1)');
    }
    assert.equal(
      redact('not this: sixteen-letters-beginning', ['sixteen-letters-bag', 'beginning']),
      'not this: [redacted]',
    );
  });

  it('if redact cuts a long message within a value, no part of the value is left', () => {
    const value = Array.from({ length: 40 }, (_, n) => String.fromCharCode(65 + ((n * n + 7 * n) % 50))).join('');
    for (let length = 8140; length < 8200; length += 1) {
      const result = redact(`${'.'.repeat(length)}${value} and more`.padEnd(9000, '.'), [value]);
      assert.ok(result.length < 8200 && result.endsWith('…'));
      for (let at = 0; at + 4 <= value.length; at += 1) assert.ok(!result.includes(value.slice(at, at + 4)), result);
    }
  });

  it('if a message was cut within a value, redact removes the four or more letters of the value at its end', () => {
    for (const end of ['', '…', '...']) {
      assert.equal(redact(`denied: hunt${end}`, ['hunter22']), `denied: [redacted]${end}`);
      assert.equal(redact(`denied: hunter2${end}`, ['hunter22', 'hunting-season']), `denied: [redacted]${end}`);
    }
    assert.equal(redact('denied: hun…', ['hunter22']), 'denied: hun…');
  });

  it('redact takes less than 3 s of CPU time for values of a million letters that repeat the letters of the message', () => {
    withinCpu(3000, 'all forms', () => {
      assert.equal(redact('a'.repeat(8000), ['a'.repeat(1_000_000), 'a'.repeat(5000)]), '[redacted]');
      redact(`denied: ${'ab'.repeat(2000)}`, ['ab'.repeat(500_000), `${'ab'.repeat(1000)}c`.repeat(500)]);
    });
  });

  it('redact keeps a message that shares only short words with a value', () => {
    const words = 'secrets "x" is forbidden: a short word such as KEY or BEGIN says nothing';
    assert.equal(redact(words, [PEM]), words);
  });

  it('property: markCommonPieces marks the same characters as a slow search', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 120 });
    fc.assert(
      fc.property(letters, fc.array(letters, { maxLength: 3 }), (text, forms) => {
        const slow = new Uint8Array(text.length);
        for (let from = 0; from + 6 <= text.length; from += 1) {
          if (forms.some((form) => form.includes(text.slice(from, from + 6)))) slow.fill(1, from, from + 6);
        }
        const fast = new Uint8Array(text.length);
        markCommonPieces(text, forms, 6, fast);
        assert.deepEqual(fast, slow);
      }),
      { numRuns: 2000 },
    );
  });

  it('property: redact removes each piece of a value that has 16 or more characters', () => {
    const text = fc.string({ minLength: 16, maxLength: 200, unit: 'binary-ascii' });
    fc.assert(
      fc.property(text, fc.nat(), fc.nat({ max: 30 }), fc.string(), (value, start, more, around) => {
        const from = start % (value.length - 15);
        const piece = value.slice(from, from + 16 + more);
        const result = redact(`${around}${piece}${around}`, [value]);
        // The text "[redacted]" may itself contain a piece of the value.
        fc.pre(!value.includes('[redacted]'.slice(0, 4)));
        assert.ok(!result.includes(piece), result);
      }),
    );
  });
});
