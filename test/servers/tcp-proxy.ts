/**
 * Passes TCP connections on unchanged (with TLS, HTTP/2 and client certificates), and counts their bytes. With it, the
 * benchmark can measure any controller. The server's certificate must be valid for 127.0.0.1.
 */
import { connect, createServer } from 'node:net';
import type { Socket } from 'node:net';

import { freePort } from './ports.ts';

/** Bytes on the network, with the overhead of TLS. `bytesIn`: bytes that the client has received. */
export interface WireCounters {
  connections: number;
  bytesIn: number;
  bytesOut: number;
}

export interface TcpProxy {
  /** The server's URL, but with the proxy's port. */
  readonly url: string;
  readonly counters: WireCounters;
  /** Sets the counters to zero. */
  reset(): void;
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Starts a proxy. @param upstream - the server's URL, on 127.0.0.1 */
export async function startTcpProxy(upstream: string): Promise<TcpProxy> {
  const url = new URL(upstream);
  const port = Number(url.port);
  const counters: WireCounters = { connections: 0, bytesIn: 0, bytesOut: 0 };
  const sockets = new Set<Socket>();
  const adopt = (socket: Socket, other: Socket): void => {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on('error', () => other.destroy());
    socket.on('close', () => {
      sockets.delete(socket);
      other.destroy();
    });
  };
  const listener = createServer((client) => {
    const server = connect(port, url.hostname);
    counters.connections += 1;
    adopt(client, server);
    adopt(server, client);
    client.on('data', (chunk) => (counters.bytesOut += chunk.length));
    server.on('data', (chunk) => (counters.bytesIn += chunk.length));
    client.pipe(server);
    server.pipe(client);
  });
  url.port = String(await freePort());
  await new Promise<void>((resolve, reject) => {
    listener.once('error', reject);
    listener.listen(Number(url.port), '127.0.0.1', resolve);
  });
  const stop = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => listener.close(resolve));
  };
  return {
    url: url.href.replace(/\/$/, ''),
    counters,
    reset: () => void Object.assign(counters, { connections: 0, bytesIn: 0, bytesOut: 0 }),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
