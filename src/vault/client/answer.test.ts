import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import * as fc from 'fast-check';

import { scrub } from './answer.ts';

const one = (text: string, ...secrets: string[]): string => scrub([text], secrets)[0] ?? '';

describe('scrub', () => {
  it('scrub removes sent values from a message, also in JSON, base64 or percent-encoding', () => {
    const secret = 'p"ss\nwörd';
    for (const form of [
      secret,
      JSON.stringify(secret),
      Buffer.from(secret).toString('base64'),
      encodeURIComponent(secret),
    ]) {
      assert.match(one(`error converting input ${form} for field`, secret), /input "?\[redacted\]"? for field/);
    }
  });

  it('scrub removes a value of one to three letters only if it is a whole word', () => {
    assert.equal(one('value "ab" is about a cab', 'ab', ''), 'value "[redacted]" is about a cab');
    assert.equal(one('a $& b', '$&'), 'a [redacted] b');
  });

  it('scrub removes texts that look like Vault tokens, for example hvs.… or s.…', () => {
    const token = `hvs.CAESI${'x'.repeat(40)}`;
    assert.equal(one(`bad token ${token}!`), 'bad token [redacted]!');
    const others = [`s.${'y'.repeat(24)}`, `hvb.${'z'.repeat(100)}`, token];
    assert.equal(one(`not ${others.join(' nor ')}`), 'not [redacted] nor [redacted] nor [redacted]');
  });

  it('scrub returns at most five messages, each on one line and cut to 300 characters', () => {
    assert.equal(
      one('1 error occurred:\n\t* permission denied\u001B[31m\n'),
      '1 error occurred: * permission denied [31m',
    );
    assert.equal(one('é'.repeat(1_000)).length, 301);
    assert.equal(scrub(Array<string>(100).fill('x'), []).length, 5);
  });

  it('scrub removes a value of four or more letters anywhere in the text', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 4 }), fc.string(), fc.string(), (secret, before, after) => {
        fc.pre(!'[redacted]'.includes(secret.trim()) && secret.trim().length >= 4);
        assert.ok(!one(`${before}${secret}${after}`, secret).includes(secret));
      }),
    );
  });
});
