import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import { CertificateAuthority } from '../../test/servers/certificates.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { routeTo } from './exchange.ts';
import { KeptConnections } from './kept-connections.ts';

const ROUTE = routeTo(new URL('http://server'), []);
const REQUEST = { method: 'GET', path: '/', headers: [] };
const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

interface Ground {
  readonly connections: KeptConnections;
  /** The connections that the server accepted, oldest first. */
  readonly sockets: readonly Socket[];
}

/** Starts a server that calls `onData` for each piece that it reads, and makes `KeptConnections` to this server. */
async function serve(t: TestContext, onData: (socket: Socket) => void, idleMs = 60_000): Promise<Ground> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('data', () => onData(socket)).on('error', () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const connections = new KeptConnections((opened) => opened(null, connect(port, '127.0.0.1')), idleMs);
  t.after(() => {
    connections.destroy();
    server.close();
  });
  return { connections, sockets };
}

async function bodyOf({ connections }: Ground): Promise<string> {
  return (await connections.call(ROUTE, REQUEST, 100).answer).body.toString();
}

test('later calls reuse the connection, and each concurrent call has its own connection', async (t) => {
  const ground = await serve(t, (socket) => socket.write(ANSWER));
  for (let calls = 0; calls < 3; calls += 1) assert.equal(await bodyOf(ground), 'ok');
  assert.equal(ground.sockets.length, 1);
  assert.equal(ground.connections.isIdle, true);
  await Promise.all([bodyOf(ground), bodyOf(ground), bodyOf(ground)]);
  assert.equal(ground.sockets.length, 3);
});

test('if bytes arrive on an idle connection, the connection is closed', async (t) => {
  const ground = await serve(t, (socket) => socket.write(ANSWER));
  await bodyOf(ground);
  ground.sockets[0]?.write('HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad');
  await once(ground.sockets[0] as Socket, 'close');
  assert.equal(await bodyOf(ground), 'ok');
  assert.equal(ground.sockets.length, 2);
});

test('a call fails with StaleConnectionError only if a kept connection closes before the first byte of the answer', async (t) => {
  let answer: string | undefined = ANSWER;
  const ground = await serve(t, (socket) => (answer === undefined ? socket.destroy() : socket.write(answer)));
  await bodyOf(ground);
  answer = undefined;
  await assert.rejects(bodyOf(ground), { name: 'StaleConnectionError' });
  await assert.rejects(bodyOf(ground), { name: 'HttpError', code: 'ECONNRESET' });
  answer = ANSWER;
  await bodyOf(ground);
  answer = 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nha';
  const broken = bodyOf(ground);
  await waitFor(() => (ground.sockets.at(-1)?.bytesWritten ?? 0) > ANSWER.length, { timeoutMs: 5000 });
  ground.sockets.at(-1)?.end();
  await assert.rejects(broken, { name: 'HttpError', code: 'ECONNRESET' });
});

test('if a call is aborted, its connection is closed, also a connection that is still being opened', async (t) => {
  const ground = await serve(t, () => undefined);
  const call = ground.connections.call(ROUTE, REQUEST, 100);
  const reason = new Error('enough');
  call.abort(reason);
  await assert.rejects(call.answer, reason);
  assert.equal(ground.connections.isIdle, true);
  let opened: ((error: Error | null, socket?: Socket) => void) | undefined;
  const slow = new KeptConnections((done) => (opened = done), 1000);
  const waiting = slow.call(ROUTE, REQUEST, 100);
  slow.destroy();
  await assert.rejects(waiting.answer, { code: 'ECONNRESET' });
  const late = connect(1, '127.0.0.1').on('error', () => undefined);
  opened?.(null, late);
  assert.equal(late.destroyed, true);
});

test('if the path or a header of a call has a line break, the call throws and nothing is sent', async (t) => {
  const { connections, sockets } = await serve(t, (socket) => socket.write(ANSWER));
  const refused = { code: 'ERR_UNESCAPED_CHARACTERS' };
  assert.throws(() => connections.call(ROUTE, { ...REQUEST, path: '/x HTTP/1.1\r\nA: b' }, 100), refused);
  assert.throws(() => connections.call(ROUTE, { ...REQUEST, headers: ['A', 'b\r\nC: d'] }, 100), refused);
  assert.equal(sockets.length, 0);
});

for (const secure of [false, true]) {
  const what = secure ? 'TLS' : 'TCP';
  test(`if beforeSending throws, the request is sent neither on a new ${what} connection nor on a kept one`, async (t) => {
    const { certPem, keyPem } = await (await CertificateAuthority.create('test')).server('test');
    let requests = 0;
    const take = (socket: Socket): void => {
      socket
        .on('error', () => undefined)
        .on('data', () => {
          requests += 1;
          socket.write(ANSWER);
        });
    };
    const server = secure ? createTlsServer({ cert: certPem, key: keyPem }, take) : createServer(take);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const open = (): Socket =>
      secure ? connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false }) : connect(port, '127.0.0.1');
    const connections = new KeptConnections((opened) => opened(null, open()), 60_000);
    t.after(() => {
      connections.destroy();
      server.close();
    });
    let mayWrite = true;
    const beforeSending = (): void => {
      if (!mayWrite) throw new Error('not permitted');
    };
    const send = (): Promise<unknown> => connections.call(ROUTE, { ...REQUEST, beforeSending }, 100).answer;
    const opening = send();
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

test('idle connections are closed after the idle time; retire() closes them at once', async (t) => {
  const ground = await serve(t, (socket) => socket.write(ANSWER), 20);
  await bodyOf(ground);
  await once(ground.sockets[0] as Socket, 'close');
  await bodyOf(ground);
  const underWay = bodyOf(ground);
  ground.connections.retire();
  assert.equal(await underWay, 'ok');
  await once(ground.sockets[1] as Socket, 'close');
});
