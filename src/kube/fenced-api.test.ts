import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';

import { staticCredentials } from './connection.ts';
import { FencedApi } from './fenced-api.ts';
import { createKubeApi } from './http.ts';

test('reads always, writes only while the fence is open', async () => {
  const seen: string[] = [];
  const server = createServer((request, response) => {
    seen.push(request.method ?? '');
    response.end('{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const connection = { cluster: 'c', server: url, credentials: staticCredentials({}), namespace: 'n', origin: 'test' };
  try {
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
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
  assert.deepEqual(seen, ['GET', 'GET', 'POST']);
});
