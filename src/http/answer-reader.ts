/**
 * Reads one answer of HTTP/1.1 (RFC 9112) from the bytes of a connection.
 *
 *   head ──(1xx: the next head)──▶ body: of a known length | in chunks | until the connection ends ──▶ done
 *
 * State: when the answer is complete, `push` or `end` sets `isDone`. Errors do not quote the answer, because a server
 * may repeat secrets of the request in its answer.
 */
import { AnswerTooLargeError, HttpError } from './errors.ts';

/** Largest head of an answer, and largest trailers, bytes. The limit is the same as in node:http. */
const MAX_HEAD_BYTES = 16 * 1024;
/** Every answer of HTTP/1 begins with this text. */
const VERSION = 'HTTP/1.';
/** Maximum length of the line before a chunk. The line is a number, the size of the chunk, without extensions. */
const MAX_LINE = 1024;
const HEAD_END = '\r\n\r\n';

/** What must be in the next line of a chunked body. */
type Next = 'size' | 'end of chunk' | 'trailer';

/** The headers that callers need. All other headers are dropped. */
export type AnswerHeaders = Partial<Record<'retry-after' | 'content-encoding', string>>;

export class AnswerReader {
  status = 0;
  readonly headers: AnswerHeaders = {};
  isDone = false;
  /** Whether at least one byte of the answer has arrived. */
  hasBegun = false;
  /** Whether the connection can be reused after this answer. */
  isKept = true;
  readonly #maxBodyBytes: number;
  #head: Buffer | undefined;
  readonly #pieces: Buffer[] = [];
  #size = 0;
  /** Missing bytes of the body or of the current chunk. `Infinity`: the body ends with the connection. */
  #left = 0;
  #isChunked = false;
  #next: Next = 'size';
  #line = '';
  #trailerBytes = 0;

  constructor(maxBodyBytes: number) {
    this.#maxBodyBytes = maxBodyBytes;
  }

  get body(): Buffer {
    const [first] = this.#pieces;
    return this.#pieces.length === 1 && first !== undefined ? first : Buffer.concat(this.#pieces, this.#size);
  }

