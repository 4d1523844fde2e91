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
  /** In front of every path, without a slash at its end: `` or `/k8s/clusters/c-1`. */
  readonly basePath: string;
  /** Name, value, name, value. */
  readonly headers: readonly string[];
}

/** A body in pieces is written piece by piece, so that a secret value need not become a part of a string. */
export type RequestBody = string | Uint8Array | readonly Uint8Array[];

export interface HttpRequest {
  readonly method: string;
  /** Percent-encoded, with the query. */
  readonly path: string;
  /** Name, value, name, value; `Content-Length` is added here. */
  readonly headers: readonly string[];
  readonly body?: RequestBody | undefined;
  /** `KeptConnections` only: called right before the request is written. If it throws, nothing is sent. */
  readonly beforeSending?: (() => void) | undefined;
}

export interface ExchangeOptions {
  readonly agent: Agent;
  /** Largest body, bytes. A stream has no limit. */
  readonly maxBytes: number;
  /** Returns an answer of 200–299 as a stream, before its body has arrived. */
  readonly streaming?: boolean;
  /** Called after each piece of a body; no further piece is read before the promise settles. */
  readonly onData?: (size: number, status: number) => Promise<unknown> | undefined;
}

/** An answer that was read to its end; or, if `stream` is set, whose body is still arriving. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly stream: IncomingMessage | undefined;
}

export interface Exchange {
  /** @throws StaleConnectionError, AnswerTooLargeError, an error of Node, or the reason given to `abort` */
  readonly answer: Promise<Answer>;
  /** Closes the connection; `answer` rejects with the reason, unless it is settled. */
  readonly abort: (reason: unknown) => void;
}

/** The route to a server, below the path of its URL. @param headers go with every request, besides `Host` */
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

/** Sends the request. All listeners are on the request and its response, so none stays on the connection. */
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
  // `destroy` causes an error event, which then rejects a promise that is settled already.
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
