/** Tests the client with servers that fail as proxies, standbys and other programs do. Real Vaults: test/scenarios. */
import assert from 'node:assert/strict';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { after, describe, it } from 'node:test';
import { inspect } from 'node:util';

import { CertificateAuthority } from '../../../test/servers/certificates.ts';
import { ConnectProxy } from '../../../test/support/connect-proxy.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { currentStretch } from '../../../test/support/yardstick.ts';
import { AbortedError } from '../../runtime/abort.ts';
import { systemClock } from '../../runtime/clock.ts';
import { getOrCreate } from '../../runtime/maps.ts';
import { KeyedLock } from '../../runtime/queue/keyed-lock.ts';
import { SecretBytes } from '../../runtime/secret-bytes.ts';
import { VaultClient, type VaultCall, type VaultCalls, type VaultClientOptions, type VaultRequest } from './client.ts';
import { isVaultError, type VaultError, type VaultErrorKind } from '../errors.ts';
import { parseServer, type VaultServerOptions } from './server.ts';

const TOKEN = 'hvs.token-of-the-test';
const LARGE = 7 * 1024 * 1024;
const PIECE = Buffer.alloc(256 * 1024, '1');
const servers: Server[] = [];
const clients: VaultClient[] = [];

/** The time limits of clients here suit an idle machine. They are multiplied by this factor. */
const slower = await currentStretch();

