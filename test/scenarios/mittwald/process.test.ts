/** The process: flags and probes of the original, restarts, copies that the original made, kills, faults. */
import assert from 'node:assert/strict';
import { it } from 'node:test';

import { kubernetesFault } from '../../servers/fault-rules.ts';
import { proxied } from '../../servers/proxied.ts';
import { readAuditLog } from '../../support/audit-log.ts';
import type { Json } from '../../support/api.ts';
import { longIt } from '../../support/long.ts';
import { waitFor, waitForStable } from '../../support/wait-for.ts';
import { mark, MittwaldScene, OPEN, SETTLE_MS } from './support.ts';

const NAMESPACES = ['source', 'team-a', 'team-b'];

async function open(stack: AsyncDisposableStack, ...more: readonly string[]): Promise<MittwaldScene> {
  const scene = stack.adopt(await MittwaldScene.open({ audit: true }), (opened) => opened.close());
  await scene.namespaces(...NAMESPACES, ...more);
  return scene;
}

/** Starts operators with a user of their own, so that the audit log tells their writes from those of the test. */
async function counted(scene: MittwaldScene): Promise<(args?: readonly string[]) => Promise<readonly string[]>> {
  const { api, plane } = scene;
  await api.create({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: 'operator' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'keyferry' }],
  });
  const kubeconfig = await plane.writeKubeconfig({ token: plane.tokenFor('keyferry') });
  const writes = (): string[] =>
    readAuditLog(plane, 'keyferry')
      .filter(
        ({ verb, resource, code }) =>
          code < 400 && verb !== 'get' && verb !== 'list' && verb !== 'watch' && resource !== 'events',
      )
      .map(({ verb, namespace, name }) => `${verb} ${namespace}/${name}`);
  return async (args = []) => {
    const before = writes().length;
    const operator = await scene.operator(args, { kubeconfig });
    await waitForStable(() => String(writes().length), SETTLE_MS, 'no more writes');
    await operator.stop();
    return writes().slice(before).toSorted();
  };
}

it('the flags and probes of the original work: kinds, allow-all, excluded namespaces, one and two dashes', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await open(stack, 'kube-x', 'my-kube-y');
  const { secrets, configMaps } = scene;
  await scene.put(secrets, 'source/push', { a: '1' }, { matching: '' });
  await scene.put(secrets, 'source/forbids', { a: '1' }, { allowed: 'false' });
  await scene.put(secrets, 'kube-x/pull', {}, { from: 'source/forbids' });
  await scene.put(configMaps, 'source/map', { a: '1' }, { to: 'team-a' });
  const args = ['-allow-all', '-exclude-namespaces=kube,nothing', '--replicate-configmaps=false', '-resync-period=1h'];
  const operator = await scene.operator([...args, '-log-level=trace', '-log-format=json', '-sync-by-content']);
  await secrets.holds('team-a/push', { a: '1' });
  await secrets.holds('kube-x/pull', { a: '1' });
  for (const name of ['kube-x/push', 'my-kube-y/push', 'source/map']) assert.equal(await secrets.find(name), undefined);
  await scene.absent(configMaps, 'team-a/map');
  const [live, ready] = [await operator.probe('/healthz'), await operator.probe('/readyz')];
  assert.deepEqual([live.status, live.text], [200, '']);
  assert.deepEqual([ready.status, JSON.parse(ready.text)], [200, { notReady: [] }]);
  assert.match(operator.output, /the resync period has no effect/);
  await operator.stop();
  const maps = await scene.operator(['--replicate-secrets=false']);
  await configMaps.holds('team-a/map', { a: '1' });
  await scene.set(secrets, 'source/push', { a: '2' });
  await secrets.stayUnchanged(['team-a/push', 'kube-x/pull'], 'Secrets are not served');
  assert.deepEqual(JSON.parse((await maps.probe('/readyz')).text), { notReady: [] });
  await maps.stop();
  const { proxy, kubeconfig } = await proxied(scene.plane);
  stack.defer(async () => await proxy.stop());
  proxy.rule({ match: ({ path }) => path.includes('/secrets'), fault: kubernetesFault(500) });
  const waiting = await scene.started([], { kubeconfig });
  const reply = await waitFor(
    async () => {
      const answer = await waiting.probe('/readyz').catch(() => undefined);
      return answer?.status === 503 ? answer : undefined;
    },
    { message: '503 of /readyz' },
  );
  assert.deepEqual(JSON.parse(reply.text), { notReady: ['*secret.Replicator', '*configmap.Replicator'] });
  assert.equal((await waiting.probe('/healthz')).status, 200);
});

