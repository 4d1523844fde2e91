/** Tests the client with small servers, for faults that a real API server rarely has. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { AuthHeaders } from './connection.ts';
import { connect, listen } from '../../test/support/loopback.ts';
import { staticCredentials } from '../../test/support/static-credentials.ts';
import { ConnectionError, isThrottled, isUnauthorized } from './errors.ts';
import type { RequestObservation } from './http.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { waitFor } from '../../test/support/wait-for.ts';

async function serve(t: TestContext, listener: RequestListener): Promise<{ server: Server; url: URL }> {
  const server = createServer(listener);
  return { server, url: await listen(t, server) };
}

const GET = { method: 'GET', path: '/x' } as const;
const POST = { method: 'POST', path: '/x', body: '{}' } as const;

test('a request sends its body piece by piece, its headers and its query, to a path below that of the server', async (t) => {
  const seen: unknown[] = [];
  const { url } = await serve(t, (request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const { host, accept, authorization } = request.headers;
      const agent = request.headers['user-agent'];
      const [type, length, groups] = ['content-type', 'content-length', 'impersonate-group'].map(
        (name) => request.headers[name],
      );
      seen.push([request.method, request.url, Buffer.concat(pieces).toString()], {
        host,
        accept,
        authorization,
        agent,
        type,
        length,
        groups,
      });
      response.end('{}');
    });
  });
  const auth: AuthHeaders = { Authorization: 'Bearer t', 'Impersonate-Group': ['a', 'b'] };
  const api = connect(t, new URL('/k8s/c-1/', url), {}, { credentials: staticCredentials(auth) });
  const query = { fieldManager: 'a b&c', force: true, limit: 5, continue: undefined };
  const body = [Buffer.from('{"a":'), Buffer.from('"ä"}')];
  await api.request({
    method: 'PATCH',
    path: '/api',
    query,
    body,
    contentType: 'application/apply-patch+yaml',
    accept: 'x/y',
  });
  assert.deepEqual(seen, [
    ['PATCH', '/k8s/c-1/api?fieldManager=a%20b%26c&force=true&limit=5', '{"a":"ä"}'],
    {
      host: url.host,
      accept: 'x/y',
      authorization: 'Bearer t',
      agent: 'keyferry/dev',
      type: 'application/apply-patch+yaml',
      length: '10',
      groups: 'a, b',
    },
  ]);
});

test('1,000 calls open at most maxSockets connections, and leave no listener on the signal', async (t) => {
  const sockets = new Set<Socket>();
  const { url } = await serve(t, (request, response) => {
    sockets.add(request.socket);
    request.resume().on('end', () => response.writeHead(201).end('{}'));
  });
  const warnings: Error[] = [];
  const onWarning = (warning: Error): unknown => warnings.push(warning);
  process.on('warning', onWarning);
  t.after(() => process.off('warning', onWarning));
  const seen: RequestObservation[] = [];
  const api = connect(t, url, { maxSockets: 4, onRequest: (observation) => seen.push(observation) });
  const { signal } = new AbortController();
  await Promise.all(Array.from({ length: 1000 }, () => api.request({ ...POST, signal })));
  assert.equal(sockets.size, 4);
  assert.deepEqual([seen.length, seen[0]?.method, seen[0]?.path, seen[0]?.status], [1000, 'POST', '/x', 201]);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(warnings, []);
});

test('the time limit of a call includes the wait for a connection and for the answer', async (t) => {
  const { url, server } = await serve(t, () => undefined);
  const clock = new ManualClock();
  const api = connect(t, url, { maxSockets: 1, clock });
  const calls = [api.request({ ...GET, timeoutMs: 60 }), api.request({ ...GET, timeoutMs: 30 })];
  const outcomes = Promise.allSettled(calls);
  await once(server, 'request');
  await clock.advance(60);
  const [first, second] = await outcomes;
  for (const [outcome, stage] of [
    [first, 'the answer'],
    [second, 'a free connection'],
  ] as const) {
    assert.ok(outcome?.status === 'rejected' && outcome.reason instanceof ConnectionError);
    assert.equal(outcome.reason.code, 'ETIMEDOUT');
    assert.match(outcome.reason.message, new RegExp(stage, 'u'));
  }
});

test('after a call whose time limit ended, later and waiting calls are sent at once; after a call without an answer they wait', async (t) => {
  for (const fault of ['time limit', 'no answer'] as const) {
    const seen: string[] = [];
    const { url, server } = await serve(t, ({ url: path = '' }, response) => {
      seen.push(path);
      if (path !== '/slow') response.end('{}');
      else if (fault === 'no answer') setImmediate(() => response.destroy());
    });
    // The clock stands still, so a call that must wait for the next try waits for ever.
    const clock = new ManualClock();
    const api = connect(t, url, { maxSockets: 1, clock });
    const slow = assert.rejects(api.request({ ...POST, path: '/slow', timeoutMs: 60 }), ConnectionError);
    if (fault === 'time limit') await once(server, 'request');
    const others = Promise.all([api.request(GET), slow.then(() => api.request({ ...GET, path: '/later' }))]);
    if (fault === 'time limit') await clock.advance(60);
    await slow;
    if (fault === 'no answer') {
      assert.deepEqual(seen, ['/slow']);
      await clock.advance(200);
    }
    await waitFor(() => seen.length === 3, { message: 'the other calls' });
    await others;
    assert.deepEqual(seen, ['/slow', '/x', '/later']);
  }
});

test('an abort ends a running call at once, and refuses a new one, with the reason of the signal', async (t) => {
  const { url, server } = await serve(t, () => undefined);
  const api = connect(t, url);
  const abort = new AbortController();
  const call = api.request({ ...GET, signal: abort.signal });
  await once(server, 'request');
  const reason = new Error('shutting down');
  abort.abort(reason);
  await assert.rejects(call, reason);
  await assert.rejects(api.request({ ...GET, signal: abort.signal }), reason);
});

test('if an answer exceeds the size limit or breaks off, the call fails with a ConnectionError', async (t) => {
  const { url } = await serve(t, (request, response) => {
    if (request.url === '/large') response.end('x'.repeat(2000));
    else response.writeHead(200, { 'Content-Length': '100' }).write('half', () => request.socket.destroy());
  });
  const api = connect(t, url);
  await assert.rejects(api.request({ ...GET, path: '/large', maxBytes: 1000 }), {
    name: 'ConnectionError',
    code: 'EMSGSIZE',
  });
  await assert.rejects(api.request({ ...GET, path: '/half' }), { name: 'ConnectionError', code: 'ECONNRESET' });
});

test('a compressed answer is decompressed, and fails the call if it exceeds the size limit then', async (t) => {
  const asked: unknown[] = [];
  const { url } = await serve(t, (request, response) => {
    asked.push(request.headers['accept-encoding']);
    if (request.url === '/broken') response.writeHead(200, { 'Content-Encoding': 'gzip' }).end('no gzip');
    else if (asked.at(-1) === 'gzip')
      response.writeHead(200, { 'Content-Encoding': 'gzip' }).end(gzipSync('x'.repeat(5000)));
    else response.end('plain');
  });
  const api = connect(t, url);
  assert.equal((await api.request({ ...GET, compressed: true })).body.toString(), 'x'.repeat(5000));
  assert.equal((await api.request(GET)).body.toString(), 'plain');
  await assert.rejects(api.request({ ...GET, compressed: true, maxBytes: 4999 }), {
    name: 'ConnectionError',
    code: 'EMSGSIZE',
  });
  await assert.rejects(api.request({ ...GET, path: '/broken', compressed: true }), { name: 'ConnectionError' });
  assert.deepEqual(asked, ['gzip', undefined, 'gzip', 'gzip']);
});

test('if the server is not reachable, the ConnectionError has the code of Node, for example ECONNREFUSED', async (t) => {
  const { server, url } = await serve(t, () => undefined);
  server.close();
  const api = connect(t, url);
  await assert.rejects(api.request(GET), { name: 'ConnectionError', code: 'ECONNREFUSED' });
  await assert.rejects(api.stream(GET), { name: 'ConnectionError', code: 'ECONNREFUSED' });
});

test('a Retry-After delays the calls that wait and the later ones', async (t) => {
  const arrivals: number[] = [];
  const { url } = await serve(t, (_request, response) => {
    arrivals.push(performance.now());
    if (arrivals.length === 1) response.writeHead(429, { 'Retry-After': '1' }).end();
    else response.end('{}');
  });
  const api = connect(t, url, { maxSockets: 1 });
  const outcomes = await Promise.allSettled(Array.from({ length: 20 }, () => api.request(GET)));
  const [first, ...others] = outcomes;
  assert.ok(first?.status === 'rejected' && isThrottled(first.reason) && first.reason.retryAfterMs === 1000);
  assert.ok(others.every((outcome) => outcome.status === 'fulfilled'));
  const [at = 0, next = 0] = arrivals;
  assert.ok(next - at >= 990, `the second came ${next - at} ms after the refusal`);
});

test('if a watch gets a Retry-After because the server still fills its cache, no other call is delayed', async (t) => {
  const body = {
    kind: 'Status',
    reason: 'TooManyRequests',
    message: 'storage is (re)initializing: failed to list',
    code: 429,
  };
  const { url } = await serve(t, (request, response) => {
    if (request.url?.includes('watch') !== true) response.end('{}');
    else response.writeHead(429, { 'Retry-After': '20' }).end(JSON.stringify(body));
  });
  const api = connect(t, url);
  await assert.rejects(api.stream({ ...GET, query: { watch: 1 } }), { status: 429, retryAfterMs: 20_000 });
  assert.equal((await api.request({ ...GET, timeoutMs: 5000 })).status, 200);
});

test('after a 401 the credentials are read again, and the call or stream is repeated one time', async (t) => {
  const tokens: (string | undefined)[] = [];
  const { url } = await serve(t, (request, response) => {
    tokens.push(request.headers.authorization);
    response.writeHead(request.headers.authorization === 'Bearer 1' ? 200 : 401).end('{}');
  });
  const renewing = () => {
    let [at, stale] = [0, false];
    let headers: AuthHeaders = { Authorization: 'Bearer 0' };
    return {
      headers: async () => {
        if (!stale) return headers;
        stale = false;
        at += 1;
        headers = { Authorization: `Bearer ${at}` };
        return headers;
      },
      tls: async () => ({ rejectUnauthorized: true }),
      invalidate: () => {
        stale = true;
      },
    };
  };
  const answer = await connect(t, url, {}, { credentials: renewing() }).request(POST);
  assert.equal(answer.status, 200);
  const stream = await connect(t, url, {}, { credentials: renewing() }).stream(GET);
  stream.close();
  assert.deepEqual(tokens, ['Bearer 0', 'Bearer 1', 'Bearer 0', 'Bearer 1']);
});

test('after a 401, if the credentials are unchanged, the call is not repeated', async (t) => {
  let asked = 0;
  const { url } = await serve(t, (_request, response) => {
    asked += 1;
    response.writeHead(401).end();
  });
  await assert.rejects(connect(t, url).request(GET), isUnauthorized);
  assert.equal(asked, 1);
});

test('if the server closed the kept connection, a GET is sent again, but a POST is not', async (t) => {
  const seen: string[] = [];
  const used = new Set<Socket>();
  const { url } = await serve(t, (request, response) => {
    seen.push(request.method ?? '');
    if (used.has(request.socket)) {
      request.socket.resetAndDestroy();
      return;
    }
    used.add(request.socket);
    request.resume();
    response.end('{}');
  });
  const api = connect(t, url, { maxSockets: 1 });
  await api.request(GET);
  assert.equal((await api.request(GET)).status, 200);
  await api.request(GET);
  await assert.rejects(api.request(POST), { name: 'ConnectionError', code: 'ECONNRESET' });
  // Each GET is repeated on a new connection, which stays open. The server closes it when the next call uses it.
  assert.deepEqual(seen, ['GET', 'GET', 'GET', 'GET', 'GET', 'POST']);
});

test('if a stream is refused, the error has the message of the Status', async (t) => {
  const { url } = await serve(t, (_request, response) => {
    response.writeHead(410).end('{"kind":"Status","reason":"Expired","message":"too old resource version"}');
  });
  await assert.rejects(connect(t, url).stream(GET), {
    status: 410,
    reason: 'Expired',
    statusMessage: 'too old resource version',
  });
});

test('a stream returns chunks as they arrive, outlives its time limit and ends with the response', async (t) => {
  let write: (text: string | undefined) => void = () => undefined;
  const { url } = await serve(t, (_request, response) => {
    write = (text) => (text === undefined ? response.end() : response.write(text));
    response.flushHeaders();
  });
  const clock = new ManualClock();
  const stream = await connect(t, url, { clock }).stream({ ...GET, timeoutMs: 20 });
  await clock.advance(60);
  write('1');
  const seen: string[] = [];
  for await (const chunk of stream.chunks) {
    seen.push(chunk.toString());
    write(seen.length === 1 ? '2' : undefined);
  }
  assert.deepEqual(seen, ['1', '2']);
  stream.close();
});

test('a stream throws if its connection breaks, ends after close, and after an abort throws the reason', async (t) => {
  const sockets: Socket[] = [];
  const { url } = await serve(t, (request, response) => {
    sockets.push(request.socket);
    response.write('x');
  });
  const api = connect(t, url);
  const abort = new AbortController();
  const read = async (then: () => void): Promise<number> => {
    const stream = await api.stream({ ...GET, signal: abort.signal });
    let chunks = 0;
    for await (const chunk of stream.chunks) {
      assert.ok(chunk.length > 0);
      chunks += 1;
      if (then === close) stream.close();
      else then();
    }
    return chunks;
  };
  const close = (): void => undefined;
  await assert.rejects(
    read(() => sockets.at(-1)?.destroy()),
    { name: 'ConnectionError', code: 'ECONNRESET' },
  );
  assert.equal(await read(close), 1);
  const reason = new Error('lost the lease');
  await assert.rejects(
    read(() => abort.abort(reason)),
    reason,
  );
});

test('if the reader of a stream stops reading, the server has to stop sending', async (t) => {
  let written = 0;
  const { url } = await serve(t, (_request, response) => {
    const piece = Buffer.alloc(64 * 1024);
    const more = (): void => {
      do written += piece.length;
      while (response.write(piece) && written < 256 * 1024 * 1024);
    };
    response.on('drain', more);
    more();
  });
  const stream = await connect(t, url).stream(GET);
  const iterator = stream.chunks[Symbol.asyncIterator]();
  await iterator.next();
  // Waits until the connection accepts no more bytes: the buffers of the kernel and of Node are bounded.
  for (let before = -1; before !== written;) {
    before = written;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.ok(written < 32 * 1024 * 1024, `${written} bytes were taken from the server`);
  stream.close();
});

test('closing the client ends all calls and streams, and later calls fail with ECLOSED', async (t) => {
  const { url, server } = await serve(t, (request, response) => {
    if (request.url === '/watch') response.write('x');
  });
  const api = connect(t, url, { maxSockets: 1 });
  const stream = await api.stream({ ...GET, path: '/watch' });
  const calls = [api.request(GET), api.request(GET)].map((call) => call.catch((error: unknown) => error));
  await once(server, 'request');
  await api[Symbol.asyncDispose]();
  const closed = { name: 'ConnectionError', code: 'ECLOSED' };
  for (const call of calls) await assert.rejects(Promise.reject(await call), closed);
  await assert.rejects(async () => {
    for await (const chunk of stream.chunks) assert.ok(chunk.length > 0);
  }, closed);
  await assert.rejects(api.request(GET), closed);
  await assert.rejects(api.stream(GET), closed);
});

test('a client with a fence sends reads always, and writes only while the fence permits it', async (t) => {
  const seen: string[] = [];
  const { url } = await serve(t, (request, response) => {
    seen.push(request.method ?? '');
    response.end('{}');
  });
  let why: string | undefined = 'another replica may be leading';
  const api = connect(t, url, { fence: () => why });
  await api.request(GET);
  (await api.stream(GET)).close();
  for (const method of ['POST', 'PATCH', 'PUT', 'DELETE'] as const) {
    await assert.rejects(api.request({ method, path: '/x' }), {
      code: 'EFENCED',
      message: `${method} /x: not sent, another replica may be leading`,
    });
  }
  why = undefined;
  await api.request(POST);
  assert.deepEqual(seen, ['GET', 'GET', 'POST']);
});

test('if the Lease is lost while a write waits for a connection, the write is not sent', async (t) => {
  const seen: string[] = [];
  let why: string | undefined;
  const { url } = await serve(t, (request, response) => {
    seen.push(request.url ?? '');
    // Another replica has the Lease now, while the second write still waits for the connection.
    why = 'closed';
    response.end('{}');
  });
  const api = connect(t, url, { maxSockets: 1, fence: () => why });
  const first = api.request({ method: 'POST', path: '/first' });
  const second = api.request({ method: 'POST', path: '/second' });
  const third = api.request({ method: 'GET', path: '/third' });
  await Promise.all([first, assert.rejects(second, { code: 'EFENCED' }), third]);
  assert.deepEqual(seen, ['/first', '/third']);
});
