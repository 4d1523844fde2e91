import assert from 'node:assert/strict';
import { Console } from 'node:console';
import { Writable } from 'node:stream';
import { describe, it } from 'node:test';
import { format, inspect } from 'node:util';
import { serialize } from 'node:v8';

import * as fc from 'fast-check';
import { pino } from 'pino';

import { NotBase64Error, NotUtf8Error, SecretBytes } from './secret-bytes.ts';

const VALUE = 'correct horse battery staple';
const REDACTED = `[SecretBytes ${VALUE.length} bytes]`;

function sink(): { stream: Writable; text: () => string } {
  const chunks: string[] = [];
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      chunks.push(chunk.toString());
      done();
    },
  });
  return { stream, text: () => chunks.join('') };
}

describe('SecretBytes', () => {
  it('SecretBytes print only their length: String(), JSON, util.inspect, console, pino', () => {
    const secret = SecretBytes.fromUtf8(VALUE);
    const base64 = Buffer.from(VALUE).toString('base64');
    const console = sink();
    new Console(console.stream).log('%s %o %O %j', secret, secret, secret, secret, secret, { secret });
    const pinoLog = sink();
    pino({}, pinoLog.stream).info({ secret, nested: { list: [secret] } }, 'message %s %o', secret, secret);
    const printed: readonly string[] = [
      String(secret),
      // oxlint-disable-next-line typescript/restrict-template-expressions, typescript/no-base-to-string
      `${secret}`,
      secret.toString(),
      inspect(secret),
      inspect({ deep: [new Map([['k', secret]])] }, { showHidden: true, depth: null, getters: true }),
      JSON.stringify({ secret }),
      format('%s|%o|%O|%j', secret, secret, secret, secret),
      console.text(),
      pinoLog.text(),
    ];
    for (const text of printed) {
      assert.ok(text.includes(REDACTED), text);
      assert.ok(!text.includes('horse') && !text.includes(base64), text);
    }
    assert.ok(!serialize(secret).includes('horse'));
    assert.deepEqual(Object.keys(secret), []);
    const shown = new assert.AssertionError({ actual: secret, expected: SecretBytes.fromUtf8('x'), operator: 'equal' });
    assert.ok(!shown.message.includes('horse'));
  });

  it('SecretBytes return any bytes unchanged, also after an encoding in base64', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        const secret = SecretBytes.fromBytes(bytes);
        assert.deepEqual(new Uint8Array(secret.bytes()), bytes);
        assert.ok(SecretBytes.fromBase64(secret.base64()).bytes().equals(bytes));
      }),
    );
  });

  it('SecretBytes return any well-formed text unchanged, a byte order mark included', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        assert.equal(SecretBytes.fromUtf8(text).utf8(), text);
      }),
      { examples: [['\uFEFFx'], [''], ['\0'], ['🔑'], ['x'.repeat(100_000)]] },
    );
  });

  it('SecretBytes throw NotUtf8Error for bytes that are not UTF-8 and for a lone surrogate', () => {
    assert.throws(() => SecretBytes.fromBytes(Uint8Array.of(0x61, 0xff)).utf8(), NotUtf8Error);
    assert.throws(() => SecretBytes.fromUtf8('half \uD83D'), NotUtf8Error);
  });

  it('SecretBytes accept only padded standard base64 without white space', () => {
    assert.equal(SecretBytes.fromBase64('aGk=').utf8(), 'hi');
    assert.equal(SecretBytes.fromBase64('').length, 0);
    for (const bad of ['aGk', 'aGk=\n', ' aGk=', 'aGl=', 'a', '-_8=', 'aGk==', 'aGk=aGk=', 'hellothere']) {
      assert.throws(() => SecretBytes.fromBase64(bad), NotBase64Error, bad);
    }
  });

  it('if a caller changes the bytes that SecretBytes got or returned, the value does not change', () => {
    const given = Buffer.from('abc');
    const secret = SecretBytes.fromBytes(given);
    given.fill(0);
    secret.bytes().fill(0);
    assert.equal(secret.utf8(), 'abc');
  });
});
