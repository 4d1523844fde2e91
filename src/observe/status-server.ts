/**
 * Serves metrics and probes, over plain HTTP unless there is a certificate, with one listener for each address in the flags. Each listener has its own
 * routes: the original mirrors operator has metrics and probes on two ports, and the replicator's `/healthz` answers
 * with a text of its own. `stop` closes all listeners, and after 1 s also the connections that are still open.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { formatAddress, type ListenAddress } from './listen-address.ts';
import type { Log } from './log.ts';
import { textReply, type Reply, type Routes } from './routes.ts';

interface ListenOptions {
  readonly address: ListenAddress;
  /** The flag that sets the address, for error texts. */
  readonly flag: string;
  readonly routes: Routes;
  /** PEM. With it, the listener speaks HTTPS. */
  readonly certificate?: { readonly cert: Buffer; readonly key: Buffer };
}

/** The server cannot listen on the address. The message names the address and its flag. */
export class ListenError extends Error {
  override readonly name = 'ListenError';
}

/** Time limits for the head of a request and for the whole request, ms. */
const HEADERS_TIMEOUT = 5_000;
const REQUEST_TIMEOUT = 10_000;
const KEEP_ALIVE_TIMEOUT = 5_000;
const STOP_GRACE = 1_000;
const MAX_CONNECTIONS = 64;
const MAX_HEADER_BYTES = 8_192;

export class StatusServer {
  readonly #log: Log;
  readonly #servers = new Set<Server>();
  #stopped = false;

  constructor(log: Log) {
    this.#log = log;
  }

  /**
   * Opens a listener. @returns its address; if the requested port is 0, with the port that the system chose
   * @throws ListenError if the port is in use or not allowed, or the address does not belong to this machine
   */
  async listen(options: ListenOptions): Promise<{ readonly host: string; readonly port: number }> {
    const limits = {
      headersTimeout: HEADERS_TIMEOUT,
      requestTimeout: REQUEST_TIMEOUT,
      keepAliveTimeout: KEEP_ALIVE_TIMEOUT,
      connectionsCheckingInterval: HEADERS_TIMEOUT,
      maxHeaderSize: MAX_HEADER_BYTES,
    };
    const answer = (request: IncomingMessage, response: ServerResponse): void =>
      void this.#answer(options.routes, request, response);
    const { certificate } = options;
    const server =
      certificate === undefined
        ? createServer(limits, answer)
        : createSecureServer({ ...limits, ...certificate, handshakeTimeout: HEADERS_TIMEOUT }, answer);
    server.maxConnections = MAX_CONNECTIONS;
    this.#servers.add(server);
    const { host, port } = options.address;
    try {
      server.listen({ port, ...(host !== '' && { host }) });
      await once(server, 'listening');
    } catch (error) {
      this.#servers.delete(server);
      const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
      const message = `--${options.flag}: cannot listen on ${formatAddress(options.address)}: ${code === 'EADDRINUSE' ? 'the port is in use' : code}`;
      throw new ListenError(message, { cause: error });
    }
    server.on('error', (error) => this.#log.error('the status server failed', { flag: options.flag, error }));
    const bound = server.address() as AddressInfo;
    this.#log.info('listening', {
      flag: options.flag,
      address: formatAddress({ host: bound.address, port: bound.port }),
    });
    return { host: bound.address, port: bound.port };
  }

  /** Closes every listener. Safe to call more than once. */
  async stop(): Promise<void> {
    this.#stopped = true;
    const servers = [...this.#servers];
    this.#servers.clear();
    await Promise.all(servers.map((server) => closed(server)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #answer(routes: Routes, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const reply = await this.#reply(routes, request);
    response.writeHead(reply.status, {
      'content-type': reply.contentType,
      'content-length': Buffer.byteLength(reply.body),
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      ...(reply.status === 405 ? { allow: 'GET, HEAD' } : {}),
      // A kept connection would delay the stop.
      ...(this.#stopped ? { connection: 'close' } : {}),
    });
    response.end(request.method === 'HEAD' ? undefined : reply.body);
  }

  async #reply(routes: Routes, request: IncomingMessage): Promise<Reply> {
    if (request.method !== 'GET' && request.method !== 'HEAD') return textReply(405, 'method not allowed\n');
    const [path = '/', ...query] = (request.url ?? '/').split('?');
    const handler = Object.hasOwn(routes, path) ? routes[path] : undefined;
    if (handler === undefined) return textReply(404, 'not found\n');
    try {
      return await handler(new URLSearchParams(query.join('?')));
    } catch (error) {
      this.#log.error('a status request failed', { path, error });
      return textReply(500, 'internal error\n');
    }
  }
}

async function closed(server: Server): Promise<void> {
  const timer = setTimeout(() => server.closeAllConnections(), STOP_GRACE);
  // An error of `close` only means that the server was not open.
  await new Promise((resolve) => server.close(resolve));
  clearTimeout(timer);
}
