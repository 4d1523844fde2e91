/** A right that is missing: said so, survived, and over as soon as it is granted. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { waitFor } from '../support/wait-for.ts';
import { FaultScene } from './scene.ts';

const RBAC = 'rbac.authorization.k8s.io';
const SECRETS = { apiGroups: [''], resources: ['secrets'], verbs: ['*'] };
const OTHERS = [
  { apiGroups: [''], resources: ['namespaces'], verbs: ['get', 'list', 'watch'] },
  { apiGroups: ['', 'events.k8s.io'], resources: ['events'], verbs: ['create', 'patch'] },
  { apiGroups: ['mirrors.kts.studio'], resources: ['*'], verbs: ['*'] },
];

test('without the right to list Secrets: not ready and why; with it: all is copied', async (t) => {
  await using scene = await FaultScene.open({ user: 'keyferry', users: [{ name: 'keyferry' }] });
  const role = { apiVersion: `${RBAC}/v1`, kind: 'ClusterRole', metadata: { name: 'keyferry' }, rules: OTHERS };
  await scene.api.create(role);
  await scene.api.create({
    apiVersion: `${RBAC}/v1`,
    kind: 'ClusterRoleBinding',
    metadata: { name: 'keyferry' },
    roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: 'keyferry' },
    subjects: [{ apiGroup: RBAC, kind: 'User', name: 'keyferry' }],
  });
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
  await probes.ready(200, 5000);
});
