/** Checks which contents a store of objects keeps in memory. With a real API server. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { readCrd } from '../../../../scripts/crd/read-crds.ts';
import { clientOf } from '../../../../test/support/kube-client.ts';
import { startControlPlane, type ControlPlane } from '../../../../test/servers/control-plane.ts';
import { waitFor } from '../../../../test/support/wait-for.ts';
import type { KubeApi, KubeObject } from '../../../kube/api.ts';
import type { HttpKubeApi } from '../../../kube/http.ts';
import type { WatchGroup } from '../../../kube/watch/watch-group.ts';
import { systemClock } from '../../../runtime/clock.ts';
import { type Kind, SECRET } from '../../model/kind.ts';
import { Engine } from '../../engine/engine.ts';
import { Cluster } from '../cluster.ts';
import { KubeStore } from './store.ts';

/** A custom resource that can be copied. */
const SYNC_SECRET: Kind = {
  kind: 'SyncSecret',
  apiVersion: 'kubelb.k8c.io/v1alpha1',
  groupPath: '/apis/kubelb.k8c.io/v1alpha1',
  plural: 'syncsecrets',
  fields: [{ name: 'data', encoding: 'base64' }],
  typed: true,
  isCustom: true,
  minimal: () => ({ data: {} }),
};

let plane: ControlPlane;
let api: HttpKubeApi;

before(async () => {
  plane = await startControlPlane({ controllerManager: false });
  api = await clientOf(plane);
});
after(async () => {
  await api[Symbol.asyncDispose]();
  await plane.stop();
});

test('a store drops the fingerprint of a deleted object, even if the object was not followed by name', async () => {
  const store = new KubeStore({ api, kind: SECRET, onChange: () => undefined, onKnown: () => undefined });
  try {
    await store.watches.watchAll(({ annotations }) => annotations !== undefined).synced;
    const metadata = { name: 'source', namespace: 'default', annotations: { mine: 'yes' } };
    await plane.api.create({ apiVersion: 'v1', kind: 'Secret', metadata });
    const key = store.key('default', 'source');
    const there = (): string | undefined => store.index.get('default', 'source')?.resourceVersion;
    const version = await waitFor(there, { message: 'the source to be known' });
    assert.ok((await store.load(key, undefined, version)) !== undefined);
    assert.ok(store.fingerprint(key, version) !== undefined);
    await plane.api.delete('/api/v1/namespaces/default/secrets/source');
    await waitFor(() => there() === undefined, { message: 'the source to be gone' });
    assert.equal(store.fingerprint(key, version), undefined);
    assert.ok((await store.load(key, undefined, version)) !== undefined, 'a content that a slow reader still gets');
    assert.equal(store.fingerprint(key, version), undefined);
  } finally {
    await store.stop();
  }
});

test('a cached content counts as at least 1 KiB, so that the cache cannot keep a huge number of small contents', async () => {
  const store = new KubeStore({ api, kind: SECRET, onChange: () => undefined, onKnown: () => undefined });
  try {
    await store.watches.watchAll(() => true).synced;
    await plane.api.create({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'small', namespace: 'default' },
      stringData: { a: '1' },
    });
    const key = store.key('default', 'small');
    await waitFor(() => store.view(key).state === 'present', { message: 'it to be known' });
    for (let version = 0; version < 20; version += 1) {
      await plane.api.patch('/api/v1/namespaces/default/secrets/small', { stringData: { a: String(version) } });
      assert.ok((await store.load(key, undefined, `none ${version}`)) !== undefined);
    }
    assert.ok(store.cachedBytes >= 20 * 1024, `20 contents are taken for ${store.cachedBytes} bytes`);
  } finally {
    await store.stop();
  }
});

function clusterOf(
  its: KubeApi,
  engine = new Engine({ onError: (_loop, _key, error) => assert.fail(String(error)) }),
  kinds: readonly Kind[] = [SECRET],
): Cluster {
  return new Cluster({
    api: its,
    isHome: true,
    engine,
    kinds,
    concurrency: 1,
    isRead: () => true,
    onWrite: () => undefined,
    onTrouble: () => undefined,
    onRollback: () => undefined,
    idleLimitMs: 90_000,
    clock: systemClock,
  });
}

test('a watch of objects with their data brings the content, so no request reads the objects', async () => {
  let reads = 0;
  const counting: KubeApi = {
    cluster: api.cluster,
    stream: async (request) => await api.stream(request),
    request: async (request) => {
      reads += 1;
      return await api.request(request);
    },
  };
  const cluster = clusterOf(counting);
  try {
    const seen: string[] = [];
    const create = async (name: string, app: string, a: string): Promise<void> => {
      const metadata = { name, namespace: 'default', labels: { app } };
      await plane.api.create({ apiVersion: 'v1', kind: 'Secret', metadata, stringData: { a } });
    };
    await create('whole', 'mine', 'one');
    await create('other', 'yours', 'one');
    const scope = { namespace: 'default', labelSelector: 'app=mine', isSource: () => true };
    const sink = {
      upsert: ({ metadata }: KubeObject) => seen.push(metadata.name) > 0,
      remove: () => undefined,
      prune: () => undefined,
    };
    await cluster.watchContents(SECRET, scope, sink).synced;
    assert.equal(reads, 1, 'the list');
    const store = cluster.store(SECRET);
    const key = store.key('default', 'whole');
    const first = store.fingerprint(key);
    assert.ok(first !== undefined);
    assert.equal((await store.load(key))?.fingerprint.digest, first.digest);
    await plane.api.patch('/api/v1/namespaces/default/secrets/whole', { stringData: { a: 'two' } });
    await waitFor(() => store.fingerprint(key)?.digest !== first.digest, { message: 'the change' });
    assert.equal((await store.load(key))?.fingerprint.digest, store.fingerprint(key)?.digest);
    assert.deepEqual(seen, ['whole', 'whole'], 'the caller gets the same events, and no other objects');
    assert.equal(reads, 1);
    assert.equal(
      store.isKnown(store.key('default', 'other')),
      false,
      'a selector does not show that an object is absent',
    );
    await plane.api.delete('/api/v1/namespaces/default/secrets/whole');
    await waitFor(() => store.fingerprint(key) === undefined, { message: 'the deletion' });
    assert.equal(store.cachedBytes, 0, 'the values are dropped');
  } finally {
    await cluster.stop();
  }
});

