/**
 * The administrator's limits on namespaces also apply to SyncSecrets, both in the tenant's cluster and in the
 * management cluster.
 */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import type { Json, TestApi } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
import { SyncSecretScene, syncSecretPath } from '../syncsecret/support.ts';

let scene: SyncSecretScene;

before(async () => {
  scene = await SyncSecretScene.open();
});
after(async () => {
  await scene?.close();
});

async function failed(api: TestApi, { metadata }: Json, message: RegExp): Promise<void> {
  let seen: Json;
  await waitFor(
    async () => {
      seen = (await api.get(syncSecretPath(metadata.namespace, metadata.name))).status;
      return seen?.phase === 'Failed' && message.test(seen.conditions[0].message);
    },
    { message: () => `${metadata.name} to fail with ${message}; it is ${JSON.stringify(seen)}` },
  );
}

it('if the limits do not permit a SyncSecret, it is not copied, its existing Secret stays, and its status names the flag', async () => {
  const tenant = await scene.tenant();
  await scene.namespaces('apps', 'other');
  const manager = await scene.manager();
  await scene.ccm(tenant, { args: ['--source-namespaces=apps'] });
  const permitted = await scene.create('apps', 'permitted', { a: '1' });
  const secret = await waitFor(
    async () =>
      await scene.managementApi.find(
        `/api/v1/namespaces/${tenant.namespace}/secrets/${(await scene.findCopy(tenant, permitted))?.metadata.uid}`,
      ),
    {
      message: 'the Secret of the permitted SyncSecret',
    },
  );
  const refused = await scene.create('other', 'refused', { a: '1' });
  await failed(scene.tenantApi, refused, /copies from namespace other are not permitted by --source-namespaces/);
  assert.equal(await scene.findCopy(tenant, refused), undefined);

  await manager.stop();
  await scene.manager({ args: [`--excluded-namespaces=${tenant.namespace}`] });
  const copy = await scene.findCopy(tenant, permitted);
  await failed(scene.managementApi, copy, /not permitted by --excluded-namespaces/);
  await scene.change(scene.tenantApi, permitted, { a: '2' });
  await failed(scene.tenantApi, permitted, /not permitted by --excluded-namespaces/);
  const after = await scene.managementApi.get(`/api/v1/namespaces/${tenant.namespace}/secrets/${secret.metadata.name}`);
  assert.deepEqual(after.data, secret.data, 'it stays, and is not written');
});
