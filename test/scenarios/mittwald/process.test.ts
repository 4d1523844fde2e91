/** The process: flags and probes of the original, kills, copies whose marks name no source. */
import assert from 'node:assert/strict';
import { it } from 'node:test';

import { kubernetesFault } from '../../servers/fault-rules.ts';
import { proxied } from '../../servers/proxied.ts';
import type { Json } from '../../support/api.ts';
import { longIt } from '../../support/long.ts';
import { waitFor } from '../../support/wait-for.ts';
import { opened } from '../annotated/support.ts';
import { annotations, MittwaldScene, OPEN } from './support.ts';

const NAMESPACES = ['source', 'team-a', 'team-b'];

it('the flags and probes of the original work: kinds, allow-all, excluded namespaces, one and two dashes', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await opened(stack, MittwaldScene, ...NAMESPACES, 'kube-x', 'my-kube-y');
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
  const scene = await opened(stack, MittwaldScene, ...NAMESPACES);
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
  const scene = await opened(stack, MittwaldScene, ...NAMESPACES, 'team-a-old', 'my-dev');
  const { secrets } = scene;
  await scene.put(secrets, 'source/half', { a: '1' }, { to: 'team-a|dev' });
  const original = await scene.operator(['--mittwald-regex=original']);
  for (const name of ['team-a', 'team-a-old', 'my-dev']) await secrets.holds(`${name}/half`, { a: '1' });
  assert.equal(await secrets.find('team-b/half'), undefined);
  await original.stop();
  await scene.operator();
  assert.match((await secrets.warning('source/half', 'MisreadPattern')).message, /my-dev.*team-a-old/);
  await scene.set(secrets, 'source/half', { a: '2' });
  await secrets.holds('team-a/half', { a: '2' });
  await secrets.stayUnchanged(['team-a-old/half', 'my-dev/half'], 'copies that only the original wants');
  await secrets.holds('my-dev/half', { a: '1' });
});

longIt('a kill during a hundred deletions leaves no orphan', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await opened(stack, MittwaldScene, ...NAMESPACES);
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

longIt(
  'foreign objects are merged with --mittwald-merge-foreign, pushes have a switch, and off means off',
  async () => {
    await using stack = new AsyncDisposableStack();
    const scene = await opened(stack, MittwaldScene, ...NAMESPACES);
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

it('of two sources that claim a copy of the original, none has it: its marks name no source, and an event names both', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await opened(stack, MittwaldScene, ...NAMESPACES);
  const { secrets, api } = scene;
  const twins = [
    await scene.put(secrets, 'source/twin', { a: '1' }, { to: 'team-a' }),
    await scene.put(secrets, 'team-b/twin', { a: '1' }, { to: 'team-a' }),
  ];
  const marks = annotations({ 'replicated-at': 'x', 'replicated-from-version': '1', 'replicated-keys': 'a' });
  const metadata = { namespace: 'team-a', name: 'twin', annotations: marks };
  const copy = await api.create({ apiVersion: 'v1', kind: 'Secret', metadata, data: secrets.data({ a: '1' }) });
  await scene.operator();
  // The older one is told of both. Both may be of the same second. Then the uid decides.
  const age = (one: Json): string => `${one.metadata.creationTimestamp} ${one.metadata.uid}`;
  const [older] = twins.toSorted((a, b) => (age(a) < age(b) ? -1 : 1));
  const { message } = await secrets.warning(`${older?.metadata.namespace}/twin`, 'Conflict');
  for (const name of [/source\/twin/, /team-b\/twin/]) assert.match(message, name);
  assert.equal(await secrets.version('team-a/twin'), copy.metadata.resourceVersion);
});
