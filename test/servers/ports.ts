/** Free TCP ports on loopback. */
import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * Below the ephemeral ports of outgoing connections (from 32768 on Linux, 49152 elsewhere): no client may take the port of a
 * stopped server before it starts again.
 */
const FIRST = 20_000;
const LAST = 32_000;

/** A free port. @throws Error if none was found in 100 tries. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 100; tries += 1) {
    const port = randomInt(FIRST, LAST);
    if (await isFree(port)) return port;
  }
  throw new Error(`no free TCP port found on 127.0.0.1 between ${FIRST} and ${LAST}`);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)));
  });
}
