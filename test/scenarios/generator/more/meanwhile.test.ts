/**
 * While Keyferry works on an ExternalSecret, another client writes its status or replaces the CRD. The test plays ESO.
 * At first the CRD allows conditions of any type.
 */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import { type FaultProxy, startFaultProxy } from '../../../servers/fault-proxy.ts';
import type { Json } from '../../../support/api.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { GeneratorScene } from '../support.ts';

const NAME = 'together';
const AUDITED = { type: 'Audited', status: 'True', reason: 'Later', message: 'x' };
const READY = { type: 'Ready', status: 'True', reason: 'SecretSynced', message: 'secret synced' };

let scene: GeneratorScene;
let proxy: FaultProxy;

before(async () => {
  const crds = (yaml: string): string => yaml.replace(/\n +enum:\n +- Ready\n +- Deleted\n/, '\n');
  scene = await GeneratorScene.open({ eso: false, crds });
  const { plane } = scene;
  proxy = await startFaultProxy({ upstream: plane.url, upstreamCaPem: plane.caPem });
  await scene.start({ kubeconfig: await plane.writeKubeconfig({ server: proxy.url, caPem: proxy.caPem }) });
});
after(async () => {
  await scene?.close();
  await proxy?.stop();
});

async function conditions(): Promise<Json[]> {
  return (await scene.api.get(scene.path(NAME))).status.conditions;
}

it("if another client writes a condition at the same time, Keyferry's status write gets 409, and the repeated write keeps that condition", async () => {
  const gate = Promise.withResolvers<void>();
  const match = { method: 'PATCH', path: `/externalsecrets/${NAME}/status` };
  const held = proxy.rule({ match, fault: { kind: 'hold', until: gate.promise }, times: 1 });
  await scene.externalSecret(NAME, [{ key: `app/${NAME}`, property: 'a' }]);
  await scene.fail(NAME);
  await waitFor(() => held.hits === 1, { message: () => `the condition to be written\n${scene.tail()}` });
  const before = await conditions();
  await scene.api.patch(`${scene.path(NAME)}/status`, { status: { conditions: [...before, AUDITED] } });
  gate.resolve();
  await waitFor(async () => (await scene.condition(NAME, 'Created'))?.reason === 'Success', {
    message: () => `the condition of Keyferry\n${scene.tail()}`,
  });
  const types = new Set((await conditions()).map(({ type }) => type));
  assert.deepEqual(types, new Set(['Audited', 'Created', 'Ready']));
  const first = proxy.requests.find(({ method, url }) => method === match.method && url.includes(match.path));
  assert.equal(first?.status, 409);
});

it('when a new CRD forbids the condition Created, Keyferry removes it, without an event of the ExternalSecret', async () => {
  const made = await scene.condition(NAME, 'Created');
  // The ExternalSecret is ready now. So only the change of the CRD can make Keyferry remove the condition.
  await scene.api.patch(`${scene.path(NAME)}/status`, { status: { conditions: [READY, made] } });
  await scene.externalSecret('marker', [{ key: 'app/marker', property: 'a' }]);
  await scene.fail('marker');
  await scene.says('marker', 'Success');
  assert.notEqual(await scene.condition(NAME, 'Created'), undefined);
  await scene.installCrds((yaml) => yaml, 'v1');
  await waitFor(async () => (await scene.condition(NAME, 'Created')) === undefined, {
    message: () => `the condition to be removed\n${scene.tail()}`,
  });
  assert.deepEqual(
    (await conditions()).map(({ type, status }) => [type, status]),
    [['Ready', 'True']],
  );
});
