import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { after, before, beforeEach, describe, it } from 'node:test';

import type { TestApi } from '../support/api.ts';
import { HttpClient } from '../support/http.ts';
import { staysTrue, waitFor } from '../support/wait-for.ts';
import { startControlPlane } from './control-plane.ts';
import type { ControlPlane } from './control-plane.ts';
import { startFaultProxy } from './fault-proxy.ts';
import type { FaultProxy } from './fault-proxy.ts';
import { kubernetesFault } from './fault-rules.ts';

const SECRETS = '/api/v1/namespaces/default/secrets';

/** A watch that does not connect again: its lines until now, and whether it has ended. */
interface RawWatch {
  readonly text: () => string;
  readonly end: () => 'open' | 'ended' | 'broken';
  readonly close: () => void;
}

describe('fault proxy before a real API server', () => {
  let plane: ControlPlane;
  let proxy: FaultProxy;
  let api: TestApi;
  let http: HttpClient;
  let names = 0;

  before(async () => {
    plane = await startControlPlane({ controllerManager: false });
    proxy = await startFaultProxy({ upstream: plane.url, upstreamCaPem: plane.caPem });
    api = plane.client({ url: proxy.url, caPem: proxy.caPem });
    http = new HttpClient(proxy.url, { caPem: proxy.caPem });
  });
  after(async () => {
    http?.close();
    api?.close();
    await proxy?.stop();
    await plane?.stop();
  });
  beforeEach(() => {
    proxy.clearRules();
  });

  function secret(): { metadata: { name: string } } {
    names += 1;
    const metadata = { name: `s-${names}`, namespace: 'default' };
    return { apiVersion: 'v1', kind: 'Secret', metadata } as { metadata: { name: string } };
  }

  async function watch(): Promise<RawWatch> {
    const list = await api.get(SECRETS, { query: { limit: 1 } });
    const response: IncomingMessage = await http.open(
      `${SECRETS}?watch=true&resourceVersion=${list.metadata.resourceVersion}`,
      { headers: { authorization: `Bearer ${plane.adminToken}` }, timeoutMs: 0 },
    );
    assert.equal(response.statusCode, 200);
    let text = '';
    let end: ReturnType<RawWatch['end']> = 'open';
    response.setEncoding('utf8');
    response.on('data', (chunk: string) => (text += chunk));
    response.on('end', () => (end = 'ended'));
    response.on('error', () => (end = 'broken'));
    return { text: () => text, end: () => end, close: () => response.destroy() };
  }

  it('the fault proxy passes calls and watches on, records them, and counts them and their bytes', async () => {
    proxy.reset();
    const open = await watch();
    const body = secret();
    await api.create(body);
    await waitFor(() => open.text().includes(`"${body.metadata.name}"`), { message: 'the event' });
    assert.deepEqual(
      proxy.requests
        .filter(({ url }) => url.startsWith(SECRETS))
        .map(({ method, status, isWatch }) => [method, status, isWatch]),
      [
        ['GET', 200, false],
        ['GET', 200, true],
        ['POST', 201, false],
      ],
    );
    const watched = proxy.live({ isWatch: true });
    assert.equal(watched.length, 1);
    assert.equal(watched[0]?.bytesIn, Buffer.byteLength(open.text()));
    assert.equal(proxy.counters.bytesOut, Buffer.byteLength(JSON.stringify(body)));
    open.close();
    await waitFor(() => proxy.live().length === 0, { message: 'the watch to end at the proxy too' });
  });

  it('the fault "respond" answers in place of the server, as many times as the rule says', async () => {
    const rule = proxy.rule({ match: { method: 'GET', path: /secrets/ }, fault: kubernetesFault(429, 7), times: 2 });
    for (const status of [429, 429, 200]) {
      const answer = await api.raw('GET', SECRETS);
      assert.equal(answer.status, status);
      if (status === 429) {
        assert.equal(answer.headers['retry-after'], '7');
        assert.equal(answer.body.reason, 'TooManyRequests');
      }
    }
    assert.equal(rule.hits, 2);
    proxy.rule({ match: { isWatch: true }, fault: kubernetesFault(410) });
    assert.equal((await api.raw('GET', `${SECRETS}?watch=1`)).status, 410);
    assert.equal((await api.raw('GET', SECRETS)).status, 200);
  });

  it('the fault "cut" breaks a connection before the server gets the request, and "lose-answer" after the server carried it out', async () => {
    const [unheard, done] = [secret(), secret()];
    proxy.rule({ match: { method: 'POST' }, fault: { kind: 'cut' }, times: 1 });
    await assert.rejects(api.create(unheard), { code: 'ECONNRESET' });
    assert.equal(await plane.api.find(`${SECRETS}/${unheard.metadata.name}`), undefined);
    proxy.rule({ match: { method: 'POST' }, fault: { kind: 'lose-answer' }, times: 1 });
    await assert.rejects(api.create(done), { code: 'ECONNRESET' });
    assert.ok(await plane.api.find(`${SECRETS}/${done.metadata.name}`));
  });

  it('the fault "delay" delays a request', async () => {
    proxy.rule({ match: { path: '/secrets' }, fault: { kind: 'delay', ms: 300 } });
    const from = performance.now();
    await api.list(SECRETS);
    assert.ok(performance.now() - from >= 295);
  });

  it('the fault "truncate" ends an answer in the middle of a line', async () => {
    proxy.rule({ match: { path: '/secrets' }, fault: { kind: 'truncate' }, times: 1 });
    await assert.rejects(api.list(SECRETS), { code: 'ECONNRESET' });
  });

  it('the fault "hold" holds a request until the test releases it', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const rule = proxy.rule({ match: { method: 'POST' }, fault: { kind: 'hold', until: promise }, times: 1 });
    const held = secret();
    const call = api.create(held);
    await waitFor(() => rule.hits === 1);
    assert.equal(await plane.api.find(`${SECRETS}/${held.metadata.name}`), undefined);
    resolve();
    await call;
    assert.ok(await plane.api.find(`${SECRETS}/${held.metadata.name}`));
  });

  it('the fault "stall" leaves new requests without an answer', async () => {
    proxy.rule({ match: { path: '/secrets' }, fault: { kind: 'stall' }, times: 1 });
    await assert.rejects(api.get(SECRETS, { timeoutMs: 200 }), /no answer within 200 ms/);
    await waitFor(() => proxy.live().length === 0);
  });

  it('stallAll() stops the events of a running watch; the watch stays open until it is cut', async () => {
    const open = await watch();
    assert.equal(proxy.stallAll({ isWatch: true }), 1);
    await plane.api.create(secret());
    await staysTrue(() => open.text() === '' && open.end() === 'open', 300, 'silent and open');
    assert.equal(proxy.cutAll(), 1);
    await waitFor(() => open.end() === 'broken');
  });

  it('truncateAll() ends a running watch in the middle of a line', async () => {
    const open = await watch();
    proxy.truncateAll({ isWatch: true }, 1);
    const [whole, half] = [secret(), secret()];
    await plane.api.create(whole);
    await plane.api.create(half);
    await waitFor(() => open.end() === 'broken');
    const [first, second, ...more] = open.text().split('\n');
    assert.equal(JSON.parse(first ?? '').object.metadata.name, whole.metadata.name);
    assert.ok(second !== undefined && second.length > 20);
    assert.throws(() => JSON.parse(second), SyntaxError);
    assert.deepEqual(more, []);
  });

  it('during partition(), no connection passes bytes; heal() breaks these connections, and new ones work', async () => {
    const open = await watch();
    proxy.partition();
    await assert.rejects(api.get(SECRETS, { timeoutMs: 150 }), /no answer/);
    using fresh = plane.client({ url: proxy.url, caPem: proxy.caPem });
    await assert.rejects(fresh.get(SECRETS, { timeoutMs: 150 }), /no answer/);
    assert.equal(open.end(), 'open');
    proxy.heal();
    await waitFor(() => open.end() === 'broken');
    await waitFor(() => api.get(SECRETS));
  });
});
