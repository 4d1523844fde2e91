/**
 * A leader stops, or loses its Lease. After its Lease has expired, it must write nothing. If it stops, it must release
 * the Lease only after its last write.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import type { RequestRecord } from '../servers/exchange.ts';
import { type Fault, kubernetesFault } from '../servers/fault-rules.ts';
import type { Keyferry } from '../support/keyferry.ts';
import { stopRenewals } from '../support/stop-renewals.ts';
import { waitFor } from '../support/wait-for.ts';
import { currentStretch, within } from '../support/yardstick.ts';
import { RULES } from './controllers.ts';
import { FaultScene } from './scene.ts';

const LEASE = '/apis/coordination.k8s.io/v1/namespaces/default/leases/keyferry';
/** Factor for all durations, because on a busy machine even normal renewals take longer. */
const slower = Math.min(4, Math.ceil(await currentStretch()));
const LEASE_S = 3 * slower;
const RENEW_DEADLINE_S = 2 * slower;
/** A Retry-After, s. It ends 1 s after the renew deadline. (Running writes may last until 3 s after the deadline.) */
const HOLD_S = RENEW_DEADLINE_S + 1;
/**
 * Limit for the exit after the Lease was lost, ms. It is longer than the leader needs to notice the loss, and shorter than
 * the time limit of the call that the test holds.
 */
const EXIT_MS = 20_000;

let scene: FaultScene;

before(async () => {
  const times = [`--leader-elect-lease-duration=${LEASE_S}s`, `--leader-elect-renew-deadline=${RENEW_DEADLINE_S}s`];
  scene = await FaultScene.open({ keyferryArgs: ['--leader-elect', '--leader-elect-retry-period=500ms', ...times] });
});
afterEach(() => scene.proxy.clearRules());
after(() => scene.close());

async function leads(): Promise<Keyferry> {
  const leader = await scene.operator();
  await waitFor(async () => (await leader.metric('keyferry_leader')) === 1);
  await scene.converged();
  return leader;
}

const isCopyWrite = ({ method, path = '' }: { method: string; path?: string }): boolean =>
  method === 'PATCH' && path.includes('/secrets/');
const copyWrites = (from: number): RequestRecord[] =>
  scene.proxy.requests.filter((one) => one.at >= from && isCopyWrite({ ...one, path: one.url }));

test('if writes of a leader wait and it loses its Lease, it does not send them', async () => {
  const leader = await leads();
  const { promise, resolve } = Promise.withResolvers<void>();
  const rule = scene.proxy.rule({ match: isCopyWrite, fault: { ...kubernetesFault(429, HOLD_S), until: promise } });
  await scene.changeSources();
  await waitFor(() => rule.hits > 0, { message: 'the leader to write' });
  await stopRenewals(scene.proxy);
  // Now the server accepts writes again. The leader may send the first one only after its renew deadline.
  resolve();
  const from = performance.now();
  const ending = await leader.ended();
  assert.equal(ending.code, 1, leader.output);
  assert.match(leader.output, /lost leadership/);
  assert.deepEqual(copyWrites(from + RENEW_DEADLINE_S * 1000), [], 'nothing is sent after the Lease ran out');
  assert.match(leader.output, /not sent, another replica may be leading/, 'writes were waiting');
});

for (const [title, fault] of [
  ['has ended', { kind: 'delay', ms: 1500 }],
  ['was given up', { kind: 'stall' }],
] as const satisfies readonly (readonly [string, Fault])[]) {
  test(`a leader that stops while a write is running releases its Lease only after the write ${title}`, async () => {
    const leader = await leads();
    const from = performance.now();
    const held = scene.proxy.rule({ match: isCopyWrite, fault, times: 1 });
    await scene.changeSources();
    await waitFor(() => held.hits > 0, { message: 'a write to be held' });
    assert.equal((await leader.stop()).code, 0, leader.output);
    const write = copyWrites(from).find((one) => one.fault === fault.kind);
    const release = scene.proxy.requests.findLast(({ method, url }) => method !== 'GET' && url.includes('/leases/'));
    assert.ok(write?.endedAt !== undefined && release !== undefined);
    assert.ok(release.at >= write.endedAt, `given back ${Math.round(write.endedAt - release.at)} ms before the end`);
    const { holderIdentity } = (await scene.api.get(LEASE)).spec;
    assert.ok(holderIdentity === undefined || holderIdentity === '', 'it was given back');
  });
}

test('if a leader loses its Lease during the first reconcile of its mirrors, the process exits', async () => {
  await scene.mirror(RULES, ['nowhere']);
  const path = new RegExp(`/secretmirrors/mirror-${RULES}\\?`);
  const held = scene.proxy.rule({ match: { method: 'PATCH', path }, fault: { kind: 'stall' } });
  const leader = await scene.operator();
  await waitFor(() => held.hits > 0, { message: 'the first write into the mirror' });
  const renewTime = new Date().toISOString().replace('Z', '000Z');
  await scene.api.patch(LEASE, { spec: { holderIdentity: 'another', leaseDurationSeconds: 60, renewTime } });
  const ending = await within(EXIT_MS, 'the end', async () => await leader.ended());
  assert.equal(ending.code, 1);
  assert.match(leader.output, /lost leadership/);
});
