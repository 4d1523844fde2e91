/** Tests the client through TLS and proxies. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { Socket } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { setImmediate } from 'node:timers/promises';
import { CertificateAuthority } from '../../test/servers/certificates.ts';
import { ConnectProxy } from '../../test/support/connect-proxy.ts';
import { connect as connectTo, listen } from '../../test/support/loopback.ts';
import { SocksProxy } from '../../test/support/socks-proxy.ts';
import { staticCredentials } from '../../test/support/static-credentials.ts';
import type { TlsMaterial } from '../http/agent.ts';
import type { HttpKubeApi } from './http.ts';

const GET = { method: 'GET', path: '/x' } as const;

const authority = await CertificateAuthority.create('ca');
const certified = await authority.server('server');
const [alice, bob] = await Promise.all(['alice', 'bob'].map((commonName) => authority.client({ commonName })));

/** Starts a server that answers with the name in the client's certificate. */
async function serveTls(t: TestContext): Promise<{ url: URL; reused: boolean[] }> {
  const reused: boolean[] = [];
  const { certPem: cert, keyPem: key } = certified;
  const options = { cert, key, ca: authority.certPem, requestCert: true, rejectUnauthorized: false };
  const server = createSecureServer(options, (request, response) => {
    response.end((request.socket as TLSSocket).getPeerCertificate().subject?.CN ?? 'nobody');
  });
  server.on('secureConnection', (socket) => reused.push(socket.isSessionReused()));
  return { url: await listen(t, server, '0.0.0.0'), reused };
}

function connect(t: TestContext, server: URL, tls: TlsMaterial, proxy?: URL): HttpKubeApi {
  return connectTo(t, server, {}, { credentials: staticCredentials({}, tls), ...(proxy && { proxy }) });
}

