import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request, type IncomingHttpHeaders } from 'node:http';
import { connect } from 'node:net';
import { describe, it } from 'node:test';
import { type Check, jsonReply, metricsRoutes, probeRoutes, textReply, type Routes } from './routes.ts';
import { formatAddress, parseListenAddress } from './listen-address.ts';
import { createLog } from './log.ts';
import { createMetrics } from './metrics/metrics.ts';
import { ListenError, StatusServer } from './status-server.ts';
import { nullLog } from '../../test/support/null-log.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { within } from '../../test/support/yardstick.ts';

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

function call(port: number, path: string, method = 'GET'): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path, method, agent: false }, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (body += chunk));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body }));
    });
    sent.on('error', reject);
    sent.end();
  });
}

const loopback = parseListenAddress('127.0.0.1:0');

function open(server: StatusServer, routes: Routes): Promise<{ port: number }> {
  return server.listen({ address: loopback, flag: 'status-address', routes });
}

describe('status server', () => {
  it('the status server serves /metrics with the content type of Prometheus', async () => {
    await using server = new StatusServer(nullLog);
    const { port } = await open(server, metricsRoutes(createMetrics('1')));
    const answer = await call(port, '/metrics');
    assert.equal(answer.status, 200);
    assert.equal(answer.headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8');
    assert.match(answer.body, /^keyferry_build_info\{/m);
  });

  it('/readyz answers 503 until every check succeeds, and names the failing checks', async () => {
    let synced = false;
    let leading = false;
    const leader: Check = { name: 'leader', ok: false, message: 'held by other' };
    const always: Check = { name: 'always', ok: true };
    const readiness = (): Check[] => [
      ...(leading ? [] : [leader]),
      { name: 'watch/Secret', ok: synced, message: 'no list yet' },
      always,
    ];
    await using server = new StatusServer(nullLog);
    const { port } = await open(
      server,
      probeRoutes(() => [], readiness),
    );

    let answer = await call(port, '/readyz');
    assert.equal(answer.status, 503);
    assert.equal(
      answer.body,
      '[-]leader failed: held by other\n[-]watch/Secret failed: no list yet\nreadyz check failed\n',
    );
    synced = true;
    leading = true;
    answer = await call(port, '/readyz');
    assert.deepEqual([answer.status, answer.body], [200, 'ok\n']);
    answer = await call(port, '/readyz?verbose');
    assert.equal(answer.body, '[+]watch/Secret ok: no list yet\n[+]always ok\nreadyz check passed\n');
    assert.equal((await call(port, '/healthz')).status, 200, 'liveness has its own checks');
  });

  it('/healthz?wait=… answers when the process is ready, or when the time in the query is over', async () => {
    let isReady = false;
    let runs = 0;
    const readiness = (): Check[] => {
      runs += 1;
      return [{ name: 'watch', ok: isReady }];
    };
    await using server = new StatusServer(nullLog);
    const { port } = await open(
      server,
      probeRoutes(() => [], readiness),
    );
    const answer = call(port, '/healthz?wait=10s');
    await waitFor(() => runs > 2, { message: 'the checks to run again' });
    isReady = true;
    assert.equal((await answer).status, 200);
    isReady = false;
    assert.equal((await call(port, '/healthz?wait=0s')).status, 200);
    assert.equal((await call(port, '/healthz?wait=soon')).status, 200);
    assert.equal((await call(port, '/healthz?wait=1s')).status, 200);
  });

  it('if only an informational check fails, /readyz succeeds and shows the check only with ?verbose', async () => {
    await using server = new StatusServer(nullLog);
    const away: Check = { name: 'away', isInformational: true, ok: false, message: 'refused' };
    const readiness: Check[] = [{ name: 'here', ok: true }, away];
    const { port } = await open(
      server,
      probeRoutes(
        () => [],
        () => readiness,
      ),
    );
    const answer = async (path: string): Promise<unknown> => {
      const { status, body } = await call(port, path);
      return [status, body];
    };
    assert.deepEqual(await answer('/readyz'), [200, 'ok\n']);
    assert.deepEqual(await answer('/readyz?verbose'), [
      200,
      '[+]here ok\n[i]away failed: refused\nreadyz check passed\n',
    ]);
    readiness[0] = { name: 'here', ok: false };
    assert.deepEqual(await answer('/readyz'), [503, '[-]here failed\nreadyz check failed\n']);
  });

  it('/healthz answers 503 if a check fails, and 500 if a check throws', async () => {
    let liveness = (): Check[] => [{ name: 'targets', ok: false, message: 'stuck for 300 s' }];
    await using server = new StatusServer(nullLog);
    const routes = probeRoutes(
      () => liveness(),
      () => [],
    );
    const { port } = await open(server, routes);
    assert.deepEqual(await call(port, '/healthz').then(({ status, body }) => [status, body]), [
      503,
      '[-]targets failed: stuck for 300 s\nhealthz check failed\n',
    ]);
    liveness = () => {
      throw new Error('no such loop');
    };
    assert.equal((await call(port, '/healthz')).status, 500);
  });

  it('the status server answers on several listeners, each with its own routes', async () => {
    await using server = new StatusServer(nullLog);
    const a = await open(server, { '/healthz': () => jsonReply(503, { notReady: ['*v1.Secret'] }) });
    const b = await open(server, { '/metrics': () => textReply(200, 'b') });
    const answer = await call(a.port, '/healthz');
    assert.deepEqual([answer.status, answer.headers['content-type']], [503, 'application/json']);
    assert.deepEqual(JSON.parse(answer.body), { notReady: ['*v1.Secret'] });
    assert.equal((await call(a.port, '/metrics')).status, 404);
    assert.equal((await call(b.port, '/metrics')).body, 'b');
  });

  it('the status server answers 405 to methods other than GET and HEAD, and 404 to unknown paths', async () => {
    await using server = new StatusServer(nullLog);
    const { port } = await open(server, { '/x': (query) => textReply(200, `${query.get('q')}`) });
    assert.equal((await call(port, '/x?q=a%20b?c')).body, 'a b?c');
    const head = await call(port, '/x?q=abc', 'HEAD');
    assert.deepEqual([head.status, head.headers['content-length'], head.body], [200, '3', '']);
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
      const answer = await call(port, '/x', method);
      assert.deepEqual([answer.status, answer.headers['allow']], [405, 'GET, HEAD'], method);
    }
    for (const path of ['/', '/x/', '/constructor', '/__proto__', '//x', '/%78']) {
      assert.equal((await call(port, path)).status, 404, path);
    }
  });

  it('if a handler throws, the status server answers 500 without details and logs the error', async () => {
    const lines: string[] = [];
    const log = createLog({ level: 'error', write: (line: string) => void lines.push(line) });
    await using server = new StatusServer(log);
    const { port } = await open(server, { '/x': () => Promise.reject(new Error('inside')) });
    const answer = await call(port, '/x');
    assert.deepEqual([answer.status, answer.body], [500, 'internal error\n']);
    assert.match(lines.join(''), /"message":"inside"/);
  });

  it('if the port is in use, the error of the status server names the flag and the address', async () => {
    await using server = new StatusServer(nullLog);
    const { port } = await open(server, {});
    const address = { host: '127.0.0.1', port };
    await assert.rejects(server.listen({ address, flag: 'metrics-bind-address', routes: {} }), (error: unknown) => {
      assert.ok(error instanceof ListenError);
      assert.equal(error.message, `--metrics-bind-address: cannot listen on 127.0.0.1:${port}: the port is in use`);
      return true;
    });
  });

  it('the status server stops although clients keep their connections open', async () => {
    const server = new StatusServer(nullLog);
    const { port } = await open(server, { '/x': () => textReply(200, 'x') });
    // One client stays connected after its answer, and the other client never finishes its request.
    const idle = connect(port, '127.0.0.1');
    idle.write('GET /x HTTP/1.1\r\nhost: a\r\n\r\n');
    await once(idle, 'data');
    const slow = connect(port, '127.0.0.1');
    await once(slow, 'connect');
    slow.write('GET /x HTTP/1.1\r\n');
    const ends = [idle, slow].map((socket) => {
      // The server may also end the connection by a reset.
      socket.on('error', () => undefined);
      return once(socket.resume(), 'close');
    });
    await within(3000, 'the stop', async () => {
      await server.stop();
      await server.stop();
    });
    await Promise.all(ends);
    await assert.rejects(call(port, '/x'), /ECONNREFUSED/);
  });
});

describe('listen address', () => {
  it('parseListenAddress reads the addresses that Go programs accept, for example :8080 and [::]:9102', () => {
    for (const [text, host, port] of [
      [':8080', '', 8080],
      ['127.0.0.1:0', '127.0.0.1', 0],
      ['[::]:9102', '::', 9102],
      ['[fe80::1%eth0]:1', 'fe80::1%eth0', 1],
      ['localhost:65535', 'localhost', 65_535],
    ] as const) {
      assert.deepEqual(parseListenAddress(text), { host, port });
      assert.equal(formatAddress({ host, port }), text);
    }
  });

  it('parseListenAddress throws RangeError for a text that is not [host]:port', () => {
    for (const text of ['', '8080', ':', 'a:b', ':65536', ':-1', '::1:80', 'http://a:80', 'a b:80', '[::1]', ':80 ']) {
      assert.throws(() => parseListenAddress(text), RangeError, text);
    }
  });
});
