/**
 * Kept connections for calls to one server, without node:http, which takes three times the CPU time for each call and
 * allocates ten times the memory. Watches use node:http, because they are few and long.
 *
 *   opening ──▶ busy ──answer complete──▶ idle ──next call──▶ busy      each state ──error, end, time limit──▶ closed
 *
 * Invariants: a connection carries one call at a time; a call settles exactly one time; a connection is kept only if
 * the answer is complete and allows it.
 */
import type { Socket } from 'node:net';
import { gunzipSync } from 'node:zlib';
import type { Opener } from './agent.ts';
import { AnswerReader } from './answer-reader.ts';
import { AnswerTooLargeError, HttpError, StaleConnectionError } from './errors.ts';
import { type Answer, type Exchange, type HttpRequest, lengthOf, type Route } from './exchange.ts';

export class KeptConnections {
  readonly #opener: Opener;
  readonly #idleMs: number;
  readonly #all = new Set<KeptConnection>();
  /** The idle connections, least recently used first. */
  readonly #idle: KeptConnection[] = [];
  #isRetired = false;

  /** @param idleMs an idle connection is closed after this time, ms */
  constructor(opener: Opener, idleMs: number) {
    this.#opener = opener;
    this.#idleMs = idleMs;
  }

  /** Whether no call is running. */
  get isIdle(): boolean {
    return this.#idle.length === this.#all.size;
  }

  /**
   * Sends a request over a kept connection, or a new one. Callers limit the number of concurrent calls.
   * @param maxBytes limit of the answer's body, uncompressed
   * @throws HttpError `ERR_UNESCAPED_CHARACTERS` for a path or header that would break the request
   */
  call(route: Route, request: HttpRequest, maxBytes: number): Exchange {
    const bytes = bytesOf(route, request);
    const connection = this.#idle.shift() ?? this.#open();
    const reader = new AnswerReader(maxBytes);
    return {
      answer: connection
        .send({ bytes, beforeSending: request.beforeSending }, reader)
        .then(() => answerOf(reader, maxBytes)),
      abort: (reason) => connection.abort(reader, reason),
    };
  }

