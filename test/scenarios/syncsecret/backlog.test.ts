/** Starts the manager on many SyncSecrets without the manager's finalizer, as after a move from KubeLB. */
import assert from 'node:assert/strict';
import { after, afterEach, before, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
import { secretPath, syncSecretPath, SyncSecretScene, syncSecretsPath } from './support.ts';

const FINALIZER = 'kubelb.k8c.io/lb-finalizer';
/**
 * The number of SyncSecrets of the busy tenant: many times OVERTAKING. So the test fails if a start handles all of them
 * before other tenants.
 */
const BACKLOG = 600;
/**
 * The limit for the busy tenant's finalizers that are written before the other tenant's first Secret: a few rounds of
 * parallel writes.
 */
const OVERTAKING = 50;

let scene: SyncSecretScene;
before(async () => (scene = await SyncSecretScene.open({ controllerManager: false })));
afterEach(async () => await scene.clear());
after(async () => await scene.close());

const hasFinalizer = ({ metadata }: Json): boolean => metadata.finalizers?.includes(FINALIZER) === true;

it(`if ${BACKLOG} SyncSecrets of one tenant lack the finalizer at a start, the first Secret of another tenant is not delayed`, async () => {
  const { managementApi: api } = scene;
  await api.createNamespaces(['backlog', 'neighbour']);
  await api.createMany(
    Array.from({ length: BACKLOG }, (_, index) => ({
      apiVersion: 'kubelb.k8c.io/v1alpha1',
      kind: 'SyncSecret',
      metadata: { namespace: 'backlog', name: `one-${index}` },
      data: scene.data({ a: 'x' }),
    })),
  );
  const neighbour = await scene.create('neighbour', 'quiet', { a: '0' }, {}, api);
  const written = new Map<string, number>();
  let firstAt = Infinity;
  let isRelevant = true;
  await using _ = await api.watch(syncSecretsPath('backlog'), ({ object, at }) => {
    if (!isRelevant || !hasFinalizer(object) || written.has(object.metadata.uid)) return;
    written.set(object.metadata.uid, Number(object.metadata.resourceVersion));
    firstAt = Math.min(firstAt, at);
  });
  await scene.manager();
  const { secret } = await scene.made(neighbour, { a: '0' });
  const madeAt = performance.now();
  await waitFor(() => written.size > OVERTAKING, { message: 'the backlog to be worked off as well' });
  isRelevant = false;
  const version = Number(secret.metadata.resourceVersion);
  const overtaken = [...written.values()].filter((one) => one < version).length;
  assert.ok(
    overtaken <= OVERTAKING,
    `${overtaken} finalizers were written before it, in ${(madeAt - firstAt).toFixed(0)} ms`,
  );
  // The manager writes the finalizer before it creates a Secret. So no SyncSecret without finalizer has a Secret.
  const secrets = new Set((await api.list('/api/v1/namespaces/backlog/secrets')).map(({ metadata }) => metadata.name));
  const bare = (await api.list(syncSecretsPath('backlog'))).filter((one) => !hasFinalizer(one));
  assert.deepEqual(
    bare.filter(({ metadata }) => secrets.has(metadata.uid)),
    [],
  );
});

it('while the finalizer of a SyncSecret cannot be written, its Secret is not created or changed; afterwards the Secret follows', async () => {
  const { managementApi: api } = scene;
  await api.createNamespaces(['held', 'other']);
  const first = await scene.manager();
  const object = await scene.create('held', 'one', { a: 'first' }, {}, api);
  const { secret } = await scene.made(object, { a: 'first' });
  await first.kill9();
  await api.patch(syncSecretPath('held', 'one'), { metadata: { finalizers: null } });
  await scene.change(api, object, { a: 'second' });
  const added = await scene.create('held', 'two', { a: 'x' }, {}, api);
  const other = await scene.create('other', 'one', { a: 'x' }, {}, api);

  const refusal = scene.clusters.managerProxy.rule({
    match: { method: 'PATCH', path: `${syncSecretsPath('held')}/` },
    fault: {
      kind: 'respond',
      status: 503,
      body: { kind: 'Status', status: 'Failure', reason: 'ServiceUnavailable', code: 503 },
    },
  });
  await scene.manager();
  await scene.made(other, { a: 'x' });
  await waitFor(() => refusal.hits >= 4, { message: 'some tries to write the finalizers' });
  const kept = await api.get(secretPath('held', object.metadata.uid));
  assert.equal(kept.metadata.resourceVersion, secret.metadata.resourceVersion);
  assert.equal(await scene.findSecret(added), undefined);

  refusal.clear();
  const { secret: updated } = await scene.made(object, { a: 'second' });
  assert.equal(updated.metadata.uid, secret.metadata.uid);
  const { copy } = await scene.made(added, { a: 'x' });
  assert.ok(hasFinalizer(copy));
});
