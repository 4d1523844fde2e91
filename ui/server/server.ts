/**
 * Serves the page on the loopback addresses of this machine. Data need a token; every request must come from this page or
 * be typed by the user (`guard.ts`). Nothing is written, in the cluster or on disk.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { constants, createGzip } from 'node:zlib';

import type { PageSource } from '../data.ts';
import type { Feed } from './feed.ts';
import { HEADERS, refusalOf, type Sessions } from './guard.ts';
import { partsOfPage } from './page-file.ts';

/** Largest body of a request, bytes: manifests for a plan. */
const MAX_BODY = 4 * 1024 * 1024;

interface Served {
  readonly sessions: Sessions;
  readonly feed: Feed;
  readonly plan: PageSource['plan'];
}

/** An answer other than 200. Its message is for the user. */
const refusal = (status: number, message: string): Error => Object.assign(new Error(message), { status });

/** @throws Error: the port is in use */
export async function servePage(served: Served, wanted: number): Promise<{ readonly port: number } & Disposable> {
  const listen = async (host: string, port: number): Promise<Server> => {
    const server = createServer((request, response) => {
      answer(request, response, served).catch((error: Error & { readonly status?: number }) => {
        if (response.headersSent) response.destroy();
        else send(response, 'text/plain', error.message, error.status ?? 500);
      });
    });
    server.listen({ host, port, ipv6Only: true });
    await once(server, 'listening');
    return server;
  };
  const first = await listen('127.0.0.1', wanted);
  const { port } = first.address() as AddressInfo;
  // A browser may take ::1 for localhost. A machine without IPv6 has none.
  const second = await listen('::1', port).catch(() => undefined);
  const close = (server: Server | undefined): void => {
    server?.close();
    server?.closeAllConnections();
  };
  return { port, [Symbol.dispose]: () => [first, second].forEach(close) };
}

function send(response: ServerResponse, type: string, body: string, status = 200): void {
  response.writeHead(status, { ...HEADERS, 'content-type': `${type}; charset=utf-8`, connection: 'close' });
  response.end(body);
}

async function answer(request: IncomingMessage, response: ServerResponse, served: Served): Promise<void> {
  const { headers, method, url, socket } = request;
  const objection = refusalOf(headers, socket.localPort ?? 0);
  if (objection !== undefined) throw refusal(403, objection);
  const part = partsOfPage().get(`${method} ${url}`);
  if (part !== undefined) return send(response, ...part);
  const { sessions, feed, plan } = served;
  const requireToken = (): void => {
    const token = /^Bearer (\S+)$/.exec(headers.authorization ?? '')?.[1] ?? '';
    if (!sessions.knows(token)) throw refusal(401, 'no valid token');
  };
  switch (`${method} ${url}`) {
    case 'POST /session': {
      const token = sessions.redeem(await textIn(request, 'code'));
      if (token === undefined) throw refusal(401, 'the code is wrong, used or too old');
      return send(response, 'application/json', JSON.stringify({ token }));
    }
    case 'GET /data': {
      requireToken();
      const type = { 'content-type': 'application/json-lines; charset=utf-8', 'content-encoding': 'gzip' };
      response.writeHead(200, { ...HEADERS, ...type }).flushHeaders();
      // Until the page closes the connection. Every browser unpacks gzip.
      return await pipeline(feed.lines(), createGzip({ flush: constants.Z_SYNC_FLUSH }), response);
    }
    case 'POST /plan': {
      requireToken();
      const manifests = await textIn(request, 'manifests');
      const planned = await plan(manifests).catch((error: Error) => Promise.reject(refusal(422, error.message)));
      return send(response, 'application/json', JSON.stringify(planned));
    }
    default:
      throw refusal(404, 'not found');
  }
}

/** A field of the body. A form of another page cannot send JSON. @throws `refusal` */
async function textIn(request: IncomingMessage, field: string): Promise<string> {
  if (request.headers['content-type'] !== 'application/json') throw refusal(415, 'the body must be JSON');
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > MAX_BODY) throw refusal(413, `the body is larger than ${MAX_BODY / 1024 / 1024} MiB`);
    parts.push(part);
  }
  try {
    const body = JSON.parse(Buffer.concat(parts).toString()) as Record<string, unknown> | null;
    const text = body?.[field];
    return typeof text === 'string' ? text : '';
  } catch {
    throw refusal(400, 'the body is not JSON');
  }
}