it('a ConfigMap asks for permission as a Secret does, unless --mittwald-configmaps-ungated', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await open(stack);
  const { secrets, configMaps } = scene;
  await scene.put(configMaps, 'source/map', { a: '1' });
  await scene.put(configMaps, 'team-a/map', {}, { from: 'source/map' });
  await scene.put(secrets, 'source/secret', { a: '1' });
  await scene.put(secrets, 'team-a/secret', {}, { from: 'source/secret' });
  const gated = await scene.operator();
  await configMaps.warning('team-a/map', 'Denied');
  await configMaps.holds('team-a/map', {});
  await gated.stop();
  await scene.operator(['--mittwald-configmaps-ungated']);
  await configMaps.holds('team-a/map', { a: '1' });
  await secrets.warning('team-a/secret', 'Denied');
  await secrets.holds('team-a/secret', {});
});

it('half-anchored patterns: what only the original matches falls out with an event, and no copy of it is deleted', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await open(stack, 'team-a-old', 'my-dev');
  const { secrets } = scene;
  await scene.put(secrets, 'source/half', { a: '1' }, { to: 'team-a|dev' });
  const original = await scene.operator(['--mittwald-regex=original']);
  for (const name of ['team-a', 'team-a-old', 'my-dev']) await secrets.holds(`${name}/half`, { a: '1' });
  assert.equal(await secrets.find('team-b/half'), undefined);
  await original.stop();
  await scene.operator();
  assert.match((await secrets.warning('source/half', 'MisreadPattern')).message, /my-dev, team-a-old/);
  await scene.set(secrets, 'source/half', { a: '2' });
  await secrets.holds('team-a/half', { a: '2' });
  await secrets.stayUnchanged(['team-a-old/half', 'my-dev/half'], 'copies that only the original wants');
  await secrets.holds('my-dev/half', { a: '1' });
});

longIt('a restart of a settled cluster writes nothing', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await open(stack);
  const { secrets, configMaps } = scene;
  const run = await counted(scene);
  for (const users of [secrets, configMaps]) {
    await scene.put(users, 'source/s', { a: '1' }, { ...OPEN, to: 'team-a', 'keep-owner-references': 'true' });
    await scene.put(users, 'team-b/pull', { own: 'x' }, { from: 'source/s' });
    await scene.put(users, 'team-b/gone', { own: 'x' }, { from: 'source/gone' });
  }
  await scene.put(secrets, 'team-b/s', { own: 'x' }, { 'keyferry.dev/accept-push': 'source' });
  await scene.say(secrets, 'source/s', { to: 'team-a,team-b' });
  assert.equal((await run()).length, 5);
  await scene.set(secrets, 'team-a/s', { own: 'x' });
  assert.deepEqual(await run(), []);
  assert.deepEqual(await run(), []);
});

