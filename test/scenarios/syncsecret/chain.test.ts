/** The whole chain: a tenant's SyncSecret, its copy in the management cluster, and the Secret there. */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
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

  it('may have empty values and any keys, in data and as text', async () => {
    const { tenant } = await scene.running();
    const more = { data: {}, stringData: { empty: '', note: `${scene.canary}x` } };
    const object = await scene.create('default', 'empty', {}, more);
    const find = async (): Promise<Json> => await scene.findCopy(tenant, object);
    const copy = await waitFor(find, { message: 'the copy' });
    const secret = await waitFor(async () => await scene.findSecret(copy), { message: 'the Secret' });
    assert.deepEqual(secret.data, { empty: '', note: Buffer.from(`${scene.canary}x`).toString('base64') });
    await scene.phase(object, 'Synced');
    const path = syncSecretPath('default', 'empty');
    await scene.tenantApi.patch(path, { stringData: { empty: 'full', later: '' } });
    await waitFor(
      async () => {
        const { data } = await scene.findSecret(copy);
        return data.empty === Buffer.from('full').toString('base64') && data.later === '';
      },
      { message: 'the change' },
    );
    await scene.tenantApi.patch(path, { stringData: { later: 'full' } });
    await waitFor(async () => (await scene.findSecret(copy)).data.later === Buffer.from('full').toString('base64'), {
      message: 'no empty value',
    });
    assert.equal((await find()).stringData, undefined);
  });
});