describe('TLS', () => {
  const trusting = (more: Partial<TlsMaterial> = {}): TlsMaterial => ({
    ca: authority.certPem,
    rejectUnauthorized: true,
    ...more,
  });
  const as = (user: typeof alice): TlsMaterial => trusting({ cert: user?.certPem, key: user?.keyPem });

  test('TLS refuses a server whose certificate is of another CA or for another name', async (t) => {
    const { url } = await serveTls(t);
    const byAddress = new URL(url);
    // The certificate does not name this address.
    byAddress.hostname = '127.0.0.2';
    assert.equal((await connect(t, url, trusting()).request(GET)).body.toString(), 'nobody');
    assert.equal((await connect(t, byAddress, trusting({ servername: 'localhost' })).request(GET)).status, 200);
    assert.equal((await connect(t, byAddress, { rejectUnauthorized: false }).request(GET)).status, 200);
    await assert.rejects(connect(t, byAddress, trusting()).request(GET), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' });
    await assert.rejects(connect(t, url, trusting({ servername: 'other' })).request(GET), {
      code: 'ERR_TLS_CERT_ALTNAME_INVALID',
    });
    await assert.rejects(connect(t, url, { rejectUnauthorized: true }).stream(GET), /ConnectionError: .*certificate/u);
  });

  test('later calls and streams use the open connection, and further connections reuse the TLS session', async (t) => {
    const { url, reused } = await serveTls(t);
    const api = connect(t, url, as(alice));
    for (let calls = 0; calls < 3; calls++) await api.request(GET);
    assert.equal(reused.length, 1);
    const streams = [await api.stream(GET), await api.stream(GET), await api.stream(GET)];
    for (const stream of streams) {
      for await (const chunk of stream.chunks) assert.equal(chunk.toString(), 'alice');
    }
    assert.deepEqual(reused, [false, true, true]);
  });

  test('after the client certificate was rotated, new calls use new connections, and running calls go on', async (t) => {
    const { url, reused } = await serveTls(t);
    let tls = as(alice);
    const credentials = { ...staticCredentials({}), tls: async () => tls };
    const api = connectTo(t, url, {}, { credentials });
    const stream = await api.stream(GET);
    assert.equal((await api.request(GET)).body.toString(), 'alice');
    const underWay = api.request(GET);
    // This call has been sent with the old certificate, and has no answer yet.
    await setImmediate();
    tls = as(bob);
    assert.equal((await api.request(GET)).body.toString(), 'bob');
    assert.equal((await underWay).body.toString(), 'alice');
    for await (const chunk of stream.chunks) assert.equal(chunk.toString(), 'alice');
    assert.equal(reused.length, 3);
  });

  test('if client certificate and key do not match, the call fails with a CredentialError, and the next call reads them again', async (t) => {
    const { url } = await serveTls(t);
    let tls: TlsMaterial = { ...as(alice), key: bob?.keyPem };
    const credentials = { headers: async () => ({}), tls: async () => tls, invalidate: () => (tls = as(alice)) };
    const api = connectTo(t, url, {}, { credentials, origin: 'here' });
    await assert.rejects(api.request(GET), { name: 'CredentialError', message: /^here: .*key values mismatch/u });
    assert.equal((await api.request(GET)).body.toString(), 'alice');
  });

  test("calls through a proxy use a tunnel, and check the server's certificate through it", async (t) => {
    const { url } = await serveTls(t);
    await using server = await ConnectProxy.open((target) => target === url.host);
    const { url: proxy, tunnels } = server;
    proxy.username = 'us%40er';
    proxy.password = 'pa:ss';
    const api = connect(t, url, as(alice), proxy);
    await api.request(GET);
    assert.equal((await api.request(GET)).body.toString(), 'alice');
    const stream = await api.stream(GET);
    for await (const chunk of stream.chunks) assert.equal(chunk.toString(), 'alice');
    const login = `Basic ${Buffer.from('us@er:pa:ss').toString('base64')}`;
    assert.deepEqual(tunnels, [login]);
    await assert.rejects(connect(t, url, { rejectUnauthorized: true }, proxy).request(GET), /certificate/u);
  });
});

test('if a proxy refuses the tunnel or is not there, the error says so and does not show its password', async (t) => {
  await using tunnel = await ConnectProxy.open(() => false);
  const withPassword = new URL(`http://u:s3cret@${tunnel.url.host}`);
  const server = new URL('https://127.0.0.1:1');
  const refused = connect(t, server, { rejectUnauthorized: true }, withPassword).request(GET);
  await assert.rejects(refused, (error: Error & { code: string }) => {
    assert.equal(error.code, 'ERR_PROXY_TUNNEL');
    assert.match(error.message, /tunnel to 127\.0\.0\.1:1 via http:\/\/127\.0\.0\.1:\d+\/: HTTP\/1\.1 407/u);
    assert.doesNotMatch(`${error.message} ${String(error.cause)}`, /s3cret/u);
    return true;
  });
  const dead = connect(t, server, { rejectUnauthorized: true }, new URL('http://127.0.0.1:1')).stream(GET);
  await assert.rejects(dead, { code: 'ECONNREFUSED' });
});

test('an HTTP proxy forwards the calls to a plain HTTP server', async (t) => {
  const seen: unknown[] = [];
  const proxy = createServer((request, response) => {
    seen.push([request.url, request.headers.host, request.headers['proxy-authorization']]);
    response.end('{}');
  });
  const url = await listen(t, proxy);
  Object.assign(url, { username: 'u', password: 'p' });
  await connect(t, new URL('http://kube.example:8080/base'), { rejectUnauthorized: true }, url).request(GET);
  assert.deepEqual(seen, [['http://kube.example:8080/base/x', 'kube.example:8080', 'Basic dTpw']]);
});

test('calls go through a SOCKS5 proxy, which resolves the name of the server', async (t) => {
  const { port } = await listen(
    t,
    createServer((_request, response) => response.end('{}')),
  );
  await using proxy = await SocksProxy.open((host) => (host === 'kube.example' ? '127.0.0.1' : host));
  const api = connect(t, new URL(`http://kube.example:${port}`), { rejectUnauthorized: true }, proxy.url);
  for (let calls = 0; calls < 2; calls++) assert.equal((await api.request(GET)).status, 200);
  assert.deepEqual(proxy.targets, [`kube.example:${port}`]);
});

test('a closed client ends a call that waits for the proxy', async (t) => {
  const server = createServer();
  const arrived = Promise.withResolvers<Socket>();
  server.on('connect', (_request, socket: Socket) => arrived.resolve(socket));
  const api = connect(t, new URL('https://127.0.0.1:1'), { rejectUnauthorized: true }, await listen(t, server));
  const call = api.request(GET).catch((error: unknown) => error);
  const socket = await arrived.promise;
  await api[Symbol.asyncDispose]();
  assert.equal(((await call) as { code?: string }).code, 'ECLOSED');
  socket.destroy();
});
