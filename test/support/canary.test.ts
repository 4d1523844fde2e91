import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assert as check, constantFrom, property, uint8Array } from 'fast-check';

import { assertNoCanaries, canaryForms, findCanaries, makeCanary } from './canary.ts';

describe('canaries', () => {
  const value = makeCanary('a');
  const forms = (text: string): string[] => findCanaries('log', text, { a: value }).map(({ form }) => form);

  it('findCanaries() finds a canary in each form: raw, JSON, URL, hex and base64', () => {
    assert.deepEqual(forms(`x ${value} y`), ['raw']);
    assert.deepEqual(forms(JSON.stringify({ msg: value })), ['JSON']);
    assert.deepEqual(forms(`/path?x=${encodeURIComponent(value)}`), ['URL']);
    assert.deepEqual(forms(Buffer.from(value).toString('hex')), ['hex']);
    assert.deepEqual(forms('nothing'), []);
  });

  it('findCanaries() finds a canary inside a longer base64 text, at any position', () => {
    check(
      property(
        uint8Array(),
        uint8Array(),
        constantFrom<BufferEncoding>('base64', 'base64url'),
        (head, tail, encoding) => {
          const text = Buffer.concat([head, Buffer.from(value), tail]).toString(encoding);
          assert.ok(forms(text).length > 0);
        },
      ),
    );
  });

  it('if a text contains a canary, assertNoCanaries() fails and its message does not quote the value', () => {
    assert.throws(
      () => assertNoCanaries({ log: value }, { a: value }),
      ({ message }: Error) =>
        message.includes('leaked') && !canaryForms(value).some(([, form]) => message.includes(form)),
    );
    assertNoCanaries({ log: 'clean' }, { a: value });
    assert.throws(() => canaryForms('short'), /8 bytes/);
  });
});
