/** deploy/rbac.yaml grants enough for the whole first scenario, and no permission that is never used. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';

import { readCrds } from '../../../scripts/crd/read-crds.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import { readAuditLog } from '../../support/audit-log.ts';
import { bindingsIn, callsOf, reviewRights, rolesIn, waitForRights } from '../../support/permissions.ts';
import { waitFor } from '../../support/wait-for.ts';
import { mirror, namespace, secret } from './objects.ts';
import { startOperator } from './operator-process.ts';

const RBAC = path.join(import.meta.dirname, '../../../deploy/rbac.yaml');
const USER = 'system:serviceaccount:keyferry:keyferry';
const GROUPS = ['system:serviceaccounts', 'system:serviceaccounts:keyferry', 'system:authenticated'];
const MIRROR = '/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/mysecret-mirror';
/** Repeated events are patched only after minutes. Lists are used only on servers before Kubernetes 1.34, which cannot stream the first list. */
const RARE = new Set(['events patch', 'namespaces list', 'secrets list', 'secretmirrors list']);

/** Every permission in deploy/rbac.yaml. A change must be visible in a diff, with its reason. */
const GOLDEN: Readonly<Record<string, readonly string[]>> = {
  'ClusterRole keyferry': [
    'core/namespaces: list watch',
    'core/secrets: get list watch create patch delete',
    'mirrors.kts.studio/secretmirrors: get list watch patch',
    'mirrors.kts.studio/secretmirrors/status: patch',
    'core/events: create patch',
  ],
  'ClusterRole keyferry-replicator': ['core/configmaps: get list watch create patch delete'],
  'ClusterRole keyferry-vault-kubernetes-auth': ['core/serviceaccounts/token: create'],
  'Role keyferry-leader-election': ['coordination.k8s.io/leases: get create update'],
};
/** The roles that are bound, and only to Keyferry. */
const BOUND = [
  'ClusterRoleBinding ClusterRole keyferry-replicator',
  'ClusterRoleBinding ClusterRole keyferry',
  'RoleBinding Role keyferry-leader-election',
];
/** For other scenarios than SecretMirrors between namespaces; they have their own tests. */
const OPTIONAL = new Set(['ClusterRole keyferry-replicator', 'ClusterRole keyferry-vault-kubernetes-auth']);

describe('deploy/rbac.yaml', () => {
  let plane: ControlPlane;
  before(async () => {
    plane = await startControlPlane({ controllerManager: false, audit: true, users: [{ name: USER, groups: GROUPS }] });
  });
  after(() => plane.stop());

  it('deploy/rbac.yaml lets a ServiceAccount do all that SecretMirrors need', async () => {
    const manifest = await readFile(RBAC, 'utf8');
    await plane.api.apply(readCrds());
    await plane.api.apply(manifest);
    const needed = Object.entries(rolesIn(manifest)).filter(([role]) => !OPTIONAL.has(role));
    const rights = needed.flatMap(([, list]) => list);
    await waitForRights(plane.api, { user: USER, groups: GROUPS }, 'keyferry', rights);
    const kubeconfig = await plane.writeKubeconfig({ token: plane.tokenFor(USER) });
    const operator = await startOperator(plane, kubeconfig);
    try {
      await firstScenario();
    } finally {
      await operator.stop();
    }
    const { used, refused } = requests();
    assert.deepEqual(refused, []);
    const granted = callsOf(rights);
    assert.deepEqual(
      [...used].filter((call) => !granted.has(call)),
      [],
      'done without a rule',
    );
    const idle = [...granted].filter((call) => !used.has(call) && !RARE.has(call));
    assert.deepEqual(idle, [], 'granted and never used');
  });

  it('deploy/rbac.yaml grants these permissions and no other', async () => {
    const manifest = await readFile(RBAC, 'utf8');
    assert.deepEqual(rolesIn(manifest), GOLDEN);
    const bindings = bindingsIn(manifest);
    assert.deepEqual(
      bindings.map(({ text }) => text),
      BOUND,
    );
    const keyferry = { kind: 'ServiceAccount', name: 'keyferry', namespace: 'keyferry' };
    for (const { subjects } of bindings) assert.deepEqual(subjects, [keyferry]);
  });

  it('deploy/rbac.yaml grants nothing else outside of its namespace, as reported by the server', async () => {
    await plane.api.apply(readCrds());
    await plane.api.apply(await readFile(RBAC, 'utf8'));
    using own = plane.client({ user: USER });
    const everywhere = [
      ...(GOLDEN['ClusterRole keyferry'] ?? []),
      ...(GOLDEN['ClusterRole keyferry-replicator'] ?? []),
    ];
    const bound = async (): Promise<boolean> => (await reviewRights(own, 'kube-system')).length === everywhere.length;
    await waitFor(bound, { message: 'the bindings to be in force' });
    assert.deepEqual((await reviewRights(own, 'kube-system')).sort(), everywhere.toSorted());
    const leases = GOLDEN['Role keyferry-leader-election'] ?? [];
    assert.deepEqual((await reviewRights(own, 'keyferry')).sort(), [...everywhere, ...leases].sort());
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

  /** The calls of the test's user as `resource verb`, and the refused ones. */
  function requests(): { used: ReadonlySet<string>; refused: readonly string[] } {
    const requests = readAuditLog(plane, USER).filter(({ resource }) => resource !== '');
    return {
      used: new Set(requests.map(({ resource, verb }) => `${resource} ${verb}`)),
      refused: requests.filter(({ code }) => code === 403).map(({ verb, uri }) => `${verb} ${uri}`),
    };
  }
});
