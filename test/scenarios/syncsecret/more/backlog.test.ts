/** Starts the manager on many SyncSecrets without the manager's finalizer, as after a move from KubeLB. */
import assert from 'node:assert/strict';
import { after, afterEach, before, it } from 'node:test';

import type { Json } from '../../../support/api.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { secretPath, syncSecretPath, SyncSecretScene, syncSecretsPath } from '../support.ts';

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
});

it('while the finalizer of a SyncSecret cannot be written, its Secret follows without the phase Synced, and is deleted with the SyncSecret', async () => {
  const { managementApi: api } = scene;
  await api.createNamespaces(['held']);
  const refusal = scene.clusters.managerProxy.rule({
    match: { method: 'PATCH', path: /\/held\/syncsecrets\/[a-z]+(\?|$)/ },
    fault: {
      kind: 'respond',
      status: 503,
      body: { kind: 'Status', status: 'Failure', reason: 'ServiceUnavailable', code: 503 },
    },
  });
  await scene.manager();
  const [object, brief] = [
    await scene.create('held', 'one', { a: 'first' }, {}, api),
    await scene.create('held', 'brief', { a: 'x' }, {}, api),
  ];
  await scene.made(object, { a: 'first' });
  await scene.change(api, object, { a: 'second' });
  const { secret } = await scene.made(object, { a: 'second' });
  const { secret: briefSecret } = await scene.made(brief, { a: 'x' });
  await waitFor(() => refusal.hits >= 4, { message: 'some tries to write the finalizers' });
  for (const name of ['one', 'brief']) {
    const present = await api.get(syncSecretPath('held', name));
    assert.ok(!hasFinalizer(present));
    assert.notEqual(present.status?.phase, 'Synced');
  }
  await api.delete(syncSecretPath('held', 'brief'));
  await waitFor(async () => (await api.find(secretPath('held', briefSecret.metadata.name))) === undefined);

  refusal.clear();
  await scene.phase(object, 'Synced', { api });
  const { copy, secret: updated } = await scene.made(object, { a: 'second' });
  assert.equal(updated.metadata.uid, secret.metadata.uid);
  assert.ok(hasFinalizer(copy));
});
