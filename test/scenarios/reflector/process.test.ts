/** The process: settings of the original, probes, faults, switches. */
import assert from 'node:assert/strict';
import { it } from 'node:test';

import { type Fault, kubernetesFault } from '../../servers/fault-rules.ts';
import { proxied } from '../../servers/proxied.ts';
import { longIt } from '../../support/long.ts';
import { opened } from '../annotated/support.ts';
import { autoInto, ReflectorScene } from './support.ts';

const STATUSES = [404, 409, 429, 500] as const;
const NAMESPACES = ['source', 'team-a', 'team-b'];

it('the environment of the original counts: excluded namespaces as globs, the port, the log level; its probes answer', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await opened(stack, ReflectorScene, ...NAMESPACES, 'prod-x', 'ns-1');
  const { secrets } = scene;
  await scene.put(secrets, 'prod-x/hidden', { a: '1' }, autoInto('team-a'));
  await scene.put(secrets, 'ns-1/mirror', {}, { reflects: 'source/open' });
  await scene.put(secrets, 'team-a/mirror', {}, { reflects: 'prod-x/hidden' });
  await scene.put(secrets, 'source/open', { a: '1' }, autoInto('prod-x,team-b'));
  const env = {
    ES_Reflector__Watcher__ExcludedNamespaces: ' PROD-*, ns-? ',
    Reflector__Watcher__Timeout: '60',
    Serilog__MinimumLevel__Default: 'Debug',
  };
  const operator = await scene.operator([], { env });
  for (const path of ['/health/live', '/health/ready']) assert.equal((await operator.probe(path)).status, 200);
  await secrets.holds('prod-x/open', { a: '1' });
  await secrets.holds('team-b/open', { a: '1' });
  await secrets.warning('prod-x/hidden', 'NotPermitted');
  await secrets.warning('team-a/mirror', 'NotPermitted');
  assert.equal(await secrets.find('team-a/hidden'), undefined);
  assert.equal((await secrets.find('ns-1/mirror')).data, undefined);
  assert.match(operator.output, /Reflector__Watcher__Timeout has no effect/);
});

longIt('404, 409, 429 and 500 on every verb delay mirrors, and stall none', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await opened(stack, ReflectorScene, ...NAMESPACES);
  const { secrets } = scene;
  const { proxy, kubeconfig } = await proxied(scene.plane);
  stack.defer(async () => await proxy.stop());
  const notFound = {
    kind: 'respond',
    status: 404,
    body: { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'NotFound', code: 404 },
  } as const;
  const faultOf = (status: (typeof STATUSES)[number]): Fault => (status === 404 ? notFound : kubernetesFault(status));
  // Lists and watches, at the start. The home cluster must have been listed before anything is written.
  const collections = ['/secrets', '/configmaps', '/namespaces'].flatMap((collection) =>
    STATUSES.map((status) =>
      proxy.rule({
        match: (request) => request.method === 'GET' && request.path.endsWith(collection),
        fault: faultOf(status),
        times: 1,
      }),
    ),
  );
  const operator = await scene.operator([], { kubeconfig });
  for (const { hits } of collections) assert.equal(hits, 1);
  for (const status of STATUSES)
    for (const method of ['POST', 'PATCH', 'GET', 'DELETE']) {
      const fault = faultOf(status);
      const name = `${method.toLowerCase()}-${status}`;
      if (method !== 'POST') await scene.put(secrets, `source/${name}`, { a: '1' }, autoInto('team-a'));
      if (method !== 'POST') await secrets.holds(`team-a/${name}`, { a: '1' });
      const end = method === 'POST' ? '/team-a/secrets' : `/secrets/${name}`;
      const failing = proxy.rule({
        match: (request) => request.method === method && request.path.endsWith(end) && !request.isWatch,
        fault,
        times: 2,
      });
      if (method === 'DELETE') {
        await secrets.delete(`source/${name}`);
        await secrets.gone(`team-a/${name}`);
      } else {
        if (method === 'POST') await scene.put(secrets, `source/${name}`, { a: '1' }, autoInto('team-a'));
        await secrets.change(`source/${name}`, { a: '2' });
        await secrets.holds(`team-a/${name}`, { a: '2' });
      }
      assert.equal(failing.hits, 2, name);
    }
  await scene.put(secrets, 'source/last', { a: '1' }, autoInto('team-a'));
  await secrets.holds('team-a/last', { a: '1' });
  assert.equal((await operator.probe('/readyz')).status, 200);
});

it('automatic mirrors have a switch of their own, and without the controller nothing is copied', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await opened(stack, ReflectorScene, ...NAMESPACES);
  const { secrets } = scene;
  await scene.put(secrets, 'source/s', { a: '1' }, autoInto('team-a'));
  await scene.put(secrets, 'team-b/pull', {}, { reflects: 'source/s' });
  const off = await scene.operator([], { command: 'run', args: ['--controllers=replicator'] });
  await scene.absent(secrets, 'team-a/s');
  assert.equal((await secrets.find('team-b/pull')).data, undefined);
  await off.stop();
  await scene.operator(['--reflector-push=false']);
  await secrets.holds('team-b/pull', { a: '1' });
  await secrets.warning('source/s', 'NotPermitted');
  assert.equal(await secrets.find('team-a/s'), undefined);
});
