/**
 * If the Vault, the login or the database of a mirror fails, other mirrors are not affected, not even mirrors of the
 * same Vault.
 */
import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../../support/api.ts';
import type { Keyferry } from '../../../support/keyferry.ts';
import { failOnLeaks } from '../../../support/leaks.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { type FaultProxy, startFaultProxy } from '../../../servers/fault-proxy.ts';
import { mirrorPath } from '../../mirrors/support.ts';
import { ALL, VaultScene } from '../support.ts';

const MANY = 10;

describe('mirrors that must not delay other mirrors', () => {
  let scene: VaultScene;
  let operator: Keyferry;
  let proxy: FaultProxy;
  let round = 0;
  const strangers: Server[] = [];

  before(async () => {
    scene = await VaultScene.open();
    proxy = await startFaultProxy({ upstream: scene.vault.addr });
    operator = await scene.mirrors.operator();
    await scene.mirrors.namespaces('target');
    await scene.approle('good', ALL);
    await scene.tokenSecret('all', ALL);
    await scene.put('secret/data/good', { a: '0' });
    await scene.fromVault('good', at(proxy.url, 'secret/data/good', { approle: { secretRef: { name: 'good' } } }), [
      'target',
    ]);
    await scene.mirrors.copied('target', 'good', { a: '0' });
  });
  after(async () => {
    await scene.close();
    await proxy.stop();
    for (const server of strangers) {
      server.closeAllConnections();
      server.close();
    }
  });

  const at = (addr: string, path: string, auth: Json): Json => ({ addr, path, auth });
  const token = (name: string): Json => ({ token: { secretRef: { name } } });

  /** Changes an entry several times, and checks that each change reaches its copy within the usual time. */
  async function assertUnaffected(): Promise<void> {
    for (let i = 0; i < 4; i++) {
      const text = String(++round);
      await scene.put('secret/data/good', { a: text });
      await scene.mirrors.copied('target', 'good', { a: text }, 10_000);
    }
    await scene.mirrors.ready('good', 'Synced');
  }

  async function many(name: string, block: (i: number) => Json): Promise<void> {
    for (let i = 0; i < MANY; i++) await scene.fromVault(`${name}-${i}`, block(i), ['target']);
  }

  async function gone(name: string): Promise<void> {
    const paths = Array.from({ length: MANY }, (_, i) => mirrorPath(`${name}-${i}`));
    await Promise.all(paths.map((path) => scene.mirrors.api.delete(path)));
    await scene.mirrors.gone(...paths);
  }

  it('mirrors whose database hangs delay no other mirror, not even mirrors with the same login', async () => {
    const hang = proxy.rule({ match: { path: '/v1/mongodb/creds' }, fault: { kind: 'stall' } });
    await scene.vault.request('POST', 'sys/mounts/mongodb', { type: 'database' });
    await many('hanging', (i) => at(proxy.url, `mongodb/creds/r${i}`, token('all')));
    await waitFor(() => hang.hits > 0, { message: 'a call that hangs' });
    await assertUnaffected();
    await scene.put('secret/data/beside', { a: 'beside' });
    await scene.fromVault('beside', at(proxy.url, 'secret/data/beside', token('all')), ['target']);
    await scene.mirrors.copied('target', 'beside', { a: 'beside' });
    hang.clear();
    proxy.cutAll();
    await gone('hanging');
  });

  it('if servers answer with megabytes of numbers, their mirrors report the limit, other mirrors are not delayed, and memory stays bounded', async () => {
    const numbers = Buffer.from(
      JSON.stringify({ data: { data: { k: Array(3_500_000).fill(1) }, metadata: { version: 1 } } }),
    );
    assert.ok(numbers.byteLength > 7_000_000);
    const before = (await operator.metric('process_resident_memory_bytes')) ?? 0;
    const addresses = await Promise.all(
      Array.from({ length: MANY }, async (_, i) => {
        // Every second server sends no Content-Length.
        const server = createServer((request, response) => {
          request.resume();
          if (i % 2 === 0) response.setHeader('content-length', numbers.byteLength);
          response.end(numbers);
        });
        strangers.push(server);
        await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
        return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      }),
    );
    await many('large', (i) => at(addresses[i] ?? '', 'secret/data/x', token('all')));
    await assertUnaffected();
    await scene.mirrors.ready('large-0', 'VaultError', /larger than 2097152 bytes/);
    await scene.mirrors.ready('large-1', 'VaultError', /larger than 2097152 bytes/);
    const grown = ((await operator.metric('process_resident_memory_bytes')) ?? 0) - before;
    assert.ok(grown < 60 * 2 ** 20, `${Math.round(grown / 2 ** 20)} MiB more`);
    await gone('large');
  });
});

failOnLeaks();
