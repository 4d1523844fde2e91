/**
 * Sends one HTTP request over node:http and reads its answer, for watches and for Vault. Redirects, repeated requests
 * and credentials are left to the clients (kube/http.ts, vault/client/transport.ts).
 */
import { type Agent, type IncomingHttpHeaders, type IncomingMessage, request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { AnswerTooLargeError, StaleConnectionError } from './errors.ts';

/** Address of a server, and the headers of every request to it. */
export interface Route {
  readonly secure: boolean;
  readonly host: string;
  readonly port: number;
  /** Put in front of every path. Empty, or without a slash at its end, for example `/k8s/clusters/c-1`. */
  readonly basePath: string;
  /** Names and values in turn: name, value, name, value. */
  readonly headers: readonly string[];
}

/** An array of pieces is written piece by piece, so that a secret value need not become a part of a string. */
export type RequestBody = string | Uint8Array | readonly Uint8Array[];

export interface HttpRequest {
  readonly method: string;
  /** Percent-encoded path and query. */
  readonly path: string;
  /** Names and values in turn, without `Content-Length`, which is added when the request is sent. */
  readonly headers: readonly string[];
  readonly body?: RequestBody | undefined;
  /** Only `KeptConnections` calls this, immediately before it writes the request. If it throws, nothing is sent. */
  readonly beforeSending?: (() => void) | undefined;
}

export interface ExchangeOptions {
  readonly agent: Agent;
  /** Largest body, bytes. A stream has no limit. */
  readonly maxBytes: number;
  /** `true`: an answer of 200–299 is returned as a stream, before its body has arrived. Default `false`. */
  readonly streaming?: boolean;
  /** Called after each piece of a body, with the bytes so far. The next piece is read when the promise has settled. */
  readonly onData?: (size: number, status: number) => Promise<unknown> | undefined;
}

/** An answer that was read to its end. But if `stream` is set, `body` is empty, and the body arrives in the stream. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly stream: IncomingMessage | undefined;
}

export interface Exchange {
  /** @throws StaleConnectionError, AnswerTooLargeError, an error of Node, or the reason given to `abort` */
  readonly answer: Promise<Answer>;
  /** Closes the connection. If `answer` has not settled yet, it rejects with the reason. */
  readonly abort: (reason: unknown) => void;
}

/** Makes the route to the server with this URL. @param headers sent with every request, in addition to `Host` */
export function routeTo(server: URL, headers: readonly string[]): Route {
  return {
    ...hostAndPort(server),
    basePath: server.pathname.replace(/\/+$/u, ''),
    headers: ['Host', server.host, ...headers],
  };
}

export function hostAndPort({ protocol, hostname, port }: URL): { secure: boolean; host: string; port: number } {
  const secure = protocol === 'https:';
  const host = hostname.replace(/^\[|\]$/gu, '');
  return { secure, host, port: port === '' ? (secure ? 443 : 80) : Number(port) };
}

/** Sends the request. Adds listeners only to the request and its response, so that none stays on the connection. */
export function exchange(route: Route, request: HttpRequest, options: ExchangeOptions): Exchange {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const send = route.secure ? httpsRequest : httpRequest;
  const outgoing = send({
    agent: options.agent,
    host: route.host,
    port: route.port,
    method: request.method,
    path: route.basePath + request.path,
    headers: [...route.headers, ...request.headers, ...lengthHeader(request)],
  });
  // `destroy` also causes an error event, which has no effect, because the promise was already rejected.
  const abort = (reason: unknown): void => {
    reject(reason);
    outgoing.destroy();
  };
  let answered = false;
  outgoing.on('error', (error: NodeJS.ErrnoException) => {
    const { code } = error;
    const closed = outgoing.reusedSocket && !answered && (code === 'ECONNRESET' || code === 'EPIPE');
    reject(closed ? new StaleConnectionError(code, error) : error);
  });
  outgoing.on('response', (incoming) => {
    answered = true;
    const { statusCode: status = 0, headers } = incoming;
    if (options.streaming === true && status >= 200 && status < 300) {
      resolve({ status, headers, body: NOTHING, stream: incoming });
      return;
    }
    const pieces: Buffer[] = [];
    let size = 0;
    const tooLarge = (): Error => {
      return new AnswerTooLargeError(status, `the answer is larger than ${options.maxBytes} bytes`);
    };
    incoming.on('data', (piece: Buffer) => {
      size += piece.length;
      pieces.push(piece);
      if (size > options.maxBytes) abort(tooLarge());
      const pause = options.onData?.(size, status);
      if (pause === undefined) return;
      incoming.pause();
      pause.then(() => incoming.resume(), abort);
    });
    incoming.on('end', () => resolve({ status, headers, body: Buffer.concat(pieces, size), stream: undefined }));
    incoming.on('error', abort);
    if (Number(headers['content-length'] ?? 0) > options.maxBytes) abort(tooLarge());
  });
  if (request.body === undefined || typeof request.body === 'string' || request.body instanceof Uint8Array) {
    outgoing.end(request.body);
  } else {
    for (const piece of request.body) outgoing.write(piece);
    outgoing.end();
  }
  return { answer: promise, abort };
}

const NOTHING = Buffer.alloc(0);

function lengthHeader({ method, body }: HttpRequest): readonly string[] {
  if (body === undefined && (method === 'GET' || method === 'DELETE')) return [];
  return ['Content-Length', String(lengthOf(body))];
}

/** The length of a body in bytes. */
export function lengthOf(body: RequestBody | undefined): number {
  if (body === undefined) return 0;
  if (typeof body === 'string') return Buffer.byteLength(body);
  if (body instanceof Uint8Array) return body.byteLength;
  return body.reduce((length, piece) => length + piece.byteLength, 0);
}
