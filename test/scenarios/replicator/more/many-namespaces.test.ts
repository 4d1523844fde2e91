/**
 * If hundreds of namespaces are created at the same time, each copy is written one time, and copies that a backup
 * restores with their namespace stay.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { type Json, TestApiError } from '../../../support/api.ts';
import type { Keyferry } from '../../../support/keyferry.ts';
import { parseMetrics } from '../../../support/prometheus.ts';
import { staysTrue, waitFor } from '../../../support/wait-for.ts';
import { annotate, KINDS, type KindScene, ReplicatorScene } from '../support.ts';

const NAMESPACES = 150;
const SOURCES = 20;
const SETTLE_MS = 1500;

let scene: ReplicatorScene;
let users: KindScene;
let operator: Keyferry;
before(async () => {
  scene = await ReplicatorScene.open({ controllerManager: false });
  await scene.namespaces('source');
  operator = await scene.operator();
  users = scene.of(KINDS[0]!);
});
after(() => scene.close());

describe('many new namespaces at once', () => {
  it(`if ${NAMESPACES} new namespaces match the patterns of ${SOURCES} sources, each copy is made with one write, and nothing else is written`, async (t) => {
    for (let index = 0; index < SOURCES; index += 1) {
      // Half of the sources have one common pattern, and each of the others has its own pattern.
      const pattern = index % 2 === 0 ? 'storm-[0-9]+' : `storm-(x${index})?.*`;
      await users.create(`source/s-${index}`, { a: String(index) }, { 'replicate-to-namespaces': pattern });
    }
    const seen = new Map<string, number>();
    const others: string[] = [];
    await using stack = new AsyncDisposableStack();
    const watch = await scene.api.watch('/api/v1/secrets', ({ type, object }) => {
      const name = `${object?.metadata?.namespace}/${object?.metadata?.name}`;
      if (type === 'ADDED' && name.startsWith('storm-')) seen.set(name, (seen.get(name) ?? 0) + 1);
      else others.push(`${type} ${name}`);
    });
    stack.use(watch);
    const cpuBefore = await operator.cpuSeconds();
    await scene.namespaces(...Array.from({ length: NAMESPACES }, (__, index) => `storm-${index}`));
    const wanted = NAMESPACES * SOURCES;
    await waitFor(() => seen.size === wanted, {
      timeoutMs: 60_000,
      message: () => `${wanted} copies, not ${seen.size}`,
    });
    await staysTrue(() => others.length === 0, SETTLE_MS, 'nothing but creations');
    assert.deepEqual(
      [...seen].filter(([, times]) => times !== 1),
      [],
    );
    const writes = parseMetrics(await operator.metrics()).filter(({ name }) => name === 'keyferry_writes_total');
    assert.deepEqual(
      writes.map(({ labels: { verb, result }, value }) => [verb, result, value]),
      [['create', 'ok', wanted]],
    );
    t.diagnostic(`${((await operator.cpuSeconds()) - cpuBefore).toFixed(2)} s of CPU`);
  });

  it('if a backup restores a namespace with a copy, Keyferry keeps the copy with its replicate-once data', async () => {
    const once = { 'replicate-to-namespaces': 'backup-[0-9]+', 'replicate-once': 'true' };
    await users.create('source/once', { password: 'of today' }, once);
    const deleted: string[] = [];
    await using stack = new AsyncDisposableStack();
    const watch = await scene.api.watch('/api/v1/secrets', ({ type, object }) => {
      if (type === 'DELETED') deleted.push(`${object.metadata.namespace}/${object.metadata.name}`);
    });
    stack.use(watch);
    const restored = Array.from({ length: 20 }, (__, index) => `backup-${index}`);
    const uids: string[] = [];
    for (const namespace of restored) {
      await scene.namespaces(namespace);
      const copy: Json = {
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: {
          namespace,
          name: 'once',
          annotations: annotate({
            'replicated-by': 'source/once',
            'replicated-from-version': '1',
            'replicate-once': 'true',
            'replicated-at': '2020-01-01T00:00:00Z',
          }),
        },
        data: users.data({ password: 'of the backup' }),
      };
      try {
        uids.push((await scene.api.create(copy)).metadata.uid);
      } catch (error) {
        // 409: Keyferry made the copy before the test could restore it.
        if (!(error instanceof TestApiError) || error.status !== 409) throw error;
      }
    }
    await staysTrue(() => deleted.length === 0, SETTLE_MS, 'no copy from the backup was deleted');
    const kept = await Promise.all(restored.map((namespace) => users.find(`${namespace}/once`)));
    const fromBackup = kept.filter(({ metadata }) => uids.includes(metadata.uid));
    assert.equal(fromBackup.length, uids.length);
    assert.ok(uids.length > 0, 'some came with the backup');
    for (const { data } of fromBackup) assert.deepEqual(data, users.data({ password: 'of the backup' }));
  });
});
