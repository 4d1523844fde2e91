/** One HTTP request and its answer on one connection; no policy (see http.ts for turns, repeats and credentials). */
import { type Agent, type IncomingMessage, request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { gunzipSync } from 'node:zlib';
import type { KubeRequest } from './api.ts';
import type { CallLimit } from './call-limit.ts';
import { ConnectionError, toConnectionError } from './errors.ts';

/** Where and how to send. */
export interface Route {
  readonly secure: boolean;
  readonly host: string;
  readonly port: number;
  /** In front of every path, without a slash at its end: `` or `/k8s/clusters/c-1`. */
  readonly basePath: string;
  /** Name, value, name, value: what every request of these credentials carries. */
  readonly headers: readonly string[];
}

/** An answer, read to its end, or with `stream` set still arriving. */
export interface Answer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly body: Buffer;
  readonly stream: IncomingMessage | undefined;
}

/**
 * A kept connection turned out to be closed before a byte of the answer came.
 * `repeatable`: the server cannot have carried the request out, or it does no harm twice.
 */
export class StaleConnectionError extends ConnectionError {
  readonly repeatable: boolean;

  constructor(code: string, message: string, repeatable: boolean, cause: unknown) {
    super(code, message, { cause });
    this.repeatable = repeatable;
  }
}

export interface ExchangeOptions {
  readonly agent: Agent;
  readonly streaming: boolean;
  readonly maxBodyBytes: number;
}

/**
 * Sends the request. Listens on nothing that outlives it: all listeners sit on its own request and response objects.
 * @throws ConnectionError, StaleConnectionError, or the reason of the limit
 */
export function exchange(
  route: Route,
  request: KubeRequest,
  limit: CallLimit,
  { agent, streaming, maxBodyBytes }: ExchangeOptions,
): Promise<Answer> {
  const tooLarge = (): ConnectionError => {
    const { method, path } = limit.call;
    return new ConnectionError('EMSGSIZE', `${method} ${path}: the answer is larger than ${maxBodyBytes} bytes`);
  };
  return new Promise<Answer>((resolve, reject) => {
    const send = route.secure ? httpsRequest : httpRequest;
    const outgoing = send({
      agent,
      host: route.host,
      port: route.port,
      method: request.method,
      path: pathOf(route, request),
      headers: headersOf(route, request),
    });
    limit.stage = 'connecting or waiting for the answer';
    limit.onOver = (reason) => {
      reject(reason);
      outgoing.destroy();
    };
    let answered = false;
    outgoing.on('error', (error: Error) => {
      // After our own destroy() this is the echo of it, and the promise is settled.
      const failure = toConnectionError(limit.call, error);
      const stale = outgoing.reusedSocket && !answered && (failure.code === 'ECONNRESET' || failure.code === 'EPIPE');
      reject(stale ? staleError(failure, request) : failure);
    });
    outgoing.on('response', (incoming) => {
      answered = true;
      const status = incoming.statusCode ?? 0;
      const retryAfter = incoming.headers['retry-after'];
      if (streaming && status >= 200 && status < 300) {
        resolve({ status, retryAfter, body: NOTHING, stream: incoming });
        return;
      }
      limit.stage = 'reading the answer';
      const pieces: Buffer[] = [];
      let size = 0;
      incoming.on('data', (piece: Buffer) => {
        size += piece.length;
        pieces.push(piece);
        if (size <= maxBodyBytes) return;
        reject(tooLarge());
        outgoing.destroy();
      });
      incoming.on('end', () => {
        const [first] = pieces;
        const received = pieces.length === 1 && first !== undefined ? first : Buffer.concat(pieces, size);
        try {
          const compressed = incoming.headers['content-encoding'] === 'gzip';
          const body = compressed ? gunzipSync(received, { maxOutputLength: maxBodyBytes }) : received;
          resolve({ status, retryAfter, body, stream: undefined });
        } catch (error) {
          reject(
            (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE'
              ? tooLarge()
              : toConnectionError(limit.call, error),
          );
        }
      });
      incoming.on('error', (error: Error) => {
        reject(toConnectionError(limit.call, error));
      });
    });
    sendBody(outgoing, request.body);
  });
}

const NOTHING = Buffer.alloc(0);

/**
 * EPIPE: the kernel refused to take a part of the request, so the server cannot have all of it. ECONNRESET says nothing
 * about that, so only what does no harm twice is repeated.
 */
function staleError(failure: ConnectionError, { method }: KubeRequest): StaleConnectionError {
  const repeatable = failure.code === 'EPIPE' || method === 'GET';
  return new StaleConnectionError(failure.code, failure.message, repeatable, failure.cause);
}

function pathOf(route: Route, { path, query }: KubeRequest): string {
  let result = route.basePath + path;
  if (query === undefined) return result;
  let separator = '?';
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    result += `${separator}${encodeURIComponent(name)}=${encodeURIComponent(value)}`;
    separator = '&';
  }
  return result;
}

function headersOf(route: Route, { method, body, contentType, accept, compressed }: KubeRequest): string[] {
  const headers = [...route.headers, 'Accept', accept ?? 'application/json'];
  if (compressed === true) headers.push('Accept-Encoding', 'gzip');
  if (body !== undefined) {
    headers.push('Content-Type', contentType ?? 'application/json', 'Content-Length', String(lengthOf(body)));
  } else if (method !== 'GET' && method !== 'DELETE') {
    headers.push('Content-Length', '0');
  }
  return headers;
}

function lengthOf(body: NonNullable<KubeRequest['body']>): number {
  if (typeof body === 'string') return Buffer.byteLength(body);
  if (body instanceof Uint8Array) return body.byteLength;
  let length = 0;
  for (const piece of body) length += piece.byteLength;
  return length;
}

function sendBody(outgoing: ReturnType<typeof httpRequest>, body: KubeRequest['body']): void {
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) {
    outgoing.end(body);
    return;
  }
  for (const piece of body) outgoing.write(piece);
  outgoing.end();
}
