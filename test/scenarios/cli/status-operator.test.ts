/** `keyferry status` shows which process is the leader, and works where only some namespaces are served. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { explainSchema, statusSchema } from '../../../scripts/reports/schemas.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import { waitFor } from '../../support/wait-for.ts';
import { mirror, namespace, secret } from './objects.ts';
import { type ProgramResult, RunningProgram, runProgram } from './program.ts';

const SERVED = 'served';

describe('what keyferry status says about the operator', () => {
  let plane: ControlPlane;
  before(async () => {
    plane = await startControlPlane({ controllerManager: false, crds: true, users: [{ name: SERVED }] });
    await plane.api.create(secret('default', 'one', 'x'));
    await plane.api.create(mirror('old', 'one', ['team-.+']));
  });
  after(() => plane.stop());

  const run = async (...args: readonly string[]): Promise<ProgramResult> =>
    await runProgram(['status', '--kubeconfig', plane.kubeconfigPath, ...args]);
  const leaders = async () => statusSchema.parse(JSON.parse((await run('-o', 'json')).stdout)).leaders;
  /** Gives a user the permissions to read objects in these namespaces. @returns a kubeconfig of the user */
  const letLook = async (user: string, places: readonly string[]): Promise<string> => {
    const rules = [
      { apiGroups: [''], resources: ['secrets', 'configmaps'], verbs: ['get', 'list', 'watch'] },
      { apiGroups: ['mirrors.kts.studio'], resources: ['secretmirrors'], verbs: ['list', 'watch'] },
    ];
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: user };
    using client = plane.client({ token: plane.tokenFor(user) });
    for (const where of places) {
      const rbac = { apiVersion: 'rbac.authorization.k8s.io/v1', metadata: { name: user, namespace: where } };
      await plane.api.create({ ...rbac, kind: 'Role', rules });
      const subjects = [{ apiGroup: roleRef.apiGroup, kind: 'User', name: user }];
      await plane.api.create({ ...rbac, kind: 'RoleBinding', roleRef, subjects });
      const path = `/api/v1/namespaces/${where}/secrets`;
      await waitFor(async () => (await client.raw('GET', path)).status === 200, { message: 'the rights' });
    }
    return await plane.writeKubeconfig({ token: plane.tokenFor(user) });
  };

  it('status names the leader and the time of its election; if it may not read the Lease, it notes this in one line', async () => {
    const leases = '/apis/coordination.k8s.io/v1/namespaces/default/leases';
    assert.doesNotMatch((await run()).stdout, /^Lea/m);
    assert.deepEqual(await leaders(), []);
    const acquireTime = '2026-01-31T08:00:00.000000Z';
    const spec = { holderIdentity: 'pod-0_uid_1', leaseDurationSeconds: 15, acquireTime, renewTime: acquireTime };
    const labels = { 'app.kubernetes.io/name': 'keyferry' };
    const metadata = { name: 'release', namespace: 'default', labels };
    await plane.api.create({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata, spec });
    const line = `Leader: pod-0 since 2026-01-31T08:00:00Z (Lease default/release)`;
    assert.ok((await run('--failed')).stdout.includes(`\n${line}, who has not renewed it in time\n`));
    const place = { namespace: 'default', name: 'release' };
    const held = { ...place, holder: 'pod-0_uid_1', since: acquireTime };
    assert.deepEqual(await leaders(), [{ ...held, expired: true }]);
    const renewTime = new Date().toISOString().replace('Z', '000Z');
    await plane.api.patch(`${leases}/release`, { spec: { renewTime, leaseDurationSeconds: 3600 } });
    assert.ok((await run()).stdout.includes(`\n${line}\n`));
    await plane.api.patch(`${leases}/release`, { spec: { holderIdentity: '' } });
    const none = { ...place, holder: null, since: null, expired: false };
    assert.deepEqual(await leaders(), [none]);
    assert.match((await run()).stdout, /^Leader: none \(Lease default\/release\)$/m);
    await plane.api.delete(`${leases}/release`);
    // If no Lease has the label app.kubernetes.io/name=keyferry, `status` reads the Lease `keyferry` in namespace
    // `keyferry`, as in the documentation.
    await plane.api.createNamespaces(['keyferry']);
    const usual = { name: 'keyferry', namespace: 'keyferry' };
    await plane.api.create({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: usual, spec });
    assert.match((await run()).stdout, /^Leader: pod-0 since \S+ \(Lease keyferry\/keyferry\)/m);
    assert.doesNotMatch((await run('-n', 'keyferry')).stdout, /Leader/);
  });

  it('with --namespaces, status, explain and status -w need permissions only in the listed namespaces', async () => {
    const [one, two] = ['served-a', 'served-b'];
    await plane.api.createMany([one, two, 'served-not'].map((name) => namespace(name)));
    const kubeconfig = await letLook(SERVED, [one, two]);
    const annotated = (name: string, annotations: object) =>
      secret(one, name, 'x', { metadata: { name, namespace: one, annotations } });
    await plane.api.create(annotated('within', { 'k8s-replicator/replicate-to': `${two}/x` }));
    await plane.api.create(annotated('beyond', { 'k8s-replicator/replicate-to': 'served-not/x' }));
    await plane.api.create(annotated('from', { 'k8s-replicator/replicate-from': 'served-not/x' }));
    const args = ['--kubeconfig', kubeconfig, `--namespaces=${one},${two}`, '--controllers=mirrors,replicator'];
    const { code, stdout, stderr } = await runProgram(['status', ...args, '-o', 'json']);
    assert.equal(code, 0, stderr);
    const seen = statusSchema.parse(JSON.parse(stdout));
    assert.deepEqual(
      seen.rules.map(({ name, state, reason }) => `${name} ${state} ${reason}`),
      ['beyond Unknown Limited', 'from Unknown Limited', 'within Outdated Outdated'],
    );
    assert.match(seen.rules[0]?.message ?? '', /served-not: not among the namespaces of --namespaces/);
    assert.equal(seen.notes[0], `Only the namespaces of --namespaces are included: ${one}, ${two}`);
    assert.equal(seen.notes.filter((note) => note === 'Leases are not included: no permission to read them').length, 1);
    const failing = seen.rules.flatMap((rule) => rule.failing.map((target) => `${target.namespace}/${target.name}`));
    assert.deepEqual(failing, [`${one}/from`, `${two}/x`]);
    const explained = await runProgram(['explain', 'secret', `${two}/x`, ...args, '-o', 'json']);
    assert.equal(explainSchema.parse(JSON.parse(explained.stdout)).verdict, 'missing', explained.stderr);
    await using watch = new RunningProgram(['status', '-w', ...args]);
    await watch.seen('stdout', /^\d+ rules?, .*within/s);
    await plane.api.create(secret(two, 'x', 'y'));
    await plane.api.create({ ...mirror('late', 'one', ['nowhere']), metadata: { name: 'late', namespace: two } });
    await watch.seen('stdout', new RegExp(`rule added {2}SecretMirror ${two}/late `));
    await watch.seen('stdout', /within .*Conflict/);
    assert.deepEqual(await watch.interrupt(), [0, null]);
  });
});
