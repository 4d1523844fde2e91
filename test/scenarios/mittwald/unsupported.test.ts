/** Roles, RoleBindings and ServiceAccounts with annotations: never written, and an event says so where it may. */
import assert from 'node:assert/strict';
import { it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { type AuditEntry, readAuditLog } from '../../support/audit-log.ts';
import type { KindScene, TestKind } from '../replicator/support.ts';
import { annotations, MittwaldScene } from './support.ts';

const RBAC = 'rbac.authorization.k8s.io';
const RBAC_V1 = { apiVersion: `${RBAC}/v1`, groupPath: `/apis/${RBAC}/v1`, encode: String };
const CORE = { apiVersion: 'v1', groupPath: '/api/v1', encode: String };
const UNSUPPORTED: readonly TestKind[] = [
  { kind: 'Role', plural: 'roles', ...RBAC_V1 },
  { kind: 'RoleBinding', plural: 'rolebindings', ...RBAC_V1 },
  { kind: 'ServiceAccount', plural: 'serviceaccounts', ...CORE },
];
const FIELDS: Readonly<Record<string, Json>> = {
  Role: { rules: [] },
  RoleBinding: { roleRef: { apiGroup: RBAC, kind: 'Role', name: 'pushed' }, subjects: [] },
  ServiceAccount: {},
};
const COPIER = [
  { apiGroups: [''], resources: ['namespaces'], verbs: ['list', 'watch'] },
  {
    apiGroups: [''],
    resources: ['secrets', 'configmaps'],
    verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
  },
  { apiGroups: [''], resources: ['events'], verbs: ['create', 'patch'] },
];
const READER = [
  { apiGroups: [RBAC], resources: ['roles', 'rolebindings'], verbs: ['list', 'watch'] },
  { apiGroups: [''], resources: ['serviceaccounts'], verbs: ['list', 'watch'] },
];

it('Roles, RoleBindings and ServiceAccounts stay as they are, and get one Warning; without the permission to read them the process is ready', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = stack.adopt(await MittwaldScene.open({ audit: true }), (opened) => opened.close());
  const { api, plane, secrets } = scene;
  await scene.namespaces('source', 'team-a');
  const create = async (of: KindScene, name: string, values: Readonly<Record<string, string>>): Promise<Json> => {
    const [namespace, object] = name.split('/');
    const { kind, apiVersion } = of.kind;
    const metadata = { namespace, name: object, annotations: annotations(values) };
    return await api.create({ apiVersion, kind, ...FIELDS[kind], metadata });
  };
  const kinds = UNSUPPORTED.map((kind) => scene.of(kind));
  for (const kind of kinds) {
    await create(kind, 'source/pushed', { to: 'team-a', allowed: 'true' });
    await create(kind, 'team-a/pulled', { from: 'source/pushed' });
    await create(kind, 'source/quiet', { allowed: 'true' });
  }
  const role = { apiVersion: RBAC_V1.apiVersion, kind: 'ClusterRole', metadata: { name: 'operator' } };
  await api.create({ ...role, rules: COPIER });
  await api.create({
    ...role,
    kind: 'ClusterRoleBinding',
    roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: 'operator' },
    subjects: [{ apiGroup: RBAC, kind: 'User', name: 'keyferry' }],
  });
  const kubeconfig = await plane.writeKubeconfig({ token: plane.tokenFor('keyferry') });

  const unable = await scene.operator([], { kubeconfig });
  await scene.put(secrets, 'source/first', { a: '1' }, { to: 'team-a' });
  await secrets.holds('team-a/first', { a: '1' });
  assert.equal((await unable.probe('/readyz')).status, 200);
  await unable.stop();

  await api.patch(`${RBAC_V1.groupPath}/clusterroles/operator`, { rules: [...COPIER, ...READER] });
  const operator = await scene.operator([], { kubeconfig });
  for (const kind of kinds) {
    for (const name of ['source/pushed', 'team-a/pulled']) {
      const { message } = await kind.warning(name, 'Unsupported');
      assert.equal(message, `Keyferry does not copy ${kind.kind.kind}s: its annotations are ignored`);
    }
  }
  // A later write of an object causes no second event, and an annotation that comes later causes one.
  for (const kind of kinds) {
    await api.patch(kind.path('source/pushed'), { metadata: { labels: { touched: 'yes' } } });
    await api.patch(kind.path('source/quiet'), { metadata: { annotations: annotations({ to: 'team-a' }) } });
    await kind.warning('source/quiet', 'Unsupported');
  }
  // After its stop, all that it has logged is there.
  await operator.stop();
  const told = operator.output.split('\n').filter((line) => line.includes('Keyferry does not copy'));
  assert.equal(told.length, 3 * UNSUPPORTED.length, told.join('\n'));
  for (const kind of kinds) assert.equal(await kind.find('team-a/pushed'), undefined);
  const calls = (): readonly AuditEntry[] =>
    readAuditLog(plane, 'keyferry').filter(({ resource }) => UNSUPPORTED.some(({ plural }) => plural === resource));
  assert.deepEqual([...new Set(calls().map(({ verb }) => verb))].toSorted(), ['list', 'watch']);

  // A kind that is switched off is not read.
  const before = calls().length;
  const off = ['roles', 'role-bindings', 'service-accounts'].map((kind) => `--replicate-${kind}=false`);
  await scene.operator(off, { kubeconfig });
  await scene.put(secrets, 'source/last', { a: '1' }, { to: 'team-a' });
  await secrets.holds('team-a/last', { a: '1' });
  assert.equal(calls().length, before);
});