async function listen(server: Server): Promise<number> {
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

const serve = async (listener: RequestListener): Promise<string> =>
  `http://127.0.0.1:${await listen(createServer(listener))}`;

const identities = new WeakMap<VaultClient, VaultCalls>();

function connect(
  addr: string,
  more: Partial<VaultServerOptions> = {},
  options: Partial<VaultClientOptions> = {},
): VaultClient {
  const timeoutMs = Math.ceil((options.timeoutMs ?? 2000) * slower);
  const client = new VaultClient(parseServer({ addr, ...more }), { clock: systemClock, ...options, timeoutMs });
  clients.push(client);
  return client;
}

/** Sends a GET. Given a client instead of an identity, all calls of this client share one identity. */
function get(client: VaultClient | VaultCalls, more: Partial<VaultRequest> = {}): Promise<unknown> {
  const calls = client instanceof VaultClient ? getOrCreate(identities, client, () => client.identity()) : client;
  return calls.request({ method: 'GET', path: 'secret/data/app', token: SecretBytes.fromUtf8(TOKEN), ...more });
}

async function failure(promise: Promise<unknown>, ...kinds: readonly VaultErrorKind[]): Promise<VaultError> {
  const error: unknown = await promise.then(
    () => assert.fail('it succeeded'),
    (error: unknown) => error,
  );
  assert.ok(isVaultError(error, ...kinds), inspect(error));
  assert.ok(!inspect(error, { depth: null }).includes(TOKEN), inspect(error, { depth: null }));
  return error;
}

const answer =
  (status: number, body: string, headers: Record<string, string> = {}): RequestListener =>
  (request, response) => {
    request.resume();
    response.writeHead(status, headers).end(body);
  };

after(() => {
  for (const client of clients) client.close();
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
});

describe('an answer', () => {
  it('each error status of Vault becomes an error with its own kind, and the error does not quote HTML', async () => {
    const errors = (text: string): string => JSON.stringify({ errors: [text] });
    const cases: readonly (readonly [number, string, VaultErrorKind])[] = [
      [400, errors('check-and-set parameter did not match the current version'), 'casMismatch'],
      [400, errors('lease not found'), 'leaseGone'],
      [400, errors('missing data fields'), 'badRequest'],
      [403, errors('permission denied'), 'permissionDenied'],
      [404, '{"errors":[]}', 'notFound'],
      [404, errors('no handler for route "a/b"'), 'invalidPath'],
      [405, errors('1 error occurred:\n\t* unsupported operation\n\n'), 'invalidPath'],
      [412, errors('required index state not present'), 'unavailable'],
      [413, '', 'tooLarge'],
      [429, errors('rate limit quota exceeded'), 'unavailable'],
      [473, '', 'unavailable'],
      [500, errors('connection refused'), 'unavailable'],
      [502, '<html>', 'unavailable'],
      [503, errors('Vault is sealed'), 'unavailable'],
      [200, '<html>hello</html>', 'badResponse'],
      [200, '{"data":', 'badResponse'],
    ];
    for (const [status, body, kind] of cases) {
      const error = await failure(get(connect(await serve(answer(status, body)))), kind);
      assert.equal(error.status, status);
      assert.match(error.message, /^vault http:\/\/127\.0\.0\.1:\d+: GET secret\/data\/app: /);
      assert.doesNotMatch(error.message, /<html>/);
    }
  });

  it('if an answer quotes the token or a sent value, plain or as base64, the error redacts both', async () => {
    const addr = await serve((request, response) => {
      const quoted = `no: ${String(request.headers['x-vault-token'])} with hunter2 and ${Buffer.from('hunter2').toString('base64')}`;
      request.resume();
      response.writeHead(400).end(JSON.stringify({ errors: [quoted] }));
    });
    const error = await failure(get(connect(addr), { redact: () => ['hunter2'] }), 'badRequest');
    assert.match(error.message, /no: \[redacted\] with \[redacted\] and \[redacted\]$/);
  });

  it('the error of an answer 429 has the time of the Retry-After, for which the caller waits', async () => {
    const client = connect(await serve(answer(429, '{"errors":["slow down"]}', { 'retry-after': '2' })));
    const error = await failure(get(client), 'unavailable');
    assert.equal(error.retryAfterMs, 2_000);
  });

  it('an answer above 2 MiB is refused by its Content-Length, or as soon as more bytes have arrived', async () => {
    let sent = 0;
    const addr = await serve((request, response) => {
      request.resume();
      response.writeHead(200, request.url === '/v1/told' ? { 'content-length': String(LARGE) } : {});
      const write = (): void => {
        if (sent >= LARGE || response.destroyed) return;
        sent += PIECE.byteLength;
        response.write(PIECE, write);
      };
      if (request.url === '/v1/told') response.flushHeaders();
      else write();
    });
    const told = await failure(get(connect(addr), { path: 'told' }), 'tooLarge');
    assert.match(told.message, /the answer is larger than 2097152 bytes/);
    assert.equal(sent, 0);
    const long = await failure(get(connect(addr)), 'tooLarge');
    assert.match(long.message, /the answer is larger than 2097152 bytes/);
    assert.ok(sent < LARGE, `${sent} bytes were taken`);
  });

  it('if an answer has too many or too deeply nested JSON values, the error names the limit', async () => {
    const numbers = JSON.stringify({ data: { k: Array(700_000).fill(1) } });
    const deep = `{"data":${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
    assert.match(
      (await failure(get(connect(await serve(answer(200, numbers)))), 'tooLarge')).message,
      /more than 50000/,
    );
    assert.match((await failure(get(connect(await serve(answer(200, deep)))), 'tooLarge')).message, /deeper than 300/);
  });
});

// The tests wait for time limits, so they run at the same time.
describe('a large answer', { concurrency: true }, () => {
  const LARGE_ENTRY = answer(200, JSON.stringify({ data: { k: 'x'.repeat(1_000_000) } }));
  /** Sends the first piece of a large answer, and then never the rest. */
  const stall: RequestListener = (request, response) => {
    request.resume();
    response.writeHead(200).write(PIECE);
  };

  it('if the large answer of a server stalls, it is aborted after 5 s, and then the large answer of another server is read', async () => {
    let dripping = 0;
    const drips = await serve((request, response) => {
      dripping++;
      response.on('close', () => dripping--);
      stall(request, response);
    });
    const options = { largeAnswers: new KeyedLock(), timeoutMs: 30_000 };
    const slow = failure(get(connect(drips, {}, options)), 'tooLarge');
    await waitFor(() => dripping === 1, { message: 'the large answer' });
    await get(connect(await serve(LARGE_ENTRY), {}, options));
    assert.match((await slow).message, /took longer than 5000 ms/);
    await waitFor(() => dripping === 0, { message: 'the connection to be closed' });
  });

  it('however many large answers of servers stall that were slow before, other servers do not wait for them', async () => {
    const options = { largeAnswers: new KeyedLock(), timeoutMs: 60_000 };
    const honest = connect(await serve(LARGE_ENTRY), {}, options);
    const stalling = await serve(stall);
    const known = [connect(stalling, {}, options), connect(stalling, {}, options)];
    await Promise.all(known.map((client) => failure(get(client), 'tooLarge')));
    let ended = 0;
    const slow = known.flatMap((client) =>
      Array.from({ length: 20 }, async () => {
        await failure(get(client), 'tooLarge', 'closed');
        ended++;
      }),
    );
    for (let call = 0; call < 5; call++) await get(honest);
    assert.equal(ended, 0);
    for (const client of known) client.close();
    await Promise.all(slow);
  });

  it('a server whose large answer was slow stays with the slow ones after a prompt answer, and after one that broke off', async () => {
    let stalls = 0;
    const addr = await serve((request, response) => {
      if (request.url === '/v1/whole') LARGE_ENTRY(request, response);
      else if (request.url !== '/v1/stall' && request.url !== '/v1/broken') answer(200, '{}')(request, response);
      else {
        stall(request, response);
        if (request.url === '/v1/stall') stalls++;
        else setTimeout(() => response.destroy(), 50);
      }
    });
    const options = { largeAnswers: new KeyedLock(), timeoutMs: 60_000 };
    const honest = connect(await serve(LARGE_ENTRY), {}, options);
    const hostile = ['whole', 'broken'].map((path) => ({ path, client: connect(addr, {}, options) }));
    await Promise.all(hostile.map(({ client }) => failure(get(client, { path: 'stall' }), 'tooLarge')));
    for (const { path, client } of hostile) {
      await get(client, { path }).catch(() => undefined);
      let ended = false;
      const before = stalls;
      const stalled = failure(get(client, { path: 'stall' }), 'tooLarge', 'closed').finally(() => (ended = true));
      await waitFor(() => stalls > before, { message: 'the call that stalls' });
      for (let call = 0; call < 3; call++) await get(honest);
      assert.equal(ended, false, path);
      client.close();
      await stalled;
    }
  });

  it('a server whose large answers are prompt does not wait for those of a new server', async () => {
    const options = { largeAnswers: new KeyedLock(), timeoutMs: 30_000 };
    const honest = connect(await serve(LARGE_ENTRY), {}, options);
    await get(honest);
    let asked = false;
    const stalling = await serve((request, response) => {
      asked = true;
      stall(request, response);
    });
    const fresh = connect(stalling, {}, options);
    let ended = false;
    const stalled = failure(get(fresh), 'tooLarge', 'closed').finally(() => (ended = true));
    await waitFor(() => asked, { message: 'the call to the new server' });
    for (let call = 0; call < 5; call++) await get(honest);
    assert.equal(ended, false);
    fresh.close();
    await stalled;
  });
});

describe('many calls at a time', () => {
  it('300 calls at a time share at most 128 connections, and all get their answers', async () => {
    const addr = await serve((request, response) => setTimeout(() => answer(200, '{}')(request, response), 20));
    let connections = 0;
    servers.at(-1)?.on('connection', () => connections++);
    const client = connect(addr, {}, { timeoutMs: 10_000 });
    const revoke = { method: 'POST', path: 'sys/leases/revoke' } as const;
    await Promise.all(Array.from({ length: 300 }, () => get(client, revoke)));
    assert.equal(connections, 128);
  });
});

describe('a redirect', () => {
  it('if Vault redirects to another server, the error names that server, and no token is sent to it', async () => {
    let visited = 0;
    const other = await serve((request, response) => {
      visited++;
      answer(200, '{}')(request, response);
    });
    for (const location of [
      `${other}/v1/secret/data/app`,
      'http://leader.example:8200/v1/x',
      'https://127.0.0.1/v1/x',
    ]) {
      const error = await failure(get(connect(await serve(answer(307, '', { location })))), 'redirect');
      assert.ok(error.message.includes(new URL(location).origin), error.message);
    }
    await failure(get(connect(await serve(answer(307, '', { location: '/v1/secret/data/app' })))), 'redirect');
    assert.equal(visited, 0);
  });

  it('if Vault redirects to the same server, the client sends the call with its body to the new path', async () => {
    const bodies: string[] = [];
    const addr = await serve((request, response) => {
      let body = '';
      request.on('data', (chunk: Buffer) => (body += chunk.toString()));
      request.on('end', () => {
        bodies.push(`${request.method} ${request.url} ${body}`);
        if (request.url === '/proxy/v1/a') response.writeHead(307, { location: '/proxy/v1/b' }).end();
        else response.end('{"data":{"k":"v"}}');
      });
    });
    await get(connect(`${addr}/proxy/`), { method: 'POST', path: 'a', body: Buffer.from('{}') });
    assert.deepEqual(bodies, ['POST /proxy/v1/a {}', 'POST /proxy/v1/b {}']);
  });
});

describe('a server that does not answer', () => {
  it('after two calls of an identity without an answer, its calls fail unsent; one call at a time tries whether the server answers again', async () => {
    let up = false;
    let calls = 0;
    const addr = await serve((request, response) => {
      calls++;
      if (up) answer(200, '{}')(request, response);
      else request.socket.destroy();
    });
    const client = connect(addr);
    for (let call = 0; call < 2; call++) await failure(get(client), 'connection');
    for (let call = 0; call < 10; call++) {
      const error = await failure(get(client), 'circuitOpen');
      assert.ok(error.retryAfterMs !== undefined && error.retryAfterMs > 0 && error.retryAfterMs <= 1000);
      assert.match(error.reason, /^not sent, after /);
    }
    assert.equal(calls, 2);
    await failure(get(client.identity()), 'connection');
    up = true;
    const isAnswered = async (): Promise<boolean> => {
      return await get(client).then(
        () => true,
        () => false,
      );
    };
    await waitFor(isAnswered, { message: 'an answer' });
    await get(client);
  });

  it('if a server closes or refuses the connection, or its name does not resolve, the call fails with kind connection', async () => {
    const addr = await serve((request) => request.socket.destroy());
    await failure(get(connect(addr)), 'connection');
    servers.at(-1)?.close();
    const refused = await failure(get(connect('http://127.0.0.1:1')), 'connection');
    assert.equal(refused.reason, 'the server refuses the connection (connect ECONNREFUSED 127.0.0.1:1)');
    const nameless = await failure(get(connect('http://vault.invalid:8200')), 'connection');
    assert.match(nameless.reason, /^the host name (does not resolve|cannot be resolved now, .*) \(getaddrinfo /);
  });

  it('calls to a server that answers with 500 go on, and calls to a sealed one do not', async () => {
    const failing = connect(await serve(answer(500, '{"errors":["database is down"]}')));
    for (let call = 0; call < 5; call++) await failure(get(failing), 'unavailable');
    const sealed = connect(await serve(answer(503, '{"errors":["Vault is sealed"]}')));
    for (let call = 0; call < 2; call++) await failure(get(sealed), 'unavailable');
    assert.match((await failure(get(sealed), 'circuitOpen')).reason, /sealed/);
  });
});

describe('one identity whose calls fail or hang', () => {
  /** A server whose mount `database` hangs. */
  async function half(): Promise<{ addr: string; urls: string[] }> {
    const urls: string[] = [];
    const addr = await serve((request, response) => {
      urls.push(request.url ?? '');
      if (request.url?.startsWith('/v1/database') !== true) answer(200, '{}')(request, response);
    });
    return { addr, urls };
  }

  it('if a mount hangs, the client refuses the calls of that identity to that mount, but neither other mounts nor other identities', async () => {
    const { addr, urls } = await half();
    const client = connect(addr, {}, { timeoutMs: 150 });
    const [one, other] = [client.identity(), client.identity()];
    const hang = async (): Promise<VaultError> => await failure(get(one, { path: 'database/creds/app' }));
    for (let calls = 0; calls < 2; calls++) assert.equal((await hang()).kind, 'timeout');
    const errors = await Promise.all(Array.from({ length: 8 }, hang));
    assert.deepEqual(
      errors.map(({ kind }) => kind),
      Array.from({ length: 8 }, () => 'circuitOpen'),
    );
    assert.match(errors[0]!.reason, /^not sent, after no answer within \d+ ms$/);
    assert.equal(urls.filter((url) => url.startsWith('/v1/database')).length, 2);
    await get(one);
    await get(other);
    await failure(get(other, { path: 'database/creds/app' }), 'timeout');
  });

  it('while 100 calls of 12 identities hang, the calls of an identity that is answered are not delayed', async () => {
    const { addr } = await half();
    const client = connect(addr, {}, { timeoutMs: 20_000 });
    const good = client.identity();
    await get(good);
    const controller = new AbortController();
    const { signal } = controller;
    const identities = Array.from({ length: 12 }, () => client.identity());
    const hanging = Array.from({ length: 100 }, (_, call) =>
      get(identities[call % 12]!, { path: 'database/creds/app', signal }).catch(() => undefined),
    );
    await Promise.all(Array.from({ length: 20 }, () => get(good)));
    controller.abort();
    await Promise.all(hanging);
  });

  it('calls with a malformed token are not sent, and later calls are', async () => {
    let calls = 0;
    const addr = await serve((request, response) => {
      calls++;
      answer(200, '{}')(request, response);
    });
    const client = connect(addr);
    for (const token of ['', 'a\nb', 'ä', 'x'.repeat(20_000)]) {
      await failure(get(client, { token: SecretBytes.fromUtf8(token) }), 'tokenInvalid');
    }
    assert.equal(calls, 0);
    await get(client);
  });
});

describe('a call', () => {
  it('if the signal of a call is aborted, the call throws AbortedError, and does not count as a failure', async () => {
    const client = connect(await serve(() => undefined));
    for (let calls = 0; calls < 3; calls++) {
      const controller = new AbortController();
      const call = get(client, { signal: controller.signal });
      setTimeout(() => controller.abort(new Error('enough')), 20);
      await assert.rejects(call, AbortedError);
    }
    await assert.rejects(get(client, { signal: AbortSignal.abort() }), AbortedError);
  });

  it('if the server has closed the kept connection, a repeatable call is sent again on a new connection, any other fails', async () => {
    let calls = 0;
    const addr = await serve((request, response) => {
      calls++;
      if (calls === 2 || calls === 5) request.socket.destroy();
      else answer(200, '{}')(request, response);
    });
    const client = connect(addr);
    await get(client);
    await get(client);
    assert.equal(calls, 3);
    await get(client);
    await failure(get(client, { repeatable: false }), 'connection');
    assert.equal(calls, 5);
  });

  it('the client sends token and namespace of a call as headers, and reports the call to onCall', async () => {
    const seen: VaultCall[] = [];
    let headers: unknown;
    const addr = await serve((request, response) => {
      headers = [
        request.headers['x-vault-token'],
        request.headers['x-vault-namespace'],
        request.headers['x-vault-request'],
      ];
      answer(204, '')(request, response);
    });
    await get(connect(addr, { namespace: 'team/a' }, { onCall: (call) => seen.push(call) }));
    assert.deepEqual(headers, [TOKEN, 'team/a', 'true']);
    assert.deepEqual([seen.length, seen[0]?.status, seen[0]?.path], [1, 204, 'secret/data/app']);
  });

  it('when the client is closed, running and later calls fail with kind closed', async () => {
    const client = connect(await serve(() => undefined));
    const pending = failure(get(client), 'closed');
    setTimeout(() => client.close(), 50);
    await pending;
    await failure(get(client), 'closed');
  });
});

describe('TLS', () => {
  async function serveTls(): Promise<{ addr: string; ca: string }> {
    const authority = await CertificateAuthority.create('test');
    const { certPem, keyPem } = await authority.server('vault');
    const port = await listen(createTlsServer({ cert: certPem, key: keyPem }, answer(200, '{}')));
    return { addr: `https://127.0.0.1:${port}`, ca: authority.certPem };
  }

  it('a TLS connection fails if the CA bundle did not sign the certificate or the certificate has another name', async () => {
    const { addr, ca } = await serveTls();
    await get(connect(addr, { caBundle: ca }));
    await get(connect(addr, { caBundle: ca, tlsServerName: 'localhost' }));
    await get(connect(addr, { insecureSkipVerify: true }));
    await failure(get(connect(addr)), 'tls');
    await failure(get(connect(addr, { caBundle: ca, tlsServerName: 'other.example' })), 'tls');
    const other = await CertificateAuthority.create('other');
    await failure(get(connect(addr, { caBundle: other.certPem })), 'tls');
  });

  it('calls over TLS go through a tunnel of the HTTP proxy, with the user name and password of the proxy', async () => {
    const { addr, ca } = await serveTls();
    await using proxy = await ConnectProxy.open(() => true);
    const url = new URL(proxy.url);
    [url.username, url.password] = ['user', 'p%40ss'];
    await get(connect(addr, { caBundle: ca }, { proxy: url.href }));
    assert.deepEqual(proxy.tunnels, [`Basic ${Buffer.from('user:p@ss').toString('base64')}`]);
  });

  it('without TLS, the client opens no tunnel: the proxy gets the whole URL in the request line', async () => {
    const seen: unknown[] = [];
    const proxy = await serve((request, response) => {
      seen.push([request.url, request.headers.host, request.headers['proxy-authorization']]);
      answer(200, '{}')(request, response);
    });
    const url = proxy.replace('http://', 'http://user:p%40ss@');
    await get(connect('http://vault.internal:8200/way', {}, { proxy: url }));
    const login = `Basic ${Buffer.from('user:p@ss').toString('base64')}`;
    assert.deepEqual(seen, [['http://vault.internal:8200/way/v1/secret/data/app', 'vault.internal:8200', login]]);
  });

  it('if a server requests a client certificate, the configured certificate is sent', async () => {
    const authority = await CertificateAuthority.create('test');
    const { certPem, keyPem } = await authority.server('vault');
    const options = { cert: certPem, key: keyPem, ca: authority.certPem, requestCert: true };
    const addr = `https://127.0.0.1:${await listen(createTlsServer(options, answer(200, '{}')))}`;
    const own = await authority.client({ commonName: 'keyferry' });
    const client = { certificate: own.certPem, key: SecretBytes.fromUtf8(own.keyPem) };
    await failure(get(connect(addr, { caBundle: authority.certPem })), 'tls', 'connection');
    await get(connect(addr, { caBundle: authority.certPem }, { client }));
  });

  it('an https call to a port that speaks plain HTTP fails with kind tls', async () => {
    const addr = await serve(answer(200, '{}'));
    await failure(get(connect(addr.replace('http:', 'https:'))), 'tls');
  });
});
