import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import * as fc from 'fast-check';

import { redact } from './redact.ts';

const PEM = `-----BEGIN KEY-----\n${'QUJD'.repeat(16)}\nshort\nc2VjcmV0\n-----END KEY-----\n`;

describe('redact', () => {
  it('takes out what of a value is cut short, and where it begins or ends', () => {
    const value = Array.from({ length: 3000 }, (_, n) => String.fromCharCode(97 + ((n * n + 7 * n) % 26))).join('');
    for (const form of [value, Buffer.from(value).toString('base64')]) {
      assert.equal(redact(`denied: ${form.slice(0, 1000)}…`, [value]), 'denied: [redacted]…');
      assert.equal(redact(`denied: <${form.slice(1717, 1740)}>`, [value]), 'denied: <[redacted]>');
    }
  });

  it('takes out single lines and quoted strings of a value', () => {
    assert.equal(redact('the line c2VjcmV0 is bad', [PEM]), 'the line [redacted] is bad');
    const docker = JSON.stringify({ auths: { 'r.example.com': { username: 'me', password: 'hunter22' } } });
    assert.equal(redact('hunter22 is too weak, me', [docker]), '[redacted] is too weak, me');
    assert.equal(redact(Buffer.from('hunter22').toString('base64'), [docker]), '[redacted]');
  });

  it('leaves the words alone that have but little in common with a value', () => {
    const words = 'secrets "x" is forbidden: a short word such as KEY or BEGIN says nothing';
    assert.equal(redact(words, [PEM]), words);
  });

  it('lets no 16 characters of a value through, wherever they stand', () => {
    const text = fc.string({ minLength: 16, maxLength: 200, unit: 'binary-ascii' });
    fc.assert(
      fc.property(text, fc.nat(), fc.nat({ max: 30 }), fc.string(), (value, start, more, around) => {
        const from = start % (value.length - 15);
        const piece = value.slice(from, from + 16 + more);
        const result = redact(`${around}${piece}${around}`, [value]);
        // What is put in its place may itself be a piece of the value.
        fc.pre(!value.includes('[redacted]'.slice(0, 4)));
        assert.ok(!result.includes(piece), result);
      }),
    );
  });
});
