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

interface Served {
  readonly sessions: Sessions;
  readonly feed: Feed;
  readonly plan: PageSource['plan'];
}

export interface PageServer extends AsyncDisposable {
  readonly port: number;
}

/** An answer other than 200. Its message is for the user. */
class Refusal extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** @throws Error: the port is in use */
export async function servePage(served: Served, wanted: number): Promise<PageServer> {
  const first = await listen(served, '127.0.0.1', wanted);
  const { port } = first.address() as AddressInfo;
  // A browser may take ::1 for localhost. A machine without IPv6 has none.
  const second = await listen(served, '::1', port).catch(() => undefined);
  const close = async (server: Server | undefined): Promise<void> => {
    const closed = server && once(server, 'close');
    server?.close();
    server?.closeAllConnections();
    await closed;
  };
  return { port, [Symbol.asyncDispose]: async () => void (await Promise.all([first, second].map(close))) };
}

async function listen(served: Served, host: string, port: number): Promise<Server> {
  const server = createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, (request, response) => {
    answer(request, response, served).catch((error: Error) => {
      if (response.headersSent) response.destroy();
      else send(response, 'text/plain', error.message, error instanceof Refusal ? error.status : 500);
    });
  });
  server.listen({ host, port, ipv6Only: true });
  await once(server, 'listening');
  return server;
}

function send(response: ServerResponse, type: string, body: string, status = 200): void {
  response.writeHead(status, { ...HEADERS, 'content-type': `${type}; charset=utf-8`, connection: 'close' });
  response.end(body);
}

async function answer(request: IncomingMessage, response: ServerResponse, served: Served): Promise<void> {
  const { headers, method, url, socket } = request;
  const refusal = refusalOf(headers, socket.localPort ?? 0);
  if (refusal !== undefined) throw new Refusal(403, refusal);
  const { sessions, feed, plan } = served;
  const requireToken = (): void => {
    const token = /^Bearer (\S+)$/.exec(headers.authorization ?? '')?.[1] ?? '';
    if (!sessions.knows(token)) throw new Refusal(401, 'no valid token');
  };
  switch (`${method} ${url}`) {
    case 'GET /':
      return send(response, 'text/html', INDEX);
    case 'GET /page.js':
      return send(response, 'text/javascript', page().script);
    case 'GET /page.css':
      return send(response, 'text/css', page().style);
    case 'GET /icon.svg':
      return send(response, 'image/svg+xml', ICON);
    case 'POST /session': {
      const token = sessions.redeem(await textIn(request, 'code'));
      if (token === undefined) throw new Refusal(401, 'the code is wrong, used or too old');
      return send(response, 'application/json', JSON.stringify({ token }));
    }
    case 'GET /data':
      requireToken();
      return stream(request, response, feed);
    case 'POST /plan': {
      requireToken();
      const manifests = await textIn(request, 'manifests');
      const planned = await plan(manifests).catch((error: Error) => Promise.reject(new Refusal(422, error.message)));
      return send(response, 'application/json', JSON.stringify(planned));
    }
    default:
      throw new Refusal(404, 'not found');
  }
}

/** A field of the body. A form of another page cannot send JSON. @throws Refusal */
async function textIn(request: IncomingMessage, field: string): Promise<string> {
  if (request.headers['content-type'] !== 'application/json') throw new Refusal(415, 'the body must be JSON');
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > MAX_BODY) throw new Refusal(413, `the body is larger than ${MAX_BODY / 1024 / 1024} MiB`);
    parts.push(part);
  }
  try {
    const body = JSON.parse(Buffer.concat(parts).toString()) as Record<string, unknown> | null;
    const text = body?.[field];
    return typeof text === 'string' ? text : '';
  } catch {
    throw new Refusal(400, 'the body is not JSON');
  }
}

/** Sends a line of JSON for each message, compressed, until the page closes the connection. */
function stream({ headers }: IncomingMessage, response: ServerResponse, feed: Feed): void {
  const isPacked = String(headers['accept-encoding']).includes('gzip');
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
