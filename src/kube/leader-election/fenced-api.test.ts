import assert from 'node:assert/strict';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';

import type { Connection } from '../connection.ts';
import { staticCredentials } from '../../../test/support/static-credentials.ts';
import { FencedApi } from './fenced-api.ts';
import { createKubeApi } from '../http.ts';

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

test('reads always, writes only while this replica leads', async () => {
  const seen: string[] = [];
  const listener: RequestListener = (request, response) => {
    seen.push(request.method ?? '');
    response.end('{}');
  };
  await withServer(listener, async (connection) => {
    await using api = createKubeApi(connection);
    let open = false;
    const fenced = new FencedApi(api, () => open);
    await fenced.request({ method: 'GET', path: '/x' });
    (await fenced.stream({ method: 'GET', path: '/x' })).close();
    for (const method of ['POST', 'PATCH', 'PUT', 'DELETE'] as const) {
      await assert.rejects(fenced.request({ method, path: '/x' }), { code: 'EFENCED' });
    }
    open = true;
    await fenced.request({ method: 'POST', path: '/x' });
    assert.equal(fenced.cluster, 'c');
  });
  assert.deepEqual(seen, ['GET', 'GET', 'POST']);
});

test('a write that waited for its slot longer than the Lease lasted is not sent', async () => {
  const seen: string[] = [];
  let open = true;
  const listener: RequestListener = (request, response) => {
    seen.push(request.url ?? '');
    // From here on the lease is another's, while the second write still waits for the connection.
    open = false;
    response.end('{}');
  };
  await withServer(listener, async (connection) => {
    await using api = createKubeApi(connection, { maxSockets: 1 });
    const fenced = new FencedApi(api, () => open);
    const first = fenced.request({ method: 'POST', path: '/first' });
    const second = fenced.request({ method: 'POST', path: '/second' });
    const third = fenced.request({ method: 'GET', path: '/third' });
    await Promise.all([first, assert.rejects(second, { code: 'EFENCED' }), third]);
  });
  assert.deepEqual(seen, ['/first', '/third']);
});
