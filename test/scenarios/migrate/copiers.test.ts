/**
 * Tests that Keyferry takes over the copies of reflector, kubernetes-replicator and config-syncer: first with `keyferry
 * migrate --apply`, then with the operator.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { startControlPlane, type ControlPlane } from '../../servers/control-plane.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { requestToken } from '../../support/service-account.ts';
import { waitFor } from '../../support/wait-for.ts';
import { runProgram } from '../cli/program.ts';
import { type Map, path, Scene } from './scene.ts';

let plane: ControlPlane;
let scene: Scene;
const resources = new AsyncDisposableStack();

before(async () => {
  plane = await startControlPlane({ controllerManager: false });
  resources.defer(() => plane.stop());
  scene = new Scene(plane);
  await plane.api.createNamespaces(['home', 'team-a', 'team-b', 'other']);
});
after(() => resources.disposeAsync());

describe('migrate from reflector', () => {
  const PREFIX = 'reflector.v1.k8s.emberstack.com/';
  const source = (more: Map = {}) => ({ [`${PREFIX}reflection-allowed`]: 'true', ...more });
  const auto = (namespaces: string) =>
    source({ [`${PREFIX}reflection-auto-enabled`]: 'true', [`${PREFIX}reflection-auto-namespaces`]: namespaces });
  const mirror = (of: string, isAuto = true) => ({
    [`${PREFIX}reflects`]: of,
    [`${PREFIX}reflected-version`]: '1',
    ...(isAuto ? { [`${PREFIX}auto-reflects`]: 'True' } : {}),
  });

  it("migrate --apply takes over reflector's automatic and user-written mirrors, and the operator then updates them", async () => {
    await scene.secret('home/reflected', { a: '1' }, auto('team-.*'));
    await scene.secret('team-a/reflected', { a: '1' }, mirror('home/reflected'));
    const edited = await scene.secret('team-b/reflected', { a: 'edited' }, mirror('home/reflected'));
    await scene.secret('other/reflected', { a: '1' }, mirror('home/reflected'));
    // The mark of this object is forged: reflector gives an automatic mirror the name of its source.
    await scene.secret('team-a/forged', { a: '1' }, mirror('home/reflected'));
    await scene.secret(
      'home/allowed',
      { b: '1' },
      source({ [`${PREFIX}reflection-allowed-namespaces`]: 'team.a,other' }),
    );
    await scene.secret('team-a/mine', { b: '1' }, mirror('home/allowed', false));
    await scene.secret('team-b/mine', { b: '1' }, mirror('home/allowed', false));
    await scene.secret(
      'home/by-label',
      { c: '1' },
      {
        ...auto(''),
        [`${PREFIX}reflection-auto-namespaces-selector`]: 'app=x',
      },
    );
    const many = Array.from({ length: 6000 }, (_, index) => `ns-${index}`).join(',');
    await scene.secret('home/long', { e: '1' }, auto(many));
    await scene.secret(
      'home/both',
      { d: '1' },
      { ...auto('team-.*'), [`${PREFIX}reflection-allowed-namespaces`]: '.*-a' },
    );

    const expected = [
      'change home/allowed',
      'change home/reflected',
      'change team-a/mine',
      'change team-a/reflected',
      'manual home/both',
      'manual home/long',
      'manual other/reflected',
      'manual team-a/forged',
      'manual team-b/mine',
      'manual team-b/reflected',
      'unsupported home/by-label',
    ];
    // A user wrote this annotation of k8s-replicator. It has nothing to do with reflector.
    await scene.secret('home/own-push', { p: '1' }, { 'k8s-replicator/replicate-to-namespaces': 'team-a' });
    const isPushed = ({ name }: { readonly name: string }): boolean => name === 'own-push';
    assert.ok((await scene.migrate([])).report.targets.some(isPushed));
    const before = await plane.api.list('/api/v1/secrets');
    const first = await scene.migrate(['--from', 'reflector']);
    assert.ok(!first.report.targets.some(isPushed));
    assert.deepEqual(first.lines, expected);
    assert.equal(first.code, 3);
    assert.match(first.textOf('manual team-b/reflected'), /would not keep its data \(data differ\)/);
    assert.match(first.textOf('change home/allowed'), /replication-allowed-namespaces="\(\?:team\.a\),other"/);
    assert.deepEqual(await plane.api.list('/api/v1/secrets'), before, 'without --apply nothing is written');

    const applied = await scene.migrate(['--from', 'reflector', '--apply']);
    assert.deepEqual(applied.lines, expected.map((line) => line.replace('change', 'written')).toSorted());
    assert.deepEqual(
      (await scene.migrate(['--from', 'reflector'])).lines.filter((line) => line.startsWith('change')),
      [],
      'a second run has nothing to write',
    );

    const uid = (await plane.api.get(path('team-a/reflected'))).metadata.uid;
    await scene.withOperator(async () => {
      await scene.change('home/reflected', { a: '2' });
      const copy = await scene.holds('team-a/reflected', 'a', '2');
      assert.equal(copy.metadata.uid, uid, 'the copy was taken over, not made again');
      assert.equal(copy.metadata.annotations[`${PREFIX}reflects`], 'home/reflected', 'reflector can have it back');
      await scene.change('home/allowed', { b: '2' });
      await scene.holds('team-a/mine', 'b', '2');
      await plane.api.createNamespaces(['team-c']);
      await scene.holds('team-c/reflected', 'a', '2');
      const left = await plane.api.get(path('team-b/reflected'));
      assert.deepEqual([left.metadata.uid, left.data], [edited.metadata.uid, edited.data], 'an edited copy stays');
      await scene.holds('other/reflected', 'a', '1');
    });
  });

  it('migrate --apply takes over many reflector copies with the same name, even while an operator runs', async () => {
    const names = Array.from({ length: 10 }, (_, index) => `wide-${index}`);
    await plane.api.createNamespaces(names);
    await scene.secret('home/wide', { a: '1' }, auto('wide-.*'));
    for (const name of names) await scene.secret(`${name}/wide`, { a: '1' }, mirror('home/wide'));
    await scene.withOperator(async () => {
      const { lines } = await scene.migrate(['--from', 'reflector', '--apply']);
      assert.equal(lines.filter((line) => /^written .*\/wide$/.test(line)).length, names.length + 1, lines.join('\n'));
      await scene.change('home/wide', { a: '2' });
      for (const name of names) await scene.holds(`${name}/wide`, 'a', '2');
    });
  });

  it('while reflector runs, migrate --apply writes nothing and names the command that stops reflector', async () => {
    const labels = { app: 'reflector' };
    const containers = [{ name: 'reflector', image: 'docker.io/emberstack/kubernetes-reflector:9.1.0' }];
    await plane.api.create({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'reflector', namespace: 'other' },
      spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers } } },
    });
    const args = ['migrate', '--from', 'reflector', `--kubeconfig=${plane.kubeconfigPath}`];
    const { code, stderr } = await runProgram([...args, '--apply']);
    assert.equal(code, 1);
    assert.match(stderr, /reflector still runs .*kubectl scale -n other deployment\/reflector --replicas=0/);
    assert.match((await runProgram(args)).stdout, /^It runs as Deployment other\/reflector\.$/m);
    await plane.api.patch('/apis/apps/v1/namespaces/other/deployments/reflector', { spec: { replicas: 0 } });
    assert.doesNotMatch((await runProgram(args)).stdout, /It runs/);
  });
});

describe('migrate by a user with few rights', () => {
  it('migrate names the permission that its user lacks, and writes nothing', async () => {
    const rbac = 'rbac.authorization.k8s.io';
    const account = { name: 'reader', namespace: 'other' };
    const read = { verbs: ['get', 'list', 'patch'] };
    await plane.api.apply([
      { apiVersion: 'v1', kind: 'ServiceAccount', metadata: account },
      {
        apiVersion: `${rbac}/v1`,
        kind: 'ClusterRole',
        metadata: { name: 'reader' },
        rules: [
          { apiGroups: [''], resources: ['secrets', 'configmaps', 'namespaces'], ...read },
          { apiGroups: ['mirrors.kts.studio', 'kubelb.k8c.io'], resources: ['*'], ...read },
        ],
      },
      {
        apiVersion: `${rbac}/v1`,
        kind: 'ClusterRoleBinding',
        metadata: { name: 'reader' },
        roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: 'reader' },
        subjects: [{ kind: 'ServiceAccount', ...account }],
      },
    ]);
    const token = await requestToken(plane.api, 'other', 'reader');
    using own = plane.client({ token });
    await waitFor(async () => (await own.raw('GET', '/api/v1/namespaces')).status === 200, { message: 'the rights' });
    const kubeconfig = `--kubeconfig=${await plane.writeKubeconfig({ token })}`;
    for (const args of [['migrate'], ['migrate', '--from', 'reflector', '--apply']]) {
      const { code, stdout, stderr } = await runProgram([...args, kubeconfig]);
      assert.deepEqual([code, stdout], [1, '']);
      assert.match(stderr, /no permission to list deployments\.apps in the whole cluster: .*403 Forbidden/);
    }
    // Roles with annotations of kubernetes-replicator would be reported.
    const rules = [{ apiGroups: ['apps'], resources: ['deployments'], verbs: ['list'] }];
    const metadata = { name: 'more' };
    await plane.api.apply([
      { apiVersion: `${rbac}/v1`, kind: 'ClusterRole', metadata, rules },
      {
        apiVersion: `${rbac}/v1`,
        kind: 'ClusterRoleBinding',
        metadata,
        roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: 'more' },
        subjects: [{ kind: 'ServiceAccount', ...account }],
      },
    ]);
    await waitFor(async () => (await own.raw('GET', '/apis/apps/v1/deployments')).status === 200, {
      message: 'the right to list Deployments',
    });
    const roles = await runProgram(['migrate', '--from', 'kubernetes-replicator', kubeconfig]);
    assert.equal(roles.code, 1);
    assert.match(roles.stderr, /no permission to list roles\.rbac\.authorization\.k8s\.io in the whole cluster/);
  });
});

describe('migrate from kubernetes-replicator', () => {
  const PREFIX = 'replicator.v1.mittwald.de/';
  const copied = { [`${PREFIX}replicated-from-version`]: '1', [`${PREFIX}replicated-keys`]: 'a' };

  it('migrate --apply takes over the pushed and pulled copies of kubernetes-replicator, and the operator then updates them', async () => {
    await scene.secret('home/pushed', { a: '1' }, { [`${PREFIX}replicate-to`]: 'team-[ab]' }, { app: 'x' });
    await scene.secret('team-a/pushed', { a: '1' }, copied, { app: 'x' });
    // Here kubernetes-replicator merged its keys into an object that belongs to a user.
    const merged = await scene.secret('team-b/pushed', { a: '1', own: 'x' }, copied);
    await scene.secret('other/pushed', { a: '1' }, copied);
    const allow = { [`${PREFIX}replication-allowed`]: 'true' };
    await scene.secret('home/open', { b: '1' }, { ...allow, [`${PREFIX}replication-allowed-namespaces`]: 'team-a' });
    await scene.secret('team-a/pulls', { b: '1' }, { [`${PREFIX}replicate-from`]: 'home/open' });
    await scene.secret('home/half-open', { b: '1' }, allow);
    await scene.secret('team-a/pulls-not', { b: '1' }, { [`${PREFIX}replicate-from`]: 'home/half-open' });
    await scene
      .secret('home/by-label', { a: '1' }, { [`${PREFIX}replicate-to-matching`]: 'app=x' })
      .catch(() => undefined);
    await plane.api.create({
      apiVersion: 'v1',
      kind: 'ServiceAccount',
      metadata: { name: 'robot', namespace: 'home', annotations: { [`${PREFIX}replicate-to`]: 'team-a' } },
    });

    const { lines, textOf } = await scene.migrate(['--from', 'kubernetes-replicator', '--apply']);
    assert.deepEqual(lines, [
      'difference home/pushed',
      'manual other/pushed',
      'manual team-a/pulls-not',
      'manual team-b/pushed',
      'unsupported home/robot',
      'written home/open',
      'written home/pushed',
      'written team-a/pulls',
      'written team-a/pushed',
    ]);
    assert.match(textOf('manual team-a/pulls-not'), /home\/half-open.* does not allow it/);
    await scene.withOperator(async () => {
      await scene.change('home/pushed', { a: '2' });
      const copy = await scene.holds('team-a/pushed', 'a', '2');
      assert.equal(copy.metadata.labels.app, 'x', 'labels that the copy has stay');
      await scene.change('home/open', { b: '2' });
      await scene.holds('team-a/pulls', 'b', '2');
      assert.deepEqual((await plane.api.get(path('team-b/pushed'))).data, merged.data, 'keys of others stay');
    });
  });
});

describe('migrate from config-syncer', () => {
  it("migrate --apply takes over config-syncer's copies in all namespaces, and the operator then updates them", async () => {
    const SYNC = 'kubed.appscode.com/sync';
    const origin = { 'kubed.appscode.com/origin.name': 'omni', 'kubed.appscode.com/origin.namespace': 'home' };
    await scene.secret('home/omni', { you: 'only' }, { [SYNC]: '' });
    await scene.secret('team-a/omni', { you: 'only' }, {}, origin);
    await scene.secret('team-b/gone', { you: 'only' }, {}, { ...origin, 'kubed.appscode.com/origin.name': 'gone' });
    await scene.secret('home/selected', { you: 'only' }, { [SYNC]: 'app=kubed' });
    await scene.secret('home/far', { you: 'only' }, { 'kubed.appscode.com/sync-contexts': 'context-1' });
    const { lines } = await scene.migrate(['--from', 'config-syncer', '--apply']);
    assert.deepEqual(lines, [
      'manual team-b/gone',
      'unsupported home/far',
      'unsupported home/selected',
      'written home/omni',
      'written team-a/omni',
    ]);
    await scene.withOperator(async () => {
      await scene.change('home/omni', { you: 'twice' });
      await scene.holds('team-a/omni', 'you', 'twice');
      await scene.holds('other/omni', 'you', 'twice');
    });
  });
});

it('without --from, migrate reports the copies of all programs in one text', async () => {
  const { code, stdout } = await runProgram(['migrate', `--kubeconfig=${plane.kubeconfigPath}`]);
  assert.equal(code, 3);
  assert.match(stdout, /^reflector: \d+ objects request copies, \d+ copies$/m);
  assert.match(stdout, /^unsupported +Secret +home +far +kubed\.appscode\.com\/sync-contexts: /m);
  assert.match(stdout, /^\d+ copies keep their data\.$/m);
});

failOnLeaks();
