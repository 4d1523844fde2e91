/**
 * While Keyferry runs, the CRDs of External Secrets Operator (ESO) are installed, first with v1beta1 alone and then
 * with v1 alone. The test plays ESO, because no release of ESO works with both.
 */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import { onlyV1beta1 } from '../../../servers/external-secrets.ts';
import { Keyferry } from '../../../support/keyferry.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { GeneratorScene, STORE } from '../support.ts';

let scene: GeneratorScene;

before(async () => {
  scene = await GeneratorScene.open({ eso: false, crds: 'later' });
  await scene.launch();
});
after(() => scene?.close());

async function makes(name: string): Promise<void> {
  await scene.externalSecret(name, [{ key: `app/${name}`, property: 'a' }]);
  await scene.fail(name);
  await scene.says(name, 'Success');
  assert.equal((await scene.entry(`secret/data/app/${name}`)).metadata.version, 1);
}

it("if --controllers has generator and ESO's CRDs are missing, the operator is not ready, and /readyz names the missing API", async () => {
  const missing = 'externalsecrets: the API external-secrets.io is not installed; install External Secrets Operator';
  const alone = scene.operator;
  const start = (...args: readonly string[]): Promise<Keyferry> =>
    Keyferry.start({ kubeconfig: scene.plane.kubeconfigPath, command: 'run', args });
  const [both, unnamed] = await Promise.all([start('--controllers=replicator,generator'), start()]);
  try {
    for (const operator of [alone, both]) {
      await waitFor(async () => (await operator.probe('/readyz')).text.includes(missing), {
        message: () => `the missing API in /readyz\n${operator.output}`,
      });
      const { status, text } = await operator.probe('/readyz');
      assert.deepEqual([status, text.includes('no watch is open yet')], [503, false], text);
    }
    await waitFor(() => both.output.includes('controllers started'), { message: 'the replicator to work' });
    // Without --controllers the CRDs may be missing: most clusters have no External Secrets Operator.
    await unnamed.ready();
  } finally {
    await both.kill9();
    await unnamed.kill9();
  }
});

it("when ESO's CRDs are installed after the start, even with v1beta1 alone, the generator uses them", async () => {
  await waitFor(() => scene.operator.output.includes('API is not installed, waiting for it'), {
    message: () => `the missing API to be logged\n${scene.tail()}`,
  });
  await scene.installCrds(onlyV1beta1, 'v1beta1');
  assert.equal((await scene.api.raw('GET', '/apis/external-secrets.io/v1')).status, 404);
  await scene.store(STORE, {});
  await makes('old');
  await scene.operator.ready();
});

it("when v1 replaces v1beta1 in ESO's CRDs, the generator makes new values without a restart and keeps the old values", async () => {
  const before = await scene.result('old');
  await scene.installCrds((yaml) => yaml, 'v1');
  assert.equal((await scene.api.raw('GET', '/apis/external-secrets.io/v1beta1')).status, 404);
  await makes('new');
  assert.deepEqual(await scene.result('old'), before);
  assert.equal((await scene.entry('secret/data/app/old')).metadata.version, 1);
  await scene.operator.ready();
  assert.ok(scene.operator.running);
});

it("when v1beta1 replaces v1 in ESO's CRDs, as after a downgrade, the generator makes new values", async () => {
  await scene.installCrds(onlyV1beta1, 'v1beta1');
  await makes('again');
});
