/**
 * A condition `Created` must not block the status of External Secrets Operator (ESO). ESO 0.16 to 0.20 can serve v1 and
 * v1beta1 together, and only v1 limits the types of conditions. If a client stores a condition `Created` through
 * v1beta1, the API server refuses each later status of ESO.
 */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { readAuditLog } from '../../support/audit-log.ts';
import { waitFor } from '../../support/wait-for.ts';
import { GeneratorScene, HOME } from './support.ts';

const CREATED = { type: 'Created', status: 'True', reason: 'Success', message: 'A random value was put into Vault.' };

let scene: GeneratorScene;

before(async () => {
  scene = await GeneratorScene.open({ crds: withBothVersions, plane: { audit: true } });
});
after(() => scene?.close());

/** The CRD of ESO with v1beta1 served beside v1, which is the stored version. */
function withBothVersions(yaml: string): string {
  const changed = yaml.replaceAll(/served: false\n/g, 'served: true\n');
  assert.notEqual(changed, yaml);
  return changed;
}

/** Writes a condition Created through v1beta1, as the Bash controller does. */
async function setCreated(name: string): Promise<void> {
  const path = `${scene.path(name).replace('/v1/', '/v1beta1/')}/status`;
  const { status } = await scene.api.get(scene.path(name));
  await scene.api.patch(path, { status: { conditions: [...(status?.conditions ?? []), CREATED] } });
}

/** Counts the statuses of ESO that the API server refused as invalid. ESO uses the test's own account, `admin`. */
function refusals(name: string): number {
  const requests = readAuditLog(scene.plane, 'admin');
  return requests.filter((one) => one.resource === 'externalsecrets/status' && one.name === name && one.code === 422)
    .length;
}

async function secret(name: string): Promise<Json> {
  return await scene.api.find(`/api/v1/namespaces/${HOME}/secrets/${name}`);
}

it('if a condition Created makes the API server refuse the status of ESO, Keyferry removes the condition', async () => {
  const name = 'frozen';
  await scene.externalSecret(name, [{ key: `app/${name}`, property: 'password' }]);
  await waitFor(async () => (await scene.condition(name))?.status === 'False', { message: 'ESO to fail' });
  await setCreated(name);
  // ESO can now create the Secret, but the API server refuses the status that reports it.
  await scene.vault.request('POST', `secret/data/app/${name}`, { data: { password: 'by hand' } });
  await scene.api.patch(scene.path(name), { metadata: { annotations: { 'force-sync': 'now' } } });
  await waitFor(async () => (await secret(name)) !== undefined, { message: 'the Secret of ESO' });
  await waitFor(() => refusals(name) > 0, { message: 'a status of ESO to be refused' });
  assert.equal((await scene.condition(name)).status, 'False');

  await scene.start();
  await scene.synced(name);
  assert.equal(await scene.condition(name, 'Created'), undefined);
  assert.deepEqual((await scene.entry(`secret/data/app/${name}`)).data, { password: 'by hand' });
});

it('if v1 forbids the condition Created, Keyferry does not write it, and removes it after another client wrote it', async () => {
  const name = 'later';
  await scene.externalSecret(name, [{ key: `app/${name}`, property: 'password' }]);
  const { 'key-0': value } = await scene.synced(name);
  await scene.says(name, 'Success');
  assert.equal(await scene.condition(name, 'Created'), undefined);
  await setCreated(name);
  await waitFor(async () => (await scene.condition(name, 'Created')) === undefined, {
    message: () => `the condition to be removed\n${scene.tail()}`,
  });
  assert.equal((await scene.condition(name)).status, 'True');
  assert.deepEqual((await scene.entry(`secret/data/app/${name}`)).data, { password: value });
});