it('copies of the original are adopted with one patch of metadata each, and the next start writes nothing', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await open(stack, 'team-c', 'team-d');
  const { secrets, configMaps } = scene;
  const run = await counted(scene);
  const more = { metadata: { labels: { app: 'x' } }, type: 'my/type' };
  const source = await scene.put(secrets, 'source/s', { a: '1', b: '1' }, { to: 'team-.*' }, more);
  const map = await scene.put(configMaps, 'source/m', { a: '1' }, { to: 'team-a' }, { binaryData: { b: 'AAAA' } });
  const whole = await scene.original(secrets, 'team-a', source);
  const shared = await scene.original(secrets, 'team-b', source, { data: { ...source.data, own: 'eA==' } });
  const binary = await scene.original(configMaps, 'team-a', map);
  const pulled = await scene.original(secrets, 'team-c', source, { annotations: { from: 'source/other' } });
  // Not adopted: no source of this name, a source that does not want it, an object of a user.
  const orphan = await scene.original(secrets, 'team-a/orphan', source);
  const narrow = await scene.put(secrets, 'source/narrow', { a: '1' }, { to: 'team-a' });
  const left = await scene.original(secrets, 'team-b', narrow);
  const foreign = await scene.put(secrets, 'team-d/s', { a: '1', b: '1' });
  // Two sources claim it, and its marks name none.
  const twin = await scene.put(secrets, 'source/twin', { a: '1' }, { to: 'team-c' });
  const otherTwin = await scene.put(secrets, 'team-d/twin', { a: '1' }, { to: 'team-c' });
  const twins = await scene.original(secrets, 'team-c', twin, { annotations: { 'replicated-from-version': '1' } });
  assert.deepEqual(await run(), ['create team-a/narrow', 'patch team-a/m', 'patch team-a/s', 'patch team-b/s']);
  for (const before of [whole, shared, binary]) {
    const users = before.kind === 'Secret' ? secrets : configMaps;
    const { namespace, name } = before.metadata;
    const now = await users.find(`${namespace}/${name}`);
    assert.deepEqual(
      [now.metadata.uid, now.data, now.binaryData],
      [before.metadata.uid, before.data, before.binaryData],
    );
    assert.equal(now.metadata.annotations['keyferry.dev/target'], `${namespace}/${name}`);
  }
  for (const same of [pulled, orphan, left, foreign, source, map, narrow, twins]) {
    const { namespace, name, resourceVersion } = same.metadata;
    const now = await (same.kind === 'Secret' ? secrets : configMaps).find(`${namespace}/${name}`);
    assert.equal(now.metadata.resourceVersion, resourceVersion, `${namespace}/${name}`);
  }
  assert.deepEqual(await run(), []);
  await secrets.delete('source/s');
  await scene.operator();
  // The older one is told of both. Both may be of the same second. Then the uid decides.
  const age = ({ metadata }: Json): string => `${metadata.creationTimestamp} ${metadata.uid}`;
  const event = await secrets.warning(age(twin) < age(otherTwin) ? 'source/twin' : 'team-d/twin', 'Conflict');
  assert.match(event.message, /source\/twin/);
  assert.match(event.message, /team-d\/twin/);
  await secrets.gone('team-a/s');
  await secrets.becomes('team-b/s', ({ data }) => Object.keys(data).join() === 'own', 'without the keys of the source');
  for (const name of ['team-c/s', 'team-d/s', 'team-a/orphan', 'team-c/twin'])
    assert.notEqual(await secrets.find(name), undefined, name);
});

longIt('what Keyferry leaves is what the original expects: versions, keys and data of each copy', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await open(stack);
  const { secrets } = scene;
  const source = await scene.put(secrets, 'source/s', { a: '1' }, { to: 'team-.*' });
  const before = await scene.original(secrets, 'team-a', source);
  const operator = await scene.operator();
  await secrets.holds('team-b/s', { a: '1' });
  await scene.set(secrets, 'source/s', { a: '2' });
  for (const name of ['team-a/s', 'team-b/s']) await secrets.holds(name, { a: '2' });
  await operator.stop();
  const version = await secrets.version('source/s');
  for (const name of ['team-a/s', 'team-b/s']) {
    const copy = await secrets.find(name);
    // With this version, the original writes nothing at its start.
    assert.deepEqual([mark(copy, 'replicated-from-version'), mark(copy, 'replicated-keys')], [version, 'a']);
  }
  // The original writes the copy in its way while Keyferry is away, and hands it back: it replaces the labels.
  await secrets.change('source/s', { a: '3' });
  const metadata = { labels: null, annotations: { 'replicator.v1.mittwald.de/replicated-from-version': '1' } };
  await scene.api.patch(secrets.path('team-a/s'), { data: secrets.data({ a: '3' }), metadata });
  await scene.operator();
  await secrets.holds('team-b/s', { a: '3' });
  assert.equal((await secrets.holds('team-a/s', { a: '3' })).metadata.uid, before.metadata.uid);
  await secrets.delete('source/s');
  await secrets.gone('team-a/s');
});

