import assert from 'node:assert/strict';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';

import type { Connection } from '../connection.ts';
import { staticCredentials } from '../../../test/support/static-credentials.ts';
import { fenced } from './fenced-api.ts';
import { HttpKubeApi } from '../http.ts';

async function withServer(listener: RequestListener, run: (connection: Connection) => Promise<void>): Promise<void> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  try {
    await run({ cluster: 'c', server: url, credentials: staticCredentials({}), namespace: 'n', origin: 'test' });
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

test('a fenced client sends reads always, and writes only while this replica leads', async () => {
  const seen: string[] = [];
  const listener: RequestListener = (request, response) => {
    seen.push(request.method ?? '');
    response.end('{}');
  };
  await withServer(listener, async (connection) => {
    await using api = new HttpKubeApi(connection);
    let open = false;
    const guarded = fenced(api, () => (open ? undefined : 'closed'));
    await guarded.request({ method: 'GET', path: '/x' });
    (await guarded.stream({ method: 'GET', path: '/x' })).close();
    for (const method of ['POST', 'PATCH', 'PUT', 'DELETE'] as const) {
      await assert.rejects(guarded.request({ method, path: '/x' }), { code: 'EFENCED' });
    }
    open = true;
    await guarded.request({ method: 'POST', path: '/x' });
    assert.equal(guarded.cluster, 'c');
  });
  assert.deepEqual(seen, ['GET', 'GET', 'POST']);
});

test('if the Lease is lost while a write waits for a connection, the write is not sent', async () => {
  const seen: string[] = [];
  let open = true;
  const listener: RequestListener = (request, response) => {
    seen.push(request.url ?? '');
    // Another replica has the Lease now, while the second write still waits for the connection.
    open = false;
    response.end('{}');
  };
  await withServer(listener, async (connection) => {
    await using api = new HttpKubeApi(connection, { maxSockets: 1 });
    const guarded = fenced(api, () => (open ? undefined : 'closed'));
    const first = guarded.request({ method: 'POST', path: '/first' });
    const second = guarded.request({ method: 'POST', path: '/second' });
    const third = guarded.request({ method: 'GET', path: '/third' });
    await Promise.all([first, assert.rejects(second, { code: 'EFENCED' }), third]);
  });
  assert.deepEqual(seen, ['/first', '/third']);
});
