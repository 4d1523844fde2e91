/** The process: settings of the original, probes, restarts, mirrors that the original made, faults, two replicas. */
import assert from 'node:assert/strict';
import { it } from 'node:test';

import { type Fault, kubernetesFault } from '../../servers/fault-rules.ts';
import { proxied } from '../../servers/proxied.ts';
import { readAuditLog } from '../../support/audit-log.ts';
import type { Json } from '../../support/api.ts';
import { longIt } from '../../support/long.ts';
import { waitFor, waitForStable } from '../../support/wait-for.ts';
import { annotations, autoInto, mark, ReflectorScene, SETTLE_MS } from './support.ts';

const STATUSES = [404, 409, 429, 500] as const;
const NAMESPACES = ['source', 'team-a', 'team-b'];

async function open(stack: AsyncDisposableStack, ...more: readonly string[]): Promise<ReflectorScene> {
  const scene = stack.adopt(await ReflectorScene.open({ audit: true }), (opened) => opened.close());
  await scene.namespaces(...NAMESPACES, ...more);
  return scene;
}

/** A mirror as reflector makes it. Older versions wrote other values for `auto-reflects`, and the time in quotes. */
async function original(
  scene: ReflectorScene,
  name: string,
  source: Json,
  auto = 'True',
  given: Json = {},
): Promise<Json> {
  const { namespace, name: object, resourceVersion } = source.metadata;
  const [place = '', own = object] = name.split('/');
  return await scene.api.create({
    ...source,
    ...given,
    metadata: {
      namespace: place,
      name: own,
      annotations: annotations({
        reflects: `${namespace}/${object}`,
        'auto-reflects': auto,
        'reflected-version': resourceVersion,
        'reflected-at': '"2024-01-01T00:00:00.0000000+00:00"',
        ...given.annotations,
      }),
    },
  });
}

/** A kubeconfig of a user of its own, and what this user writes, except events, as `<verb> <namespace>/<name>`. */
async function audited({ api, plane }: ReflectorScene): Promise<{ kubeconfig: string; writes: () => string[] }> {
  await api.create({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: 'operator' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'keyferry' }],
  });
  return {
    kubeconfig: await plane.writeKubeconfig({ token: plane.tokenFor('keyferry') }),
    writes: () =>
      readAuditLog(plane, 'keyferry')
        .filter(({ verb, resource }) => !['get', 'list', 'watch'].includes(verb) && resource !== 'events')
        .map(({ verb, namespace, name }) => `${verb} ${namespace}/${name}`),
  };
}