it('what changed while nobody ran is caught up: a rule that went, a narrower rule, a source that went', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await open(stack);
  const { secrets } = scene;
  for (const name of ['removed', 'narrowed', 'deleted'])
    await scene.put(secrets, `source/${name}`, { a: '1' }, { to: 'team-a,team-b' });
  const operator = await scene.operator();
  for (const name of ['removed', 'narrowed', 'deleted']) await secrets.holds(`team-b/${name}`, { a: '1' });
  await operator.kill9();
  await scene.say(secrets, 'source/removed', { to: null });
  await scene.say(secrets, 'source/narrowed', { to: 'team-a' });
  await secrets.delete('source/deleted');
  await scene.operator();
  for (const name of ['removed', 'narrowed', 'deleted']) await secrets.gone(`team-b/${name}`);
  await secrets.gone('team-a/removed');
  await secrets.gone('team-a/deleted');
  await secrets.holds('team-a/narrowed', { a: '1' });
});

longIt('a kill during a hundred deletions leaves no orphan', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await open(stack);
  const { secrets } = scene;
  const names = Array.from({ length: 100 }, (_, index) => `many-${index}`);
  await scene.namespaces(...names);
  await scene.put(secrets, 'source/many', { a: '1' }, { to: 'many-.*' });
  const operator = await scene.operator();
  const count = async (): Promise<number> =>
    (await scene.api.list('/api/v1/secrets', { fieldSelector: 'metadata.name=many' })).length - 1;
  await waitFor(async () => (await count()) === 100, { message: '100 copies' });
  await scene.say(secrets, 'source/many', { to: 'nowhere' });
  await waitFor(async () => (await count()) < 95, { message: 'some deletions', intervalMs: 5 });
  await operator.kill9();
  await scene.operator();
  await waitFor(async () => (await count()) === 0, { message: 'no copies' });
});

longIt('409, 429 and 500 on every verb delay copies, and stall none', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await open(stack);
  const { secrets } = scene;
  const { proxy, kubeconfig } = await proxied(scene.plane);
  stack.defer(async () => await proxy.stop());
  await scene.operator([], { kubeconfig });
  for (const status of [409, 429, 500] as const)
    for (const method of ['POST', 'PATCH', 'GET', 'DELETE']) {
      const name = `${method.toLowerCase()}-${status}`;
      await scene.put(secrets, `source/${name}`, { a: '1' }, { ...OPEN, to: 'team-a' });
      await secrets.holds(`team-a/${name}`, { a: '1' });
      const place = method === 'POST' ? '/team-a/secrets' : `/secrets/${name}`;
      proxy.rule({
        match: (request) => request.method === method && request.path.includes(place) && !request.isWatch,
        fault: kubernetesFault(status),
        times: 2,
      });
      await scene.set(secrets, `source/${name}`, { a: '2' });
      await secrets.holds(`team-a/${name}`, { a: '2' });
      await secrets.delete(method === 'POST' ? `team-a/${name}` : `source/${name}`);
      if (method === 'POST') await secrets.holds(`team-a/${name}`, { a: '2' });
      else await secrets.gone(`team-a/${name}`);
    }
});

longIt(
  'foreign objects are merged with --mittwald-merge-foreign, pushes have a switch, and off means off',
  async () => {
    await using stack = new AsyncDisposableStack();
    const scene = await open(stack);
    const { secrets } = scene;
    await scene.put(secrets, 'source/s', { a: '1' }, { ...OPEN, to: 'team-a' });
    await scene.put(secrets, 'team-a/s', { own: 'x' });
    await scene.put(secrets, 'team-b/pull', {}, { from: 'source/s' });
    const off = await scene.operator([], { command: 'run', args: ['--controllers=replicator'] });
    await secrets.stayUnchanged(['team-a/s', 'team-b/pull'], 'the controller is off');
    await off.stop();
    const pulls = await scene.operator(['--mittwald-push=false']);
    await secrets.holds('team-b/pull', { a: '1' });
    await secrets.warning('source/s', 'NotPermitted');
    await secrets.holds('team-a/s', { own: 'x' });
    await pulls.stop();
    await scene.operator([], { command: 'run', args: ['--controllers=mittwald', '--mittwald-merge-foreign'] });
    await secrets.holds('team-a/s', { own: 'x', a: '1' });
    await secrets.delete('source/s');
    await secrets.holds('team-a/s', { own: 'x' });
    await secrets.holds('team-b/pull', {});
  },
);