  /** Reads the next bytes. @throws HttpError `EPROTO` if they are not HTTP/1.1; AnswerTooLargeError */
  push(bytes: Buffer): void {
    this.hasBegun = true;
    let rest: Buffer | undefined = bytes;
    while (rest !== undefined && this.status === 0) rest = this.#readHead(rest);
    if (rest === undefined) return;
    if (this.#isChunked) this.#readChunks(rest);
    else if (rest.length > 0 || this.#left === 0) this.#readBody(rest);
  }

  /** Called when the connection has ended. @returns whether the answer is complete */
  end(): boolean {
    this.isKept = false;
    if (this.#left === Infinity) this.isDone = true;
    return this.isDone;
  }

  /** Reads the head. @returns the bytes after the head; `undefined`: the head is not complete yet */
  #readHead(bytes: Buffer): Buffer | undefined {
    const all = this.#head === undefined ? bytes : Buffer.concat([this.#head, bytes]);
    const begin = all.toString('latin1', 0, VERSION.length);
    // Checked before the head is complete: a server with another protocol (a TLS alert) may never end its head.
    if (!VERSION.startsWith(begin)) throw protocolError('the answer is not HTTP/1.1');
    const end = all.indexOf(HEAD_END);
    if ((end < 0 ? all.length : end) > MAX_HEAD_BYTES) throw protocolError('the head of the answer is too long');
    this.#head = end < 0 ? all : undefined;
    if (end < 0) return undefined;
    this.#takeHead(all.toString('latin1', 0, end));
    return all.subarray(end + HEAD_END.length);
  }

  #takeHead(head: string): void {
    const [, minor, code] = /^HTTP\/1\.([01]) (\d{3})(?: |\r|$)/u.exec(head) ?? [];
    const status = Number(code);
    if (minor === undefined || status < 100 || status === 101) throw protocolError('the answer is not HTTP/1.1');
    if (status < 200) return;
    this.status = status;
    this.isKept = minor === '1';
    this.#left = Infinity;
    for (let from = head.indexOf('\r\n'); from >= 0;) {
      const to = head.indexOf('\r\n', from + 2);
      this.#takeHeader(head.slice(from + 2, to < 0 ? undefined : to));
      from = to;
    }
    // Chunks and Content-Length contradict each other, so it is not certain where the answer ends (RFC 9112, 6.1).
    if (this.#isChunked && this.#left !== Infinity) throw protocolError('the answer has two lengths');
    if (this.#isChunked || status === 204 || status === 304) this.#left = 0;
    if (this.#left === Infinity) this.isKept = false;
    else if (this.#left > this.#maxBodyBytes) throw this.#tooLarge();
  }

  #takeHeader(line: string): void {
    const colon = line.indexOf(':');
    if (colon <= 0) throw protocolError('a header of the answer has no name');
    const value = line.slice(colon + 1).trim();
    switch (line.slice(0, colon).toLowerCase()) {
      case 'content-length': {
        const length = Number(value);
        const isAgain = this.#left !== Infinity && this.#left !== length;
        if (!/^\d{1,15}$/u.test(value) || isAgain) throw protocolError('the answer has no valid Content-Length');
        this.#left = length;
        break;
      }
      case 'transfer-encoding':
        if (value.toLowerCase() !== 'chunked') throw protocolError('the answer has an unknown Transfer-Encoding');
        this.#isChunked = true;
        break;
      case 'connection':
        if (/\bclose\b/iu.test(line)) this.isKept = false;
        break;
      case 'retry-after':
        this.headers['retry-after'] = value;
        break;
      case 'content-encoding':
        this.headers['content-encoding'] = value.toLowerCase();
        break;
      default:
    }
  }

  #readBody(bytes: Buffer): void {
    // If more bytes follow the complete answer, the connection cannot be reused.
    if (bytes.length > this.#left) this.isKept = false;
    this.#take(bytes.length > this.#left ? bytes.subarray(0, this.#left) : bytes);
    this.#left -= bytes.length;
    if (this.#left <= 0) this.isDone = true;
  }

  #readChunks(bytes: Buffer): void {
    let rest = bytes;
    while (rest.length > 0) {
      if (this.isDone) {
        this.isKept = false;
        return;
      }
      if (this.#left > 0) {
        const piece = rest.subarray(0, this.#left);
        this.#take(piece);
        this.#left -= piece.length;
        rest = rest.subarray(piece.length);
        continue;
      }
      const end = rest.indexOf(0x0a);
      this.#line += rest.toString('latin1', 0, end < 0 ? undefined : end);
      if (this.#line.length > MAX_LINE) throw protocolError('a line between the chunks of the answer is too long');
      if (end < 0) return;
      rest = rest.subarray(end + 1);
      const line = this.#line.trimEnd();
      this.#line = '';
      this.#takeLine(line);
    }
  }

  /** Reads a line between chunks. */
  #takeLine(line: string): void {
    if (this.#next === 'trailer') {
      this.#trailerBytes += line.length;
      if (this.#trailerBytes > MAX_HEAD_BYTES) throw protocolError('the trailers of the answer are too long');
      if (line === '') this.isDone = true;
    } else if (this.#next === 'end of chunk') {
      if (line !== '') throw protocolError('a chunk of the answer is longer than its size');
      this.#next = 'size';
    } else {
      const [, size] = /^([0-9a-f]{1,12})(?:[ \t]*;.*)?$/iu.exec(line) ?? [];
      if (size === undefined) throw protocolError('a chunk of the answer has no size');
      this.#left = Number.parseInt(size, 16);
      this.#next = this.#left === 0 ? 'trailer' : 'end of chunk';
    }
  }

  #take(piece: Buffer): void {
    if (piece.length === 0) return;
    this.#size += piece.length;
    if (this.#size > this.#maxBodyBytes) throw this.#tooLarge();
    this.#pieces.push(piece);
  }

  #tooLarge(): Error {
    return new AnswerTooLargeError(this.status, `the answer is larger than ${this.#maxBodyBytes} bytes`);
  }
}

function protocolError(message: string): Error {
  return new HttpError('EPROTO', message);
}
