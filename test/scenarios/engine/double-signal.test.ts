/**
 * npm, a terminal and systemd send a signal to the whole process group, so Keyferry may get two signals within
 * milliseconds.
 */
import assert from 'node:assert/strict';
import { setTimeout } from 'node:timers/promises';
import { after, before, it } from 'node:test';

import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import type { FaultProxy } from '../../servers/fault-proxy.ts';
import { proxied } from '../../servers/proxied.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { waitFor } from '../../support/wait-for.ts';

const LEASE = '/apis/coordination.k8s.io/v1/namespaces/default/leases/keyferry';
/** A second signal within this time counts as the same stop, ms. A later signal ends Keyferry immediately. */
const SAME_STOP_MS = 1000;

let plane: ControlPlane;
let proxy: FaultProxy;
let kubeconfig: string;

before(async () => {
  plane = await startControlPlane({ controllerManager: false });
  ({ proxy, kubeconfig } = await proxied(plane));
});
after(async () => {
  await proxy.stop();
  await plane.stop();
});

async function leader(): Promise<Keyferry> {
  const keyferry = await Keyferry.start({ kubeconfig, args: ['--controllers=replicator', '--leader-elect'] });
  await waitFor(async () => (await plane.api.find(LEASE))?.spec.holderIdentity, {
    message: () => keyferry.output,
  });
  await keyferry.ready();
  return keyferry;
}

for (const [first, second] of [
  ['SIGTERM', 'SIGTERM'],
  ['SIGINT', 'SIGINT'],
  ['SIGTERM', 'SIGHUP'],
] as const) {
  it(`if ${second} comes milliseconds after ${first}, Keyferry still ends with code 0 and releases the Lease`, async () => {
    await using keyferry = await leader();
    // The release of the Lease is delayed, so that the first stop is under way when the second signal arrives.
    const release = proxy.rule({ match: { method: 'PUT', path: LEASE }, fault: { kind: 'delay', ms: 100 } });
    const ended = keyferry.stop(first);
    await waitFor(() => keyferry.output.includes('"stopping"'), { intervalMs: 5, message: () => keyferry.output });
    keyferry.signal(second);
    const { code } = await ended;
    assert.equal(code, 0, keyferry.output);
    release.clear();
    assert.equal((await plane.api.get(LEASE)).spec.holderIdentity ?? '', '');
  });
}

it('if a second signal comes more than 1 s after the first, Keyferry ends immediately and does not wait for the stop', async () => {
  await using keyferry = await leader();
  const stalled = proxy.rule({ match: { method: 'PUT', path: LEASE }, fault: { kind: 'stall' } });
  const ended = keyferry.stop('SIGTERM');
  await waitFor(() => keyferry.output.includes('"stopping"'), { message: () => keyferry.output });
  await setTimeout(SAME_STOP_MS + 100);
  keyferry.signal('SIGINT');
  assert.deepEqual(await ended, { code: null, signal: 'SIGINT' }, keyferry.output);
  stalled.clear();
});
