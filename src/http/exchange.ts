/**
 * Sends one HTTP request over node:http and reads its answer. Redirects, repeated requests and credentials are left to
 * the clients (kube/http.ts, vault/client/transport.ts).
 */
import {
  type Agent,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as httpRequest,
} from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Socket } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { AnswerTooLargeError, HttpError, StaleConnectionError } from './errors.ts';

/** Address of a server, and the headers of every request to it. */
export interface Route {
  readonly secure: boolean;
  readonly host: string;
  readonly port: number;
  /** Put in front of every path. Empty, or without a slash at its end, for example `/k8s/clusters/c-1`. */
  readonly basePath: string;
  /** Names and values in turn: name, value, name, value. */
  readonly headers: readonly string[];
  /** Proxy that opens a tunnel for each connection (CONNECT or SOCKS5); `undefined`: direct connections. */
  readonly tunnel: URL | undefined;
}

/** An array of pieces is written piece by piece, so that a secret value need not become a part of a string. */
type RequestBody = string | Uint8Array | readonly Uint8Array[];

export interface HttpRequest {
  readonly method: string;
  /** Percent-encoded path and query. */
  readonly path: string;
  /** Names and values in turn, without `Content-Length`, which is added when the request is sent. */
  readonly headers: readonly string[];
  readonly body?: RequestBody | undefined;
  /** Called when the connection is open, immediately before the request is written. If it throws, nothing is sent. */
  readonly beforeSending?: (() => void) | undefined;
}

export interface ExchangeOptions {
  readonly agent: Agent;
  /** Largest body, bytes, also after it was decompressed. A stream has no limit. */
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

/**
 * Makes the route to the server with this URL.
 * @param headers sent with every request, in addition to `Host`
 * @param proxy `http`, `https` or `socks5`. It opens a tunnel. But an HTTP proxy of a plain HTTP server forwards: it
 *   gets the whole URL (RFC 9112, 3.2.2), because many proxies allow tunnels only to port 443.
 */
export function routeTo(server: URL, headers: readonly string[], proxy?: URL): Route {
  const all = ['Host', server.host, ...headers];
  const basePath = server.pathname.replace(/\/+$/u, '');
  if (proxy === undefined || server.protocol === 'https:' || proxy.protocol === 'socks5:')
    return { ...hostAndPort(server), basePath, headers: all, tunnel: proxy };
  const { username, password } = proxy;
  if (username !== '') {
    const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
    all.push('Proxy-Authorization', `Basic ${Buffer.from(login).toString('base64')}`);
  }
  return { ...hostAndPort(proxy), basePath: server.origin + basePath, headers: all, tunnel: undefined };
}

export function hostAndPort({ protocol, hostname, port }: URL): Pick<Route, 'secure' | 'host' | 'port'> {
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
    explain(error);
    const { code } = error;
    const closed = outgoing.reusedSocket && !answered && (code === 'ECONNRESET' || code === 'EPIPE');
    reject(closed ? new StaleConnectionError(code, error) : error);
  });
  // Without this listener, Node closes the connection and reports nothing.
  outgoing.on('upgrade', () => abort(new HttpError('EPROTO', 'the server wants to change the protocol')));
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
    incoming.on('end', () => {
      try {
        const body = Buffer.concat(pieces, size);
        const isCompressed = headers['content-encoding'] === 'gzip';
        const whole = isCompressed ? gunzipSync(body, { maxOutputLength: options.maxBytes }) : body;
        resolve({ status, headers, body: whole, stream: undefined });
      } catch (error) {
        reject((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE' ? tooLarge() : error);
      }
    });
    incoming.on('error', abort);
    if (Number(headers['content-length'] ?? 0) > options.maxBytes) abort(tooLarge());
  });
  const { beforeSending } = request;
  if (beforeSending === undefined) writeBody(outgoing, request.body);
  else {
    whenOpen(outgoing, () => {
      try {
        beforeSending();
        writeBody(outgoing, request.body);
      } catch (error) {
        abort(error);
      }
    });
  }
  return { answer: promise, abort };
}

/** Texts of failed TLS handshakes: Node gives advice on its own flags, and OpenSSL does not say what is not supported. */
const ADVICE = /; if the root CA is installed locally, try running .*/;
const SIGNATURE = /certificate signature failure/;
const ONE_NAME = '$&: of several CAs in a bundle with one name and no key identifier, only the first is tried';

/** Corrects these texts in the error itself, because logs show causes and stacks, too. */
function explain(error: Error): void {
  const plain = (text: string): string => text.replace(ADVICE, '').replace(SIGNATURE, ONE_NAME);
  error.message = plain(error.message);
  error.stack = plain(error.stack ?? '');
}

/**
 * Calls `then` when the connection of the request is open. A socket exists before that, and sends later what it is
 * given. Meanwhile the process may lose its permission to write.
 */
function whenOpen(outgoing: ClientRequest, then: () => void): void {
  outgoing.once('socket', (socket: Socket & { readonly secureConnecting?: boolean }) => {
    // Only TLS sockets have `secureConnecting`.
    if (socket.secureConnecting === true) socket.once('secureConnect', then);
    else if (socket.connecting) socket.once('connect', then);
    else then();
  });
}

/** Ends the request with its body. Pieces are sent together with the head. */
function writeBody(outgoing: ClientRequest, body: RequestBody | undefined): void {
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) {
    outgoing.end(body);
    return;
  }
  outgoing.cork();
  for (const piece of body) outgoing.write(piece);
  outgoing.end();
}

const NOTHING = Buffer.alloc(0);

function lengthHeader({ method, body }: HttpRequest): readonly string[] {
  if (body === undefined && (method === 'GET' || method === 'DELETE')) return [];
  return ['Content-Length', String(lengthOf(body))];
}

/** The length of a body in bytes. */
function lengthOf(body: RequestBody | undefined): number {
  if (body === undefined) return 0;
  if (typeof body === 'string') return Buffer.byteLength(body);
  if (body instanceof Uint8Array) return body.byteLength;
  return body.reduce((length, piece) => length + piece.byteLength, 0);
}
