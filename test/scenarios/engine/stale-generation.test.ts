/**
 * Status and deletion of a mirror belong to its newest generation, also while the operator is too busy to reconcile the
 * mirror.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, it } from 'node:test';

import type { FaultProxy } from '../../servers/fault-proxy.ts';
import { proxied } from '../../servers/proxied.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { currentStretch } from '../../support/yardstick.ts';
import { HOME, mirrorPath, MirrorScene, RETAIN, secretPath } from '../mirrors/support.ts';

/** The number of mirrors that the operator reconciles at the same time. */
const BLOCKERS = 8;
/** The time for which other mirrors keep the operator busy, ms. */
const BLOCKED_MS = 3000 * Math.min(4, await currentStretch());

let scene: MirrorScene;
let proxy: FaultProxy;

before(async () => {
  scene = await MirrorScene.open({ controllerManager: false });
  const through = await proxied(scene.plane);
  ({ proxy } = through);
  await scene.operator({ kubeconfig: through.kubeconfig, args: ['--kube-max-concurrent-writes', '32'] });
});
afterEach(() => proxy.clearRules());
after(async () => {
  await scene.close();
  await proxy.stop();
});

/**
 * Keeps the operator busy for BLOCKED_MS: the server delays its response for as many mirrors as the operator reconciles
 * at the same time.
 */
async function block(name: string): Promise<void> {
  const rule = proxy.rule({
    match: { method: 'PATCH', path: new RegExp(`/secretmirrors/${name}-\\d+\\?`) },
    fault: { kind: 'delay', ms: BLOCKED_MS },
  });
  for (let n = 0; n < BLOCKERS; n += 1) await scene.mirror(`${name}-${n}`, ['nowhere']);
  await waitFor(() => rule.hits >= BLOCKERS, { message: 'all to wait' });
}

it('if the operator is busy, a deleted mirror with deletePolicy retain keeps its finalizer until its copies have the retain mark', async () => {
  await scene.namespaces('outrun');
  await scene.secret(HOME, 'outrun', { a: '1' });
  await scene.mirror('outrun', ['outrun']);
  await scene.copied('outrun', 'outrun', { a: '1' });
  await scene.api.patch(mirrorPath('outrun'), {
    spec: { deletePolicy: 'retain', destination: { namespaces: ['nowhere'] } },
  });
  await scene.ready('outrun', 'Synced', /^0 copies/);
  await block('block-outrun');
  await scene.api.delete(mirrorPath('outrun'));
  await scene.change(HOME, 'outrun', { a: '2' });
  await scene.gone(mirrorPath('outrun'));
  const copy = await scene.copied('outrun', 'outrun', { a: '1' });
  assert.equal(copy.metadata.annotations[RETAIN], 'true');
  await staysTrue(async () => (await scene.find('outrun', 'outrun')) !== undefined, 1500, 'the copy is there');
});

it("while the copies of a mirror's new generation are not made, its status does not name that generation", async () => {
  await scene.namespaces('reported', 'second');
  await scene.secret(HOME, 'reported', { a: '1' });
  await scene.mirror('reported', ['reported']);
  await scene.ready('reported', 'Synced');
  let wrongReports = 0;
  await block('block-reported');
  await scene.api.patch(mirrorPath('reported'), { spec: { destination: { namespaces: ['reported', 'second'] } } });
  await scene.api.delete(secretPath('reported', 'reported'));
  await waitFor(
    async () => {
      const [mirror, copy] = [await scene.api.get(mirrorPath('reported')), await scene.find('second', 'reported')];
      const { status, metadata } = mirror;
      const reported = status.observedGeneration === metadata.generation && status.conditions[0].status === 'True';
      if (reported && copy === undefined) wrongReports += 1;
      return reported && copy !== undefined;
    },
    { message: 'the second copy' },
  );
  assert.equal(wrongReports, 0, 'it was reported synced without its second copy');
});