  closeIdle(): void {
    for (const connection of this.#idle.splice(0)) connection.close();
  }

  /** Closes idle connections now, and each other connection after its call. */
  retire(): void {
    this.#isRetired = true;
    this.closeIdle();
  }

  destroy(): void {
    this.#isRetired = true;
    for (const connection of this.#all) connection.close();
  }

  #open(): KeptConnection {
    const connection = new KeptConnection(this, this.#idleMs);
    this.#all.add(connection);
    this.#opener((error, socket) => connection.opened(error, socket));
    return connection;
  }

  /** Called by a connection when its call has ended. */
  becameIdle(connection: KeptConnection): void {
    if (this.#isRetired) connection.close();
    else this.#idle.push(connection);
  }

  /** Called by a connection when it is closed. */
  wasClosed(connection: KeptConnection): void {
    this.#all.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
  }
}

/** The bytes of a request, and the check that is made immediately before these bytes are sent. */
interface Outgoing {
  readonly bytes: Buffer;
  readonly beforeSending: HttpRequest['beforeSending'];
}

interface Call {
  readonly reader: AnswerReader;
  readonly resolve: (answer: AnswerReader) => void;
  readonly reject: (error: unknown) => void;
}

class KeptConnection {
  readonly #pool: KeptConnections;
  readonly #idleMs: number;
  #socket: Socket | undefined;
  #call: Call | undefined;
  /** The request that waits for the socket to be created. */
  #waiting: Outgoing | undefined;
  #isReused = false;
  #isClosed = false;

  constructor(pool: KeptConnections, idleMs: number) {
    this.#pool = pool;
    this.#idleMs = idleMs;
  }

  send(request: Outgoing, reader: AnswerReader): Promise<AnswerReader> {
    return new Promise<AnswerReader>((resolve, reject) => {
      this.#call = { reader, resolve, reject };
      if (this.#socket === undefined) this.#waiting = request;
      else {
        this.#socket.ref();
        this.#write(this.#socket, request);
      }
    });
  }

  opened(error: Error | null, socket: Socket | undefined): void {
    if (this.#isClosed) {
      socket?.destroy();
      return;
    }
    if (socket === undefined) {
      this.close(error);
      return;
    }
    this.#socket = socket;
    socket.on('data', (bytes: Buffer) => this.#read(bytes));
    socket.on('error', (failure: Error) => this.close(failure));
    socket.on('end', () => {
      if (this.#call?.reader.end() === true) this.#done(this.#call);
      else this.close();
    });
    socket.on('close', () => this.close());
    socket.on('timeout', () => {
      if (this.#call === undefined) this.close();
    });
    socket.setTimeout(this.#idleMs);
    if (this.#waiting !== undefined) this.#write(socket, this.#waiting);
    this.#waiting = undefined;
  }

  #write(socket: Socket, request: Outgoing): void {
    const { bytes, beforeSending } = request;
    if (beforeSending !== undefined) {
      // If the socket is not open yet, it sends the bytes later. Until then the process may lose its permission to
      // write. So the check waits until the socket is open.
      const event = openingOf(socket);
      if (event !== undefined) {
        socket.once(event, () => this.#write(socket, request));
        return;
      }
      if (this.#isClosed) return;
      try {
        beforeSending();
      } catch (error) {
        this.close(error);
        return;
      }
    }
    socket.write(bytes);
  }

  /** Aborts the call with this reader. Does nothing if that call has ended: another call may use the connection now. */
  abort(reader: AnswerReader, reason: unknown): void {
    if (this.#call?.reader === reader) this.close(reason);
  }

  #read(bytes: Buffer): void {
    const call = this.#call;
    // These bytes belong to no call. The next call would take them for its answer.
    if (call === undefined) this.close();
    else {
      try {
        call.reader.push(bytes);
        if (call.reader.isDone) this.#done(call);
      } catch (error) {
        this.close(error);
      }
    }
  }

  #done({ reader, resolve }: Call): void {
    this.#call = undefined;
    const socket = this.#socket;
    if (reader.isKept && socket?.writable === true) {
      this.#isReused = true;
      // An idle connection does not keep the process alive.
      socket.unref();
      this.#pool.becameIdle(this);
    } else this.close();
    resolve(reader);
  }

  /** Closes the connection. A running call fails with `cause`. */
  close(cause: unknown = new HttpError('ECONNRESET', 'the server closed the connection')): void {
    const call = this.#call;
    this.#call = undefined;
    if (!this.#isClosed) {
      this.#isClosed = true;
      this.#pool.wasClosed(this);
      this.#socket?.destroy();
    }
    call?.reject(this.#isReused && !call.reader.hasBegun ? staleOr(cause) : cause);
  }
}

/** The event that says that the socket is open; `undefined`: it is open. Only TLS sockets have `secureConnecting`. */
function openingOf(socket: Socket & { readonly secureConnecting?: boolean }): 'secureConnect' | 'connect' | undefined {
  if (socket.secureConnecting === true) return 'secureConnect';
  return socket.connecting ? 'connect' : undefined;
}

/** The error for a call on a reused connection that failed before a byte of the answer came. */
function staleOr(cause: unknown): unknown {
  const { code } = cause as NodeJS.ErrnoException;
  return code === 'ECONNRESET' || code === 'EPIPE' ? new StaleConnectionError(code, cause as Error) : cause;
}

/** Characters that must not be in a path or header, such as line breaks: the same as in node:http. */
const UNSENDABLE = { path: /[^\u0021-\u00ff]/u, header: /[^\t\u0020-\u007e\u0080-\u00ff]/u };

/** Puts the whole request into one buffer, because a second write to the socket costs more than a copy. */
function bytesOf(route: Route, { method, path, headers, body }: HttpRequest): Buffer {
  const target = route.basePath + path;
  if (UNSENDABLE.path.test(target)) throw unsendable('path');
  let head = `${method} ${target} HTTP/1.1\r\n`;
  for (const list of [route.headers, headers]) {
    for (let at = 0; at + 1 < list.length; at += 2) head += `${list[at] ?? ''}: ${checked(list[at + 1] ?? '')}\r\n`;
  }
  const length = lengthOf(body);
  if (body !== undefined || (method !== 'GET' && method !== 'DELETE')) head += `Content-Length: ${length}\r\n`;
  head += '\r\n';
  const bytes = Buffer.allocUnsafe(head.length + length);
  let at = bytes.write(head, 'latin1');
  if (typeof body === 'string') bytes.write(body, at);
  else if (body instanceof Uint8Array) bytes.set(body, at);
  else {
    for (const piece of body ?? []) {
      bytes.set(piece, at);
      at += piece.byteLength;
    }
  }
  return bytes;
}

function checked(value: string): string {
  if (UNSENDABLE.header.test(value)) throw unsendable('header');
  return value;
}

function unsendable(what: string): HttpError {
  return new HttpError('ERR_UNESCAPED_CHARACTERS', `a ${what} of the request has characters that cannot be sent`);
}

function answerOf({ status, headers, body }: AnswerReader, maxBytes: number): Answer {
  if (headers['content-encoding'] !== 'gzip') return { status, headers, body, stream: undefined };
  try {
    return { status, headers, body: gunzipSync(body, { maxOutputLength: maxBytes }), stream: undefined };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_BUFFER_TOO_LARGE') throw error;
    throw new AnswerTooLargeError(status, `the answer is larger than ${maxBytes} bytes`);
  }
}