test('callers that need the same objects share one watch; the values of an object are kept if one of the callers copies them', async () => {
  const cluster = clusterOf(api);
  try {
    const metadata = { name: 'shared', namespace: 'default', labels: { app: 'shared' } };
    await plane.api.create({ apiVersion: 'v1', kind: 'Secret', metadata, stringData: { a: 'one' } });
    const seen: string[] = [];
    const watch = (caller: string, isSource: boolean): WatchGroup =>
      cluster.watchContents(
        SECRET,
        { labelSelector: 'app=shared', isSource: () => isSource },
        { upsert: () => seen.push(caller) > 0, remove: () => undefined, prune: () => undefined },
      );
    const watcher = watch('first', false);
    assert.equal(watch('second', true), watcher);
    await watcher.synced;
    assert.deepEqual(seen, ['first', 'second']);
    assert.equal(cluster.watches.length, 1);
    assert.ok(cluster.cachedBytes > 0, 'the values are kept for the second caller');
  } finally {
    await cluster.stop();
  }
});

test('if a label of a copied custom resource changes, rules and targets get an event; if only its status changes, they get none', async () => {
  await plane.api.apply(readCrd('syncsecrets'));
  const events: string[] = [];
  const engine = new Engine({ onError: (_loop, _key, error) => assert.fail(String(error)) });
  engine.onObjects({ objectChanged: (_key, _before, observed) => events.push(JSON.stringify(observed?.labels)) });
  const cluster = clusterOf(api, engine, [SYNC_SECRET]);
  engine.backends.add(cluster);
  try {
    const [statuses, sink] = [[] as unknown[], { remove: () => undefined, prune: () => undefined }];
    const upsert = (object: KubeObject & { readonly status?: unknown }): boolean => statuses.push(object.status) > 0;
    await cluster.watchContents(SYNC_SECRET, { isSource: () => false }, { ...sink, upsert }).synced;
    const collection = `${SYNC_SECRET.groupPath}/namespaces/default/${SYNC_SECRET.plural}`;
    const { apiVersion, kind } = SYNC_SECRET;
    await plane.api.create({ apiVersion, kind, metadata: { name: 'x', namespace: 'default' }, stringData: { a: 'b' } });
    await plane.api.patch(`${collection}/x/status`, { status: { phase: 'Synced' } });
    await plane.api.patch(`${collection}/x`, { metadata: { labels: { a: 'b' } } });
    await waitFor(() => events.includes('{"a":"b"}'), { message: 'the event of the label' });
    assert.deepEqual(events, ['{}', '{"a":"b"}']);
    assert.equal(statuses.length, 3, 'the rules get all events');
  } finally {
    await cluster.stop();
  }
});

test('a store with a watch of a whole namespace knows which objects do not exist there, and follows none of them by name', async () => {
  const cluster = clusterOf(api);
  try {
    const store = cluster.store(SECRET);
    const sink = { upsert: () => true, remove: () => undefined, prune: () => undefined };
    const watcher = cluster.watchContents(SECRET, { namespace: 'kube-system', isSource: () => false }, sink);
    const [inside, outside] = [store.key('kube-system', 'none'), store.key('default', 'none')];
    assert.equal(store.isKnown(inside), false, 'before the list');
    await watcher.synced;
    assert.deepEqual([store.isKnown(inside), store.isKnown(outside)], [true, false]);
    store.follow(inside);
    assert.equal(store.watches.health.length, 0);
    store.follow(outside);
    await waitFor(() => store.isKnown(outside), { message: 'a watch by name outside of the namespace' });
  } finally {
    await cluster.stop();
  }
});

test('if a read returns an older version than the index has, it fails with EROLLBACK', async () => {
  const store = new KubeStore({ api, kind: SECRET, onChange: () => undefined, onKnown: () => undefined });
  try {
    const { metadata } = await plane.api.create({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'older', namespace: 'default' },
    });
    const key = store.key('default', 'older');
    using request = store.index.beginRequest(store.key('default', 'older'));
    request.storeResponse(metadata);
    assert.ok((await store.read(key)) !== undefined);
    // The index gets a newer version than the server has, as if etcd was restored from a backup.
    request.storeResponse({ ...metadata, resourceVersion: `${metadata.resourceVersion}0` });
    await assert.rejects(store.read(key), { name: 'ConnectionError', code: 'EROLLBACK' });
  } finally {
    await store.stop();
  }
});
