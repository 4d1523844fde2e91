/** A leader loses its Lease during its first reconcile. As at any other time, the process must exit. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import type { FaultProxy } from '../servers/fault-proxy.ts';
import { proxied } from '../servers/proxied.ts';
import { HOME, MirrorScene } from '../scenarios/mirrors/support.ts';
import { waitFor } from '../support/wait-for.ts';
import { within } from '../support/yardstick.ts';

const LEASE = '/apis/coordination.k8s.io/v1/namespaces/default/leases/keyferry';
/**
 * Time limit for the exit, ms. It is longer than the leader needs to notice the loss, and shorter than the time limit
 * of the call that the test holds.
 */
const LIMIT_MS = 20_000;

let scene: MirrorScene;
let proxy: FaultProxy;
let kubeconfig: string;

before(async () => {
  scene = await MirrorScene.open({ controllerManager: false });
  ({ proxy, kubeconfig } = await proxied(scene.plane));
});
after(async () => {
  await scene.close();
  await proxy.stop();
});

test('if a leader loses its Lease during the first reconcile of its mirrors, the process exits', async () => {
  await scene.secret(HOME, 'first', { a: '1' });
  await scene.mirror('first', ['nowhere']);
  const held = proxy.rule({
    match: { method: 'PATCH', path: /\/secretmirrors\/first\?/ },
    fault: { kind: 'stall' },
  });
  const leader = await scene.operator({ kubeconfig, args: ['--leader-elect'] });
  await waitFor(() => held.hits > 0, { message: 'the first look' });
  await scene.api.patch(LEASE, {
    spec: {
      holderIdentity: 'another',
      leaseDurationSeconds: 60,
      renewTime: new Date().toISOString().replace('Z', '000Z'),
    },
  });
  const ending = await within(LIMIT_MS, 'the end', async () => await leader.ended());
  assert.equal(ending.code, 1);
  assert.match(leader.output, /lost leadership/);
});
