/** Servers on loopback that answer as a test wants, and clients of API servers that they play. */
import { once } from 'node:events';
import type { Server } from 'node:http';
import { Server as SecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';

import type { Connection } from '../../src/kube/connection.ts';
import { HttpKubeApi, type HttpKubeApiOptions } from '../../src/kube/http.ts';
import { staticCredentials } from './static-credentials.ts';

/** A test, or its file (with `after` of node:test). */
interface Scope {
  after(end: () => unknown): void;
}

/** Lets a server listen on loopback until the end of the test. */
export async function listen(scope: Scope, server: Server, host = '127.0.0.1'): Promise<URL> {
  server.listen(0, host);
  await once(server, 'listening');
  scope.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const scheme = server instanceof SecureServer ? 'https' : 'http';
  return new URL(`${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`);
}

/** A client of this server, which is closed at the end of the test. */
export function connect(
  scope: Scope,
  server: URL,
  options?: HttpKubeApiOptions,
  more?: Partial<Connection>,
): HttpKubeApi {
  const credentials = staticCredentials({ Authorization: 'Bearer t' });
  const connection = { cluster: 'test', server, credentials, namespace: 'default', origin: 'test', ...more };
  const api = new HttpKubeApi(connection, options);
  scope.after(() => api[Symbol.asyncDispose]());
  return api;
}
