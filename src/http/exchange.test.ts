import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { createServer as createTlsServer } from 'node:tls';
import { CertificateAuthority } from '../../test/servers/certificates.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import type { Agent } from 'node:http';
import { closeIdle, openAgent, retire } from './agent.ts';
import { type Exchange, exchange, type ExchangeOptions, type HttpRequest, routeTo } from './exchange.ts';

const REQUEST = { method: 'GET', path: '/', headers: [] };
const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

/** Starts a server that calls `onData` for each piece that it reads, and makes an agent for it. */
async function serve(
  t: TestContext,
  onData: (socket: Socket) => void,
  options: { secure?: boolean; idleMs?: number } = {},
) {
  const { secure = false, idleMs = 60_000 } = options;
  const { certPem, keyPem } = await (await CertificateAuthority.create('test')).server('test');
  /** The connections that the server accepted, oldest first. */
  const sockets: Socket[] = [];
  const take = (socket: Socket): void => {
    sockets.push(socket);
    socket.on('data', () => onData(socket)).on('error', () => undefined);
  };
  const server = secure ? createTlsServer({ cert: certPem, key: keyPem }, take) : createServer(take);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const route = routeTo(new URL(`${secure ? 'https' : 'http'}://127.0.0.1:${port}`), []);
  const agent = openAgent(route, { tls: { rejectUnauthorized: false }, idleMs });
  t.after(() => {
    agent.destroy();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const call = (request: HttpRequest = REQUEST, more: Partial<ExchangeOptions> = {}): Exchange =>
    exchange(route, request, { agent, maxBytes: 100, ...more });
  return { agent, sockets, call, body: async (): Promise<string> => (await call().answer).body.toString() };
}

/** Whether no request uses a connection of the agent, or waits for one. */
function isUnused({ sockets, requests }: Agent): boolean {
  return Object.keys(sockets).length === 0 && Object.keys(requests).length === 0;
}

test('later calls reuse the connection, and each concurrent call has its own connection', async (t) => {
  const { agent, sockets, body } = await serve(t, (socket) => socket.write(ANSWER));
  for (let calls = 0; calls < 3; calls += 1) assert.equal(await body(), 'ok');
  assert.equal(sockets.length, 1);
  await waitFor(() => isUnused(agent), { timeoutMs: 5000 });
  await Promise.all([body(), body(), body()]);
  assert.equal(sockets.length, 3);
});

test('if bytes arrive on an idle connection, no later call takes them for its answer', async (t) => {
  const { agent, sockets, body } = await serve(t, (socket) => socket.write(ANSWER));
  await body();
  await waitFor(() => isUnused(agent), { timeoutMs: 5000 });
  sockets[0]?.write('HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad');
  await once(sockets[0] as Socket, 'close');
  assert.equal(await body(), 'ok');
  assert.equal(sockets.length, 2);
});

test('a call fails with StaleConnectionError only if a kept connection closes before the first byte of the answer', async (t) => {
  let answer: string | undefined = ANSWER;
  const { body, call, sockets } = await serve(t, (socket) =>
    answer === undefined ? socket.destroy() : socket.write(answer),
  );
  await body();
  answer = undefined;
  await assert.rejects(body(), { name: 'StaleConnectionError' });
  await assert.rejects(body(), { name: 'Error', code: 'ECONNRESET' });
  for (const breakIt of ['end', 'resetAndDestroy'] as const) {
    answer = ANSWER;
    await body();
    answer = 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nha';
    const arrived = Promise.withResolvers<void>();
    const broken = call(REQUEST, {
      onData: () => {
        arrived.resolve();
        return undefined;
      },
    }).answer;
    await arrived.promise;
    sockets.at(-1)?.[breakIt]();
    await assert.rejects(broken, { name: 'Error', code: 'ECONNRESET' }, breakIt);
  }
});

test('if the server answers 101, the call fails', async (t) => {
  const answer = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n';
  const { body } = await serve(t, (socket) => socket.write(answer));
  await assert.rejects(body(), { code: 'EPROTO' });
});

test('if a call is aborted, its connection is closed', async (t) => {
  const { agent, call, sockets } = await serve(t, () => undefined);
  const { answer, abort } = call();
  await waitFor(() => sockets.length === 1, { timeoutMs: 5000 });
  const reason = new Error('enough');
  abort(reason);
  await assert.rejects(answer, reason);
  await once(sockets[0] as Socket, 'close');
  await waitFor(() => isUnused(agent), { timeoutMs: 5000 });
});

test('if the path or a header of a call has a line break, the call throws and nothing is sent', async (t) => {
  const { call, sockets } = await serve(t, (socket) => socket.write(ANSWER));
  assert.throws(() => call({ ...REQUEST, path: '/x HTTP/1.1\r\nA: b' }), { code: 'ERR_UNESCAPED_CHARACTERS' });
  assert.throws(() => call({ ...REQUEST, headers: ['A', 'b\r\nC: d'] }), { code: 'ERR_INVALID_CHAR' });
  assert.equal(sockets.length, 0);
});

for (const secure of [false, true]) {
  const what = secure ? 'TLS' : 'TCP';
  test(`if beforeSending throws, the request is sent neither on a new ${what} connection nor on a kept one`, async (t) => {
    let requests = 0;
    const take = (socket: Socket): void => {
      requests += 1;
      socket.write(ANSWER);
    };
    const { call } = await serve(t, take, { secure });
    let mayWrite = true;
    const beforeSending = (): void => {
      if (!mayWrite) throw new Error('not permitted');
    };
    const body = [Buffer.from('{"a":'), Buffer.from('1}')];
    const send = (): Promise<unknown> => call({ ...REQUEST, method: 'PUT', body, beforeSending }).answer;
    const opening = send();
    // The request has its socket after this, but no connection can be open before the event loop has run.
    for (let ticks = 0; ticks < 10; ticks += 1) await new Promise((resolve) => process.nextTick(resolve));
    mayWrite = false;
    await assert.rejects(opening, { message: 'not permitted' });
    mayWrite = true;
    await send();
    assert.equal(requests, 1);
    mayWrite = false;
    await assert.rejects(send(), { message: 'not permitted' });
    mayWrite = true;
    await send();
    assert.equal(requests, 2);
  });
}

test('idle connections are closed after the idle time, by closeIdle(), and by retire(), which keeps a running call', async (t) => {
  const short = await serve(t, (socket) => socket.write(ANSWER), { idleMs: 20 });
  await short.body();
  await once(short.sockets[0] as Socket, 'close');
  const { agent, body, sockets } = await serve(t, (socket) => socket.write(ANSWER));
  await body();
  await waitFor(() => isUnused(agent), { timeoutMs: 5000 });
  closeIdle(agent);
  await once(sockets[0] as Socket, 'close');
  const underWay = body();
  retire(agent);
  assert.equal(await underWay, 'ok');
  await once(sockets[1] as Socket, 'close');
});
