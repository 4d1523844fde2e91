/**
 * Serves the page on the loopback addresses of this machine. Data need a token (`session.ts`); every request must come
 * from this page or be typed by the user (`guard.ts`). Nothing is written, in the cluster or on disk.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { constants, createGzip } from 'node:zlib';

import type { PageSource } from '../data.ts';
import type { Feed } from './feed.ts';
import { HEADERS, refusalOf } from './guard.ts';
import { ICON, INDEX, page } from './page-file.ts';
import type { Sessions } from './session.ts';

/** Largest body of a request, bytes: manifests for a plan. */
const MAX_BODY = 4 * 1024 * 1024;
/** A request must be complete after this time, ms. A stream of data has no limit. */
const REQUEST_TIMEOUT_MS = 60_000;

export interface PageServerOptions {
  readonly port: number;
  readonly sessions: Sessions;
  readonly feed: Feed;
  readonly plan: PageSource['plan'];
}

export class PageServer implements AsyncDisposable {
  readonly port: number;
  readonly #servers: readonly Server[];

  private constructor(servers: readonly Server[], port: number) {
    this.#servers = servers;
    this.port = port;
  }

  /** @throws Error: the port is in use */
  static async start(options: PageServerOptions): Promise<PageServer> {
    const first = await listen(options, '127.0.0.1', options.port);
    const { port } = first.address() as AddressInfo;
    // A browser may take ::1 for localhost. A machine without IPv6 has none.
    const second = await listen(options, '::1', port).catch(() => undefined);
    return new PageServer(second === undefined ? [first] : [first, second], port);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(
      this.#servers.map(async (server) => {
        const closed = once(server, 'close');
        server.close();
        server.closeAllConnections();
        await closed;
      }),
    );
  }
}

async function listen(options: PageServerOptions, host: string, port: number): Promise<Server> {
  const server = createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, (request, response) => {
    answer(request, response, options).catch((error: unknown) => {
      if (response.headersSent) response.destroy();
      else send(response, 500, 'text/plain', error instanceof Error ? error.message : String(error));
    });
  });
  server.listen({ host, port, ipv6Only: true });
  await once(server, 'listening');
  return server;
}

function send(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, { ...HEADERS, 'content-type': `${type}; charset=utf-8`, connection: 'close' });
  response.end(body);
}

async function answer(request: IncomingMessage, response: ServerResponse, options: PageServerOptions): Promise<void> {
  const refusal = refusalOf(request.headers, request.socket.localPort ?? 0);
  if (refusal !== undefined) return send(response, 403, 'text/plain', refusal);
  const { sessions, feed, plan } = options;
  const token = /^Bearer (\S+)$/.exec(request.headers.authorization ?? '')?.[1] ?? '';
  const isKnown = sessions.knows(token);
  switch (`${request.method} ${request.url}`) {
    case 'GET /':
      return send(response, 200, 'text/html', INDEX);
    case 'GET /page.js':
      return send(response, 200, 'text/javascript', page().script);
    case 'GET /page.css':
      return send(response, 200, 'text/css', page().style);
    case 'GET /icon.svg':
      return send(response, 200, 'image/svg+xml', ICON);
    case 'POST /session': {
      const body = await jsonOf(request, response);
      if (body === undefined) return undefined;
      const found = sessions.redeem(textIn(body, 'code'));
      if (found === undefined) return send(response, 401, 'text/plain', 'the code is wrong, used or too old');
      return send(response, 200, 'application/json', JSON.stringify({ token: found }));
    }
    case 'GET /data':
      return isKnown ? stream(request, response, feed) : send(response, 401, 'text/plain', 'no valid token');
    case 'POST /plan': {
      if (!isKnown) return send(response, 401, 'text/plain', 'no valid token');
      const body = await jsonOf(request, response);
      if (body === undefined) return undefined;
      try {
        return send(response, 200, 'application/json', JSON.stringify(await plan(textIn(body, 'manifests'))));
      } catch (error) {
        return send(response, 422, 'text/plain', error instanceof Error ? error.message : String(error));
      }
    }
    default:
      return send(response, 404, 'text/plain', 'not found');
  }
}

function textIn(body: unknown, field: string): string {
  const value = typeof body === 'object' && body !== null ? (body as Record<string, unknown>)[field] : undefined;
  return typeof value === 'string' ? value : '';
}

/** The body as JSON; `undefined`: the request was answered with an error. A form of another page cannot send JSON. */
async function jsonOf(request: IncomingMessage, response: ServerResponse): Promise<unknown> {
  if (request.headers['content-type'] !== 'application/json') {
    send(response, 415, 'text/plain', 'the body must be JSON');
    return undefined;
  }
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > MAX_BODY) {
      send(response, 413, 'text/plain', `the body is larger than ${MAX_BODY / 1024 / 1024} MiB`);
      return undefined;
    }
    parts.push(part);
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString()) as unknown;
  } catch {
    send(response, 400, 'text/plain', 'the body is not JSON');
    return undefined;
  }
}

/** Sends a line of JSON for each message, compressed, until the page closes the connection. */
function stream(request: IncomingMessage, response: ServerResponse, feed: Feed): void {
  const isPacked = /\bgzip\b/.test(request.headers['accept-encoding']?.toString() ?? '');
  const type = { 'content-type': 'application/json-lines; charset=utf-8' };
  response.writeHead(200, { ...HEADERS, ...type, ...(isPacked && { 'content-encoding': 'gzip' }) });
  response.flushHeaders();
  const gzip = isPacked ? createGzip({ flush: constants.Z_SYNC_FLUSH }) : undefined;
  gzip?.pipe(response);
  const output = gzip ?? response;
  const reader = feed.add((message) => output.write(`${JSON.stringify(message)}\n`));
  output.on('drain', reader.resume);
  response.on('close', () => {
    reader.remove();
    gzip?.destroy();
  });
}