it('the environment of the original counts: excluded namespaces as globs, the port, the log level; its probes answer', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await open(stack, 'prod-x', 'ns-1');
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

it('mirrors of the original are adopted with one patch of metadata each, and the next start writes nothing', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await open(stack, 'team-c', 'team-d');
  const { secrets, configMaps, api } = scene;
  const source = await scene.put(secrets, 'source/s', { a: '1' }, autoInto('team-.*'), { type: 'my/type' });
  const map = await scene.put(configMaps, 'source/m', { a: '1' }, autoInto('team-a'), { binaryData: { b: 'AAAA' } });
  const made = [
    await original(scene, 'team-a', source),
    await original(scene, 'team-b', source, 'true'),
    await original(scene, 'team-c', source, 'source/s'),
    await original(scene, 'team-a', map),
  ];
  const direct = await scene.put(secrets, 'team-d/direct', { a: '1' }, { reflects: 'source/s' });
  const settled = await original(scene, 'team-c/settled', source, 'False', { type: 'Opaque' });
  // Not adopted: of another name, of a source that does not want it, of a source that is gone, and a clone.
  const other = await original(scene, 'team-a/renamed', source);
  const narrow = await scene.put(secrets, 'source/narrow', { a: '1' }, autoInto('team-a'));
  const left = await original(scene, 'team-b', narrow);
  const orphan = await original(scene, 'team-b', { ...source, metadata: { ...source.metadata, name: 'gone' } });
  const { kubeconfig, writes } = await audited(scene);
  /** Starts an operator, and returns what it writes until each of its eight claims is as it shall be. */
  const adopt = async (): Promise<readonly string[]> => {
    const before = writes().length;
    const operator = await scene.operator([], { kubeconfig });
    await waitFor(async () => (await operator.metric('keyferry_claims', { state: 'synced' })) === 8);
    // The log may lag behind the last answer.
    await waitForStable(() => String(writes().length), SETTLE_MS, 'no more writes');
    await operator.stop();
    return writes().slice(before).toSorted();
  };
  assert.deepEqual(await adopt(), [
    'create team-a/narrow',
    'create team-d/s',
    'patch team-a/m',
    'patch team-a/s',
    'patch team-b/s',
    'patch team-c/s',
    'patch team-d/direct',
  ]);
  for (const before of made) {
    const users = before.kind === 'Secret' ? secrets : configMaps;
    const now = await users.find(`${before.metadata.namespace}/${before.metadata.name}`);
    assert.deepEqual(
      [now.metadata.uid, now.data, now.binaryData],
      [before.metadata.uid, before.data, before.binaryData],
    );
    assert.equal(mark(now, 'auto-reflects'), 'True');
    assert.equal(now.metadata.annotations['keyferry.dev/target'], `${now.metadata.namespace}/${now.metadata.name}`);
  }
  assert.equal((await secrets.find('team-d/direct')).metadata.uid, direct.metadata.uid);
  for (const same of [settled, other, left, orphan, source, map, narrow]) {
    const path = `${same.metadata.namespace}/${same.metadata.name}`;
    const now = await (same.kind === 'Secret' ? secrets : configMaps).find(path);
    assert.equal(now.metadata.resourceVersion, same.metadata.resourceVersion, path);
  }
  assert.deepEqual(await adopt(), []);
  await api.delete(secrets.path('source/s'));
  await scene.operator();
  for (const name of ['team-a/s', 'team-b/s', 'team-c/s', 'team-d/s']) await secrets.gone(name);
  assert.notEqual(await secrets.find('team-d/direct'), undefined);
  assert.notEqual(await secrets.find('team-a/renamed'), undefined);
});

longIt(
  'each change causes one write of each mirror that it concerns, at the first try: nothing waits for a back-off',
  async () => {
    await using stack = new AsyncDisposableStack();
    const scene = await open(stack);
    const { secrets } = scene;
    const { kubeconfig, writes } = await audited(scene);
    const operator = await scene.operator([], { kubeconfig });
    let seen = 0;
    /** Waits until the writes since the last call are these: fewer are not yet all, and others are too many. */
    const wrote = async (what: string, ...expected: readonly string[]): Promise<void> => {
      await waitFor(() => writes().length >= seen + expected.length, { message: `${expected.join(', ')} (${what})` });
      assert.deepEqual(writes().slice(seen).toSorted(), expected.toSorted(), what);
      seen += expected.length;
    };
    await scene.put(secrets, 'source/s', { a: '1' }, autoInto('team-.*,later'));
    await wrote('a source', 'create team-a/s', 'create team-b/s');
    await scene.put(secrets, 'team-a/direct', {}, { reflects: 'source/t' });
    await secrets.warning('team-a/direct', 'Denied');
    await scene.put(secrets, 'source/t', { a: '1' });
    await secrets.stayUnchanged(['team-a/direct'], 'a mirror whose source permits nothing');
    await scene.say(secrets, 'source/t', { allowed: 'true' });
    await wrote('permission granted later', 'patch team-a/direct');
    await secrets.change('source/s', { a: '2' });
    await wrote('new data', 'patch team-a/s', 'patch team-b/s');
    await secrets.change('team-a/s', { a: 'edited' });
    await wrote('an edited mirror', 'patch team-a/s');
    await secrets.change('team-a/direct', { a: 'edited' });
    await wrote('an edited direct mirror', 'patch team-a/direct');
    await secrets.delete('team-b/s');
    await wrote('a deleted mirror', 'create team-b/s');
    await scene.namespaces('later');
    await wrote('a new namespace', 'create later/s');
    await secrets.delete('source/t');
    await scene.put(secrets, 'source/t', { a: '3' }, { allowed: 'true' });
    await wrote('a source that is made again', 'patch team-a/direct');
    await scene.say(secrets, 'source/s', { 'auto-namespaces': 'team-.*' });
    await wrote('a narrower list', 'delete later/s');
    await scene.say(secrets, 'source/s', { auto: 'false' });
    await wrote('auto-enabled: false', 'delete team-a/s', 'delete team-b/s');
    await waitForStable(() => String(writes().length), SETTLE_MS, 'no more writes');
    await wrote('nothing more');
    assert.equal(await operator.metric('keyferry_queue_retries_total'), 0);
  },
);

