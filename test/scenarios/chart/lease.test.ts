/**
 * The chart makes the Lease for leader election without a holder. So after a new installation, a leader starts
 * immediately, even if a former leader died with the Lease.
 */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import { LeaderElector } from '../../../src/kube/leader-election/elector.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import { waitFor } from '../../support/wait-for.ts';
import { within } from '../../support/yardstick.ts';
import { kubeApi } from '../kube/api.ts';
import { CHART, helm, IMAGE, valueFlags } from './helm.ts';

const NAMESPACE = 'keyferry';
const LEASE = `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases/keyferry`;
/** A limit far shorter than the 15 s for which the Lease of a dead leader is valid, ms. */
const AT_ONCE_MS = 5000;

let plane: ControlPlane;
before(async () => {
  plane = await startControlPlane({ controllerManager: false });
});
after(() => plane?.stop());

async function run(...args: readonly string[]): Promise<void> {
  const { code, stderr } = await helm([...args, `--namespace=${NAMESPACE}`], plane.kubeconfigPath);
  assert.equal(code, 0, stderr);
}

/** Becomes the leader one time, and leaves the Lease with its holder, as a killed process does. */
async function leadAndDie(identity: string): Promise<void> {
  await using api = await kubeApi(plane.kubeconfigPath);
  const leading = Promise.withResolvers<void>();
  const stop = new AbortController();
  const times = { leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryMs: 2000 };
  const place = { namespace: NAMESPACE, name: 'keyferry' };
  const elector = new LeaderElector({ api, ...place, ...times, identity, onError: assert.ifError });
  const running = elector.run({
    signal: stop.signal,
    onStartedLeading: async () => await Promise.resolve(leading.resolve()),
  });
  await within(AT_ONCE_MS, `the lead of ${identity}`, () => leading.promise);
  stop.abort();
  await running;
  const renewTime = new Date().toISOString().replace('Z', '000Z');
  const spec = { holderIdentity: identity, leaseDurationSeconds: 15, renewTime };
  await plane.api.patch(LEASE, { spec });
}

it('if a leader died without releasing its Lease, a leader starts immediately after helm uninstall and helm install', async () => {
  const install = ['install', 'keyferry', CHART, '--create-namespace', ...valueFlags(IMAGE)];
  await run(...install);
  assert.equal((await plane.api.get(LEASE)).spec?.holderIdentity, undefined, 'the chart names no holder');
  await leadAndDie('first');
  assert.equal((await plane.api.get(LEASE)).spec.holderIdentity, 'first');
  await run('uninstall', 'keyferry');
  await waitFor(async () => (await plane.api.find(LEASE)) === undefined, { message: 'the Lease to go' });
  await run(...install);
  await leadAndDie('second');
});
