/** The caches of a store, on a real API server. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { clientOf } from '../../../test/support/kube-client.ts';
import { startControlPlane, type ControlPlane } from '../../../test/servers/control-plane.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import type { HttpKubeApi } from '../../kube/http.ts';
import { SECRET } from '../model/kind.ts';
import { KubeStore } from './store.ts';

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

test('the fingerprints of a deleted object are dropped, also if it was not followed', async () => {
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

test('a content takes more memory than its values, so that not all of many small ones are kept', async () => {
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

test('an object in an older version than before is an error, and reported as a rollback', async () => {
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
    // A version from before the restore of a backup.
    request.storeResponse({ ...metadata, resourceVersion: `${metadata.resourceVersion}0` });
    await assert.rejects(store.read(key), { name: 'ConnectionError', code: 'EROLLBACK' });
  } finally {
    await store.stop();
  }
});
