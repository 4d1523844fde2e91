/**
 * deploy/rbac.yaml grants every permission that a SecretMirror needs from its creation to its deletion, and no others.
 */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import { readAuditLog } from '../../support/audit-log.ts';
import { GRANTED, manifest } from '../../support/granted.ts';
import { assertUsed, callsOf, reviewRights, waitForRights } from '../../support/permissions.ts';
import { KEYFERRY_ACCOUNT } from '../../support/service-account.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { waitFor } from '../../support/wait-for.ts';
import { mirror, namespace, secret } from './objects.ts';

const USER = KEYFERRY_ACCOUNT.name;
const MIRROR = '/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/mysecret-mirror';
const {
  'ClusterRole keyferry': COPYING,
  'ClusterRole keyferry-replicator': CONFIG_MAPS,
  'Role keyferry-leader-election': LEASES,
} = GRANTED['rbac.yaml'].roles;

let plane: ControlPlane;
before(async () => {
  plane = await startControlPlane({ controllerManager: false, crds: true, audit: true, users: [KEYFERRY_ACCOUNT] });
  await plane.api.apply(manifest('rbac.yaml'));
});
after(() => plane.stop());

it('deploy/rbac.yaml grants every permission that SecretMirrors need, and each of these permissions is used', async () => {
  const rights = [...COPYING, ...LEASES];
  await waitForRights(plane.api, { user: USER, groups: KEYFERRY_ACCOUNT.groups }, 'keyferry', rights);
  const kubeconfig = await plane.writeKubeconfig({ token: plane.tokenFor(USER) });
  const args = ['--controllers=mirrors', '--leader-elect', '--leader-elect-namespace=keyferry'];
  const operator = await Keyferry.start({ kubeconfig, args });
  try {
    await firstScenario();
  } finally {
    await operator.stop();
  }
  assertUsed(readAuditLog(plane, USER), callsOf(rights), callsOf(rights));
});

it("outside Keyferry's namespace, the permissions of deploy/rbac.yaml that the API server reports are exactly those for copies", async () => {
  using own = plane.client({ user: USER });
  const everywhere = [...COPYING, ...CONFIG_MAPS];
  const bound = async (): Promise<boolean> => (await reviewRights(own, 'kube-system')).length === everywhere.length;
  await waitFor(bound, { message: 'the bindings to be in force' });
  assert.deepEqual((await reviewRights(own, 'kube-system')).sort(), everywhere.toSorted());
  assert.deepEqual((await reviewRights(own, 'keyferry')).sort(), [...everywhere, ...LEASES].sort());
});

async function firstScenario(): Promise<void> {
  const { api } = plane;
  const copy = (where: string): string => `/api/v1/namespaces/${where}/secrets/mysecret`;
  await api.create(mirror('mysecret-mirror', 'mysecret', ['project-a-.+', 'project-b-.+']));
  await waitFor(async () => (await api.get(MIRROR)).status?.mirrorStatus === 'Pending');
  await api.create(secret('default', 'mysecret', 'one'));
  await waitFor(async () => (await api.get(MIRROR)).status?.mirrorStatus === 'Active');
  for (const name of ['project-a-main', 'project-b-main']) {
    await api.create(namespace(name));
    await waitFor(async () => await api.find(copy(name)), { message: copy(name) });
  }
  await api.patch(copy('default'), { stringData: { password: 'two' } });
  const two = Buffer.from('two').toString('base64');
  await waitFor(async () => (await api.get(copy('project-a-main'))).data.password === two);
  await api.patch(MIRROR, { spec: { destination: { namespaces: ['project-a-.+'] } } });
  await waitFor(async () => (await api.find(copy('project-b-main'))) === undefined, { message: 'a copy to go' });
  await api.delete(MIRROR);
  await waitFor(async () => (await api.find(MIRROR)) === undefined, { message: 'the mirror to go' });
  assert.equal(await api.find(copy('project-a-main')), undefined);
}
