/** Checks how many requests the reads of single namespaces send, and that no request is too long for a proxy. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { KubeApi, KubeRequest } from '../../../kube/api.ts';
import { NamespaceReads } from './namespace-reads.ts';
import { Namespaces } from './namespaces.ts';

test('what is asked during a read is read together by the next one, with a URL of at most 8 KiB', async () => {
  const lengths: number[] = [];
  const gate = Promise.withResolvers<void>();
  const names = Array.from({ length: 400 }, (_, index) => `${index}-`.padEnd(63, 'n'));
  const metadataOf = (name: string) => ({ name, uid: name, resourceVersion: '1', creationTimestamp: '' });
  const request = async ({ query = {} }: Pick<KubeRequest, 'query'>): Promise<unknown> => {
    const selector = String(query['labelSelector'] ?? '');
    lengths.push(encodeURIComponent(selector).length);
    await gate.promise;
    const selected = /\((.*)\)/.exec(selector)?.[1]?.split(',') ?? names;
    const items = selected.map((name) => ({ metadata: metadataOf(name) }));
    return { status: 200, body: Buffer.from(JSON.stringify({ metadata: {}, items })) };
  };
  const namespaces = new Namespaces();
  for (const name of names.slice(1)) namespaces.sink.upsert({ metadata: metadataOf(name) }, true);
  const api = { cluster: 'c', request } as unknown as KubeApi;
  const reads = new NamespaceReads({ api, namespaces, served: undefined });
  const { signal } = new AbortController();
  const first = reads.isCurrent(names[1] ?? '', signal);
  await new Promise((resolve) => process.nextTick(resolve));
  const others = names.map(async (name) => await reads.isCurrent(name, signal));
  gate.resolve();
  assert.equal(await first, true);
  const [unknown, ...known] = await Promise.all(others);
  assert.equal(unknown, false, 'no watch has brought it');
  assert.ok(known.every(Boolean));
  assert.equal(lengths.length, 2);
  assert.ok(Math.max(...lengths) < 8000, `${lengths.join()} bytes`);
});
