/** Tests that a copy or a Secret that is no longer wanted and that cannot be deleted is reported, in words for tenants. */
import assert from 'node:assert/strict';
import { after, afterEach, before, it } from 'node:test';

import type { Json, TestApi } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
import { refuse } from '../engine/admission.ts';
import { pathOf, secretPath, syncSecretPath, SyncSecretScene } from './support.ts';

let scene: SyncSecretScene;
before(async () => (scene = await SyncSecretScene.open()));
afterEach(async () => await scene.clear());
after(async () => await scene.close());

const SHORT_LIMIT = { args: ['--deletion-timeout=1s'] };
const VALUES = { a: '1' };

/** Waits for a warning about a namespace. */
async function warned(api: TestApi, namespace: string, message: RegExp): Promise<Json> {
  let seen: Json[] = [];
  const look = async (): Promise<Json> => {
    seen = await api.list(`/api/v1/namespaces/${namespace}/events`);
    return seen.find((event) => event.involvedObject.kind === 'Namespace' && message.test(event.message));
  };
  return await waitFor(look, { message: () => `${message} among ${JSON.stringify(seen.map((one) => one.message))}` });
}

it('if the CCM may not delete copies, a deleted SyncSecret leaves an event on its namespace that names no place in the management cluster', async () => {
  const { tenant, ccm } = await scene.kept(SHORT_LIMIT);
  const object = await scene.create('default', 'left', VALUES);
  const { copy } = await scene.arrived(tenant, object, VALUES);
  const role = `/apis/rbac.authorization.k8s.io/v1/namespaces/${tenant.namespace}/roles/keyferry-syncsecret-ccm`;
  const { rules } = await scene.managementApi.get(role);
  const without = rules.map((rule: Json) => ({
    ...rule,
    verbs: rule.verbs.filter((verb: string) => verb !== 'delete'),
  }));
  await scene.managementApi.patch(role, { rules: without });
  using client = scene.clusters.managementPlane.client({ token: tenant.token });
  const path = syncSecretPath(tenant.namespace, 'none');
  await waitFor(async () => (await client.raw('DELETE', path)).status === 403, { message: 'the refusal' });
  await scene.tenantApi.delete(pathOf(object));
  await scene.gone(scene.tenantApi, object);
  const { message } = await warned(scene.tenantApi, 'default', /whose rule default\/left of syncsecret-ccm is gone/);
  assert.match(message, /^cannot delete the copy, .*: the operator has no permission to delete syncsecrets$/);
  assert.equal(await ccm.metric('keyferry_claims', { system: 'syncsecret-ccm', state: 'undeleted' }), 1);
  await scene.managementApi.patch(role, { rules });
  await scene.gone(scene.managementApi, copy);
});

it('if a policy keeps the Secret of a deleted SyncSecret, an event and the next SyncSecret of this name say so', async () => {
  const { managementApi: api } = scene;
  const tenant = await scene.tenant();
  await scene.keptManager(SHORT_LIMIT);
  const object = await scene.create(tenant.namespace, 'kept', VALUES, {}, api);
  const { secret } = await scene.made(object, VALUES);
  const when = `request.name == '${secret.metadata.name}'`;
  {
    await using _ = await refuse(api, 'kept', { when, operations: ['DELETE'] });
    await api.delete(pathOf(object));
    await scene.gone(api, object);
    await warned(api, tenant.namespace, /whose rule .*\/kept of syncsecret-manager is gone: an admission policy/);
    const next = await scene.create(tenant.namespace, 'kept', VALUES, {}, api);
    const message = /an earlier SyncSecret of this name left its Secret, which cannot be deleted: an admission policy/;
    await scene.phase(next, 'Failed', { reason: 'SyncFailed', message, api });
  }
  await scene.gone(api, { kind: 'Secret', metadata: secret.metadata });
  await scene.phase(await api.get(pathOf(object)), 'Synced', { api });
  assert.equal(await api.find(secretPath(tenant.namespace, secret.metadata.name)), undefined);
});
