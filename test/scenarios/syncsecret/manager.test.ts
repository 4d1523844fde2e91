/** The manager alone: SyncSecrets that are created in the management cluster. */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { SyncSecretScene, syncSecretPath } from './support.ts';

let scene: SyncSecretScene;
before(async () => (scene = await SyncSecretScene.open()));
afterEach(async () => await scene.clear());
after(async () => await scene.close());

describe('a SyncSecret that is created in the management cluster', () => {
  it('has a Secret, with its name, owner, labels and data, and says so in its status', async () => {
    await scene.manager({ inRun: true });
    const api = scene.managementApi;
    const metadata = { labels: { app: 'web' }, annotations: { note: 'x' } };
    const object = await scene.create('default', 'direct', { a: 'one', b: 'two' }, { metadata }, api);
    const { copy, secret } = await scene.made(object, { a: 'one', b: 'two' });
    assert.equal(secret.metadata.name, object.metadata.uid);
    assert.equal(secret.type, 'Opaque');
    assert.equal(secret.immutable, undefined);
    const { uid } = object.metadata;
    assert.deepEqual(secret.metadata.ownerReferences, [
      { apiVersion: 'kubelb.k8c.io/v1alpha1', kind: 'SyncSecret', name: 'direct', uid },
    ]);
    assert.equal(secret.metadata.labels.app, 'web');
    assert.equal(secret.metadata.annotations.note, 'x');
    assert.deepEqual(copy.metadata.finalizers, ['kubelb.k8c.io/lb-finalizer']);
    const done: Json = await scene.phase(object, 'Synced', {
      api,
      reason: 'Synced',
      message: /^Secret synced successfully$/,
    });
    await scene.change(api, done, { b: 'three' });
    await scene.made(object, { b: 'three' });
    await api.delete(syncSecretPath('default', 'direct'));
    await scene.gone(api, object, secret);
  });
});
