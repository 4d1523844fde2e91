import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AnswerReader } from './answer-reader.ts';

interface Read {
  readonly status: number;
  readonly body: string;
  readonly isKept: boolean;
  readonly headers: object;
}

/** Reads `text` in pieces of `size` bytes. @returns `undefined` if the answer is incomplete when the connection ends */
function read(text: string, size = text.length, maxBodyBytes = 1000): Read | undefined {
  const reader = new AnswerReader(maxBodyBytes);
  const bytes = Buffer.from(text, 'latin1');
  for (let at = 0; at < bytes.length && !reader.isDone; at += size) reader.push(bytes.subarray(at, at + size));
  if (!reader.isDone && !reader.end()) return undefined;
  const { status, body, isKept, headers } = reader;
  return { status, body: body.toString(), isKept, headers };
}

const OK = 'HTTP/1.1 200 OK\r\n';
const kept = (status: number, body: string): Read => ({
  status,
  body,
  isKept: true,
  headers: {},
});

test('an HTTP answer is read correctly, in pieces of any size', () => {
  const answers: readonly (readonly [string, Read])[] = [
    [`${OK}Content-Length: 5\r\n\r\nhello`, kept(200, 'hello')],
    [`${OK}Content-Length: 0\r\n\r\n`, kept(200, '')],
    ['HTTP/1.1 204 No Content\r\n\r\n', kept(204, '')],
    ['HTTP/1.1 304\r\nContent-Length: 7\r\n\r\n', kept(304, '')],
    [`HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\n${OK}content-length:1\r\n\r\nx`, kept(200, 'x')],
    [
      `${OK}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n, world!!!\r\n0\r\n\r\n`,
      kept(200, 'hello, world!!!'),
    ],
    [`${OK}transfer-encoding: Chunked\r\n\r\n1\r\na\r\n0\r\nTrailer: x\r\n\r\n`, kept(200, 'a')],
    [`${OK}Connection: close\r\nContent-Length: 2\r\n\r\nab`, { ...kept(200, 'ab'), isKept: false }],
    [`${OK}\r\nuntil the end`, { ...kept(200, 'until the end'), isKept: false }],
    ['HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab', { ...kept(200, 'ab'), isKept: false }],
    [
      'HTTP/1.1 429 Too Many Requests\r\nRetry-After:  1 \r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nz',
      { ...kept(429, 'z'), headers: { 'retry-after': '1', 'content-encoding': 'gzip' } },
    ],
  ];
  for (const [text, expected] of answers) {
    for (let size = 1; size <= text.length; size += 1) {
      assert.deepEqual(read(text, size), expected, `${text} in pieces of ${size}`);
    }
  }
});

test('if the connection ends before the end of an HTTP answer, the answer does not count as complete', () => {
  for (const text of [
    `${OK}Content-Length: 5\r\n\r\nhell`,
    `${OK}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n`,
    `${OK}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n`,
    `${OK}Content-Length: 5\r\n`,
    '',
  ]) {
    assert.equal(read(text), undefined, text);
  }
});

test('if more bytes follow an HTTP answer, its connection is not reused', () => {
  assert.deepEqual(read(`${OK}Content-Length: 2\r\n\r\nabHTTP/1.1`), { ...kept(200, 'ab'), isKept: false });
  const chunked = `${OK}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nmore`;
  assert.deepEqual(read(chunked), { ...kept(200, 'a'), isKept: false });
});

test('an answer that is not valid HTTP/1.1 is refused, and the error does not quote it', () => {
  for (const text of [
    'SECRET\r\n\r\n',
    'HTTP/2 200\r\n\r\n',
    'HTTP/1.1 101 Switching Protocols\r\n\r\n',
    'HTTP/1.1 099 SECRET\r\n\r\n',
    `${OK}SECRET\r\n\r\n`,
    `${OK}Content-Length: -1\r\n\r\n`,
    `${OK}Content-Length: 1\r\nContent-Length: 2\r\n\r\nSE`,
    `${OK}Transfer-Encoding: SECRET, chunked\r\n\r\n`,
    `${OK}Transfer-Encoding: chunked\r\n\r\nSECRET\r\n`,
    `${OK}Transfer-Encoding: chunked\r\n\r\n1\r\nSECRET\r\n`,
    `${OK}Transfer-Encoding: chunked\r\n\r\n${'1'.repeat(2000)}`,
    `${OK}A: ${'x'.repeat(20_000)}`,
    `${OK}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\nSECRET`,
    `${OK}Transfer-Encoding: chunked\r\n\r\n0\r\n${'SECRET: x\r\n'.repeat(2000)}`,
    // A TLS alert, which never has the empty line that ends an HTTP head.
    '\u0015\u0003\u0001\u0000\u0002SECRET',
  ]) {
    assert.throws(
      () => read(text),
      (error: Error & { code: string }) => error.code === 'EPROTO' && !error.message.includes('SECRET'),
      text.slice(0, 60),
    );
  }
});

test('an HTTP answer above the size limit is refused, by its Content-Length or when too many bytes have come', () => {
  const tooLarge = { name: 'AnswerTooLargeError', code: 'EMSGSIZE' };
  assert.throws(() => read(`${OK}Content-Length: 1001\r\n\r\n`), tooLarge);
  assert.throws(() => read(`${OK}\r\n${'x'.repeat(1001)}`, 100), tooLarge);
  assert.throws(() => read(`${OK}Transfer-Encoding: chunked\r\n\r\n3e9\r\n${'x'.repeat(1001)}`, 100), tooLarge);
  assert.equal(read(`${OK}Content-Length: 1000\r\n\r\n${'x'.repeat(1000)}`, 100)?.body.length, 1000);
});
