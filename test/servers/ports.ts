/** Finds free TCP ports on loopback. */
import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';

/**
 * These ports are below the ports of outgoing connections (from 32768 on Linux, from 49152 elsewhere). So while a
 * server is stopped, no client gets its port by chance.
 */
const FIRST = 20_000;
const LAST = 32_000;

/**
 * Finds a free port. Until this process ends, no other call returns the same port, in this process or another: test
 * files run in parallel, and nothing listens on a port while its server starts or restarts.
 * @throws Error if 100 random ports are in use
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 100; tries += 1) {
    const port = randomInt(FIRST, LAST);
    if ((await reserve(port)) && (await isFree(port))) return port;
  }
  throw new Error(`no free TCP port found on 127.0.0.1 between ${FIRST} and ${LAST}`);
}

/**
 * Reserves a port: binds the UDP port with the same number, which no server uses. The system frees it when this process
 * ends.
 */
function reserve(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket('udp4').unref();
    socket.once('error', () => socket.close(() => resolve(false)));
    socket.bind({ port, address: '127.0.0.1', exclusive: true }, () => resolve(true));
  });
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)));
  });
}
