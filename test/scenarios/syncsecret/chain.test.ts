/** The whole chain: a tenant's SyncSecret, its copy in the management cluster, and the Secret there. */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import { SyncSecretScene, syncSecretPath } from './support.ts';

let scene: SyncSecretScene;
before(async () => (scene = await SyncSecretScene.open()));
afterEach(async () => await scene.clear());
after(async () => await scene.close());

describe('a SyncSecret of a tenant', () => {
  it('arrives as a Secret, follows changes, and leaves nothing when it is deleted', async () => {
    const { tenant } = await scene.running();
    await scene.namespaces('production');
    const object = await scene.create('production', 'app-tls', { a: 'one', b: 'two' });
    const { copy, secret } = await scene.arrived(tenant, object, { a: 'one', b: 'two' });
    assert.equal(copy.metadata.name, object.metadata.uid);
    assert.equal(secret.metadata.name, copy.metadata.uid);
    assert.equal(secret.metadata.labels['kubelb.k8c.io/origin-name'], 'app-tls');
    assert.equal(secret.metadata.labels['kubelb.k8c.io/origin-ns'], 'production');
    assert.equal(secret.metadata.labels['kubelb.k8c.io/origin-namespace'], 'production');
    const done = await scene.phase(object, 'Synced', { reason: 'Synced', message: /^Secret synced successfully$/ });
    assert.deepEqual(done.metadata.finalizers, ['kubelb.k8c.io/lb-finalizer']);
    await scene.change(scene.tenantApi, object, { b: 'three' });
    await scene.arrived(tenant, object, { b: 'three' });
    await scene.phase(object, 'Synced');
    await scene.tenantApi.delete(syncSecretPath('production', 'app-tls'));
    await scene.gone(scene.tenantApi, object);
    await scene.gone(scene.managementApi, copy, secret);
  });
});