longIt(
  'what Keyferry leaves is what the original expects: marks, versions and data of each mirror, and nothing of users',
  async () => {
    await using stack = new AsyncDisposableStack();
    const scene = await open(stack);
    const { secrets } = scene;
    const source = await scene.put(secrets, 'source/s', { a: '1' }, autoInto('team-.*'));
    const before = await original(scene, 'team-a', source);
    const operator = await scene.operator();
    await secrets.holds('team-b/s', { a: '1' });
    await secrets.change('source/s', { a: '2' });
    for (const name of ['team-a/s', 'team-b/s']) await secrets.holds(name, { a: '2' });
    await operator.stop();
    const version = await secrets.version('source/s');
    for (const name of ['team-a/s', 'team-b/s']) {
      const mirror = await secrets.find(name);
      // With this version, reflector writes nothing at its start.
      assert.deepEqual(
        ['reflects', 'auto-reflects', 'reflected-version'].map((one) => mark(mirror, one)),
        ['source/s', 'True', version],
      );
      assert.ok(!Number.isNaN(Date.parse(mark(mirror, 'reflected-at') ?? '')));
    }
    assert.equal((await secrets.find('team-a/s')).metadata.uid, before.metadata.uid);
    // The original writes the copy in its way while Keyferry is away, and hands it back.
    const patch = {
      data: secrets.data({ a: '3' }),
      metadata: { annotations: annotations({ 'reflected-version': '1' }) },
    };
    await scene.api.patch(secrets.path('team-a/s'), patch);
    await secrets.change('source/s', { a: '3' });
    await scene.operator();
    await secrets.holds('team-b/s', { a: '3' });
    assert.equal((await secrets.holds('team-a/s', { a: '3' })).metadata.uid, before.metadata.uid);
  },
);

longIt('404, 409, 429 and 500 on every verb delay mirrors, and stall none', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await open(stack);
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

longIt('of two replicas one writes, and a namespace that stays in Terminating disturbs no other one', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await open(stack, 'ending');
  const { secrets, api } = scene;
  await scene.put(secrets, 'source/s', { a: '1' }, autoInto('team-.*,ending'));
  await api.delete('/api/v1/namespaces/ending');
  const replicas = [await scene.started(['--leader-elect']), await scene.started(['--leader-elect'])];
  await secrets.holds('team-a/s', { a: '1' });
  await secrets.holds('team-b/s', { a: '1' });
  const count = (): number => replicas.flatMap((one) => one.logs()).filter(({ msg }) => msg === 'created').length;
  // A line of the log may come after the object.
  await waitFor(() => count() >= 2, { message: 'two lines about creations' });
  await secrets.stayUnchanged(['team-a/s', 'team-b/s'], 'mirrors of two replicas');
  assert.equal(count(), 2);
  assert.equal(await secrets.find('ending/s'), undefined);
});

it('automatic mirrors have a switch of their own, and without the controller nothing is copied', async () => {
  await using stack = new AsyncDisposableStack();
  const scene = await open(stack);
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
