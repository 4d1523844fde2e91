/** `keyferry plan` of annotated Secrets and ConfigMaps. After each plan, the operator does what it shows. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { stringify } from 'yaml';

import { waitFor } from '../../support/wait-for.ts';
import { ReplicatorScene } from '../replicator/support.ts';
import { namespace } from './objects.ts';
import { runProgram } from './program.ts';

interface Report {
  readonly targets: readonly {
    action: string;
    kind: string;
    namespace: string;
    name: string;
    rule: string;
    reason: string;
  }[];
  readonly problems: readonly { rule: string; problem: string }[];
  readonly notes: readonly { rule: string; note: string }[];
  readonly ignored: number;
}

describe('keyferry plan of annotated objects', () => {
  let scene: ReplicatorScene;
  before(async () => {
    scene = await ReplicatorScene.open({ controllerManager: false });
    await scene.namespaces('source', 'team-a', 'team-b');
  });
  after(() => scene.close());

  const annotated = (kind: string, place: string, annotations: object, values: object, more: object = {}) => {
    const [home = '', name = ''] = place.split('/');
    const keys = Object.entries(annotations).map(([key, value]) => [`k8s-replicator/${key}`, value as string]);
    const metadata = { namespace: home, name, annotations: Object.fromEntries(keys) as object };
    return { apiVersion: 'v1', kind, metadata, [kind === 'Secret' ? 'stringData' : 'data']: values, ...more };
  };
  const report = async (objects: readonly object[], ...flags: readonly string[]): Promise<Report> => {
    const input = objects.map((object) => stringify(object)).join('---\n');
    const args = ['plan', '-', '--all', '-o', 'json', '--kubeconfig', scene.plane.kubeconfigPath, ...flags];
    const { code, stdout, stderr } = await runProgram(args, input);
    assert.ok(code === 0 || code === 3, stderr);
    assert.ok(!stdout.includes(scene.canary), 'a value was printed');
    return JSON.parse(stdout) as Report;
  };
  const plan = async (...objects: readonly object[]): Promise<string[]> =>
    (await report(objects)).targets.map(
      ({ action, kind, namespace: home, name }) => `${action} ${kind} ${home}/${name}`,
    );

  const push = (value: string, to = 'team-.*', more: object = {}) =>
    annotated('Secret', 'source/push', { 'replicate-to-namespaces': to }, { a: value }, more);
  const source = (allowed: object, value = 'b') => annotated('Secret', 'source/credentials', allowed, { b: value });
  const pull = annotated('Secret', 'team-a/credentials', { 'replicate-from': 'source/credentials' }, {});

  it('plan shows which annotated objects are created, filled or refused, and the operator then does the same', async () => {
    assert.deepEqual(await plan(push(scene.canary)), ['create Secret team-a/push', 'create Secret team-b/push']);
    assert.deepEqual(await plan(push(scene.canary), namespace('team-c')), [
      'create Secret team-a/push',
      'create Secret team-b/push',
      'create Secret team-c/push',
    ]);
    assert.deepEqual(await plan(source({ 'replication-allowed': 'true' }), pull), ['update Secret team-a/credentials']);
    const denied = await report([source({}), pull]);
    assert.deepEqual([denied.targets[0]?.action, denied.targets.length], ['fail', 1]);
    assert.match(denied.targets[0]?.reason ?? '', /^Denied: .*replication-allowed/);
    const allowed = await report([source({}), pull], '--replicator-allow-all');
    assert.equal(allowed.targets[0]?.action, 'update');
    const waits = await report([pull]);
    assert.match(
      waits.targets[0]?.reason ?? '',
      /^Denied: source source\/credentials does not exist or does not allow/,
    );
    const typo = await report([annotated('ConfigMap', 'source/typo', { 'replicate-too': 'x' }, {})]);
    assert.deepEqual(typo.targets, []);
    const message =
      /unknown annotation "k8s-replicator\/replicate-too" \(did you mean "k8s-replicator\/replicate-to"\?\), so nothing is copied or deleted$/;
    assert.match(typo.problems[0]?.problem ?? '', message);
    const glob = await report([push('x', 'tea*')]);
    assert.match(glob.notes[0]?.note ?? '', /^MisreadPattern: a pattern looks like a mistake/);
    const missing = await report([push('x', 'team-a,later')]);
    assert.match(missing.notes[0]?.note ?? '', /^NoNamespace: later: no such namespace/);
    const foreign = annotated('Secret', 'source/foreign', {}, { a: '1' }, {});
    const marks = { 'reflector.v1.k8s.emberstack.com/reflection-allowed': 'true' };
    const hinted = await report([{ ...foreign, metadata: { ...foreign.metadata, annotations: marks } }]);
    assert.match(
      hinted.notes[0]?.note ?? '',
      /^has annotations that have an effect only with reflector in --controllers$/,
    );
    const plain = await report([annotated('ConfigMap', 'source/plain', {}, { a: '1' })]);
    assert.deepEqual([plain.targets, plain.ignored], [[], 1]);
    assert.deepEqual(await scene.plane.api.list('/api/v1/namespaces/team-a/secrets'), [], 'planning writes nothing');
  });

  it('after the operator made copies, plan shows which copies of annotated objects change, are deleted or stay', async () => {
    const { api } = scene.plane;
    const once = (value: string) =>
      annotated('ConfigMap', 'source/once', { 'replicate-to': 'team-a/once', 'replicate-once': 'true' }, { a: value });
    await api.apply([push(scene.canary), source({ 'replication-allowed': 'true' }), pull, once('1')]);
    const operator = await scene.operator();
    for (const place of ['team-a/secrets/push', 'team-b/secrets/push', 'team-a/configmaps/once']) {
      await waitFor(async () => await api.find(`/api/v1/namespaces/${place}`), { message: place });
    }
    const credentials = '/api/v1/namespaces/team-a/secrets/credentials';
    await waitFor(async () => (await api.get(credentials)).data?.b !== undefined, { message: 'the copy to be filled' });
    await operator.stop();
    const settled = ['nothing Secret team-a/push', 'nothing Secret team-b/push'];
    assert.deepEqual(await plan(push(scene.canary)), settled);
    assert.deepEqual(await plan(push('changed')), ['update Secret team-a/push', 'update Secret team-b/push']);
    assert.deepEqual(await plan(push(scene.canary, 'team-b')), [
      'delete Secret team-a/push',
      'nothing Secret team-b/push',
    ]);
    const broken = await report([push(scene.canary, 'team-[')]);
    // If an object has an invalid annotation, its targets fail, and none of its copies is deleted.
    assert.deepEqual(new Set(broken.targets.map(({ action }) => action)), new Set(['fail']));
    assert.match(broken.targets[0]?.reason ?? '', /^IllFormed: .*replicate-to-namespaces/);
    assert.match(broken.problems[0]?.problem ?? '', /replicate-to-namespaces/);
    assert.deepEqual(await plan(pull), ['nothing Secret team-a/credentials']);
    assert.deepEqual(await plan(source({ 'replication-allowed': 'true' }, 'c')), ['update Secret team-a/credentials']);
    assert.deepEqual(await plan(source({ 'replication-allowed': 'false' })), ['update Secret team-a/credentials']);
    assert.deepEqual(await plan(once('2')), ['nothing ConfigMap team-a/once']);
    assert.deepEqual(await plan(namespace('team-c')), ['create Secret team-c/push']);
  });
});
