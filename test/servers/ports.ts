/** Free TCP ports on loopback. */
import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';

/**
 * Below the ephemeral ports of outgoing connections (from 32768 on Linux, 49152 elsewhere): no client may take the port of a
 * stopped server before it starts again.
 */
const FIRST = 20_000;
const LAST = 32_000;

/**
 * A free port, which no other call returns until this process ends, in this process or another: test files run concurrently, and the port
 * is unused while its server starts and restarts.
 * @throws Error if none was found in 100 tries
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 100; tries += 1) {
    const port = randomInt(FIRST, LAST);
    if ((await reserve(port)) && (await isFree(port))) return port;
  }
  throw new Error(`no free TCP port found on 127.0.0.1 between ${FIRST} and ${LAST}`);
}

/** Binds the UDP port of the same number, which nothing else uses. The system frees it with the process. */
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
