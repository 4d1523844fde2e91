/** The operator lacks a permission. It must say so, continue to run, and work as soon as it has the permission. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Keyferry } from '../support/keyferry.ts';
import { waitFor } from '../support/wait-for.ts';
import { FaultScene } from './scene.ts';

const RBAC = 'rbac.authorization.k8s.io';
const SECRETS = { apiGroups: [''], resources: ['secrets'], verbs: ['*'] };
const OTHERS = [
  { apiGroups: [''], resources: ['namespaces'], verbs: ['get', 'list', 'watch'] },
  { apiGroups: ['', 'events.k8s.io'], resources: ['events'], verbs: ['create', 'patch'] },
  { apiGroups: ['mirrors.kts.studio'], resources: ['*'], verbs: ['*'] },
];

test('without the permission to list Secrets, the operator is not ready and says why; with the permission, it makes all copies', async (t) => {
  await using scene = await FaultScene.open({ user: 'keyferry', users: [{ name: 'keyferry' }] });
  await grant(scene, OTHERS);
  const keyferry = await scene.operator();
  const probes = scene.watchProbes(keyferry);
  await waitFor(async () => {
    const { status, text } = await keyferry.probe('/readyz');
    return status === 503 && /secrets\/copies/.test(text) && /403 Forbidden/.test(text);
  });
  assert.equal(scene.events.length, 0);
  const from = performance.now();
  await scene.api.patch(`/apis/${RBAC}/v1/clusterroles/keyferry`, { rules: [...OTHERS, SECRETS] });
  t.diagnostic(`right after ${Math.round(await scene.converged())} ms`);
  await scene.assertWrites(from, 1);
  await probes.ready(200);
});

test('without the permission to create events, the operator makes all copies, and logs one warning about the missing events', async () => {
  await using scene = await FaultScene.open({ user: 'keyferry', users: [{ name: 'keyferry' }] });
  await grant(scene, [...OTHERS.filter(({ resources }) => !resources.includes('events')), SECRETS]);
  const keyferry = await scene.start();
  const warnings = (): { level: string; reason: string; error: { message: string } }[] =>
    keyferry.logs().filter(({ msg }) => msg === 'cannot write an event');
  // Keyferry dropped five events: each of the five mirrors became Active.
  await waitFor(async () => /keyferry_events_dropped_total\{reason="Active"\} 5\n/.test(await metrics(keyferry)));
  const [first, ...more] = warnings();
  assert.deepEqual([first?.level, first?.reason, more], ['warn', 'Active', []]);
  assert.match(first?.error.message ?? '', /403 Forbidden: .* cannot create resource "events"/);
});

async function grant(scene: FaultScene, rules: readonly object[]): Promise<void> {
  const metadata = { name: 'keyferry' };
  await scene.api.create({ apiVersion: `${RBAC}/v1`, kind: 'ClusterRole', metadata, rules });
  await scene.api.create({
    apiVersion: `${RBAC}/v1`,
    kind: 'ClusterRoleBinding',
    metadata,
    roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: 'keyferry' },
    subjects: [{ apiGroup: RBAC, kind: 'User', name: 'keyferry' }],
  });
}

async function metrics(keyferry: Keyferry): Promise<string> {
  return (await keyferry.probe('/metrics')).text;
}
