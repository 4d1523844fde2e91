/**
 * Tests that many SyncSecrets of one tenant, or in one namespace of a tenant, delay other SyncSecrets only by a moment.
 */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import type { Json, TestApi } from '../../../support/api.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { assertWithin, Yardstick } from '../../../support/yardstick.ts';
import { SyncSecretScene, syncSecretsPath } from '../support.ts';

let scene: SyncSecretScene;
before(async () => (scene = await SyncSecretScene.open()));
after(async () => await scene.close());

/** How much later a change may arrive because of the many SyncSecrets, ms on an idle machine. */
const LIMIT_MS = 2000;
/** At least so many SyncSecrets must wait, so that the test shows in which order they are handled. */
const MANY = 500;
/**
 * The limit for the many SyncSecrets that are handled before a change: a few rounds of parallel writes. In order of
 * arrival, most of them would be handled first.
 */
const OVERTAKING = 100;
/**
 * ALONE: the number of changes that are measured without the many SyncSecrets. AFTER: the number of changes after the
 * last of them was created, when most of them wait.
 */
const ALONE = 8;
const AFTER = 5;

/**
 * The step of the chain that a test measures: from SyncSecrets of a tenant to their copies, or from copies to Secrets.
 */
interface Side {
  /** A client of the author who creates many SyncSecrets. */
  readonly noisy: TestApi;
  readonly noisyNamespace: string;
  readonly count: number;
  /** The path of the objects in the management cluster that are made of the many SyncSecrets. */
  readonly made: string;
  /** A client of the author of the one SyncSecret that must not be delayed. */
  readonly api: TestApi;
  readonly quiet: Json;
  /** Reads the object that is made of this one SyncSecret. */
  readonly find: () => Promise<Json>;
}

interface Arrival {
  readonly tookMs: number;
  /** resourceVersions in the management cluster: `from` before the change, `to` of the object that has the change. */
  readonly from: number;
  readonly to: number;
}

/** Changes the one SyncSecret, and waits until the object made of it has the change. */
async function change({ api, quiet, find, made }: Side, value: string): Promise<Arrival> {
  const { metadata } = await scene.managementApi.get(made, { query: { limit: 1 } });
  const from = performance.now();
  await scene.change(api, quiet, { a: value });
  const arrived = await waitFor(
    async () => {
      const found = await find();
      return found?.data?.a === scene.value(value) && found;
    },
    { intervalMs: 10, message: () => `the change to arrive\n${scene.tail()}` },
  );
  const tookMs = performance.now() - from;
  return { tookMs, from: Number(metadata.resourceVersion), to: Number(arrived.metadata.resourceVersion) };
}

async function assertNotDelayed(side: Side): Promise<void> {
  const { noisy, noisyNamespace, count, made } = side;
  const alone: Arrival[] = [];
  for (let index = 0; index < ALONE; index += 1) alone.push(await change(side, `alone ${index}`));
  using yardstick = new Yardstick();
  const objects = Array.from({ length: count }, (_, index) => ({
    apiVersion: 'kubelb.k8c.io/v1alpha1',
    kind: 'SyncSecret',
    metadata: { namespace: noisyNamespace, name: `noise-${index}` },
    data: { a: scene.value('noise') },
  }));
  let isDone = false;
  const creation = noisy.createMany(objects).finally(() => (isDone = true));
  const beside: Arrival[] = [];
  for (let left = AFTER; left > 0; left -= isDone ? 1 : 0) {
    beside.push(await change(side, `beside ${beside.length}`));
  }
  await creation;
  const [before, worst] = [alone, beside].map((arrivals) => Math.max(...arrivals.map(({ tookMs }) => tookMs)));
  assertWithin(worst! - before!, LIMIT_MS, `a change took ${before!.toFixed(0)} ms alone, the delay`, yardstick.worst);

  // On a machine of any speed, the change must be written before nearly all of the waiting SyncSecrets are.
  const versions = (await scene.managementApi.list(made)).map(({ metadata }) => Number(metadata.resourceVersion));
  const overtaking = beside
    .slice(-AFTER)
    .filter(({ from }) => count - versions.filter((version) => version <= from).length >= MANY)
    .map(({ from, to }) => versions.filter((version) => version > from && version < to).length)
    .toSorted((a, b) => a - b);
  assert.notEqual(overtaking.length, 0, `never ${MANY} waited`);
  const median = overtaking[Math.floor(overtaking.length / 2)]!;
  assert.ok(median <= OVERTAKING, `${overtaking.join(', ')} of those that waited were done before a change`);
}

it('if one tenant creates 2,000 SyncSecrets, a change by another tenant is not delayed', async () => {
  const [tenant, other] = await Promise.all([scene.tenant(), scene.tenant()]);
  const manager = await scene.manager();
  const { managementApi: api } = scene;
  const quiet = await scene.create(other.namespace, 'quiet', { a: '0' }, {}, api);
  await scene.made(quiet, { a: '0' });
  // Delays each creation, so that many SyncSecrets wait even on a fast machine.
  scene.clusters.managerProxy.rule({ match: { method: 'POST' }, fault: { kind: 'delay', ms: 75 } });
  using noisy = scene.clusters.managementPlane.client({ token: tenant.token });
  await assertNotDelayed({
    noisy,
    noisyNamespace: tenant.namespace,
    count: 2000,
    made: `/api/v1/namespaces/${tenant.namespace}/secrets`,
    api,
    quiet,
    find: () => scene.findSecret(quiet),
  });
  await manager.kill9();
});

it('1,500 SyncSecrets in one namespace of a tenant do not delay a change in another namespace, even over a slow connection', async () => {
  const tenant = await scene.tenant();
  await Promise.all([scene.ccm(tenant), scene.namespaces('noisy', 'quiet')]);
  const { tenantApi: api } = scene;
  const quiet = await scene.create('quiet', 'quiet', { a: '0' });
  await waitFor(() => scene.findCopy(tenant, quiet));
  // Delays each creation, so that many SyncSecrets wait even on a fast machine.
  scene.clusters.link.rule({ match: { method: 'POST' }, fault: { kind: 'delay', ms: 250 } });
  await assertNotDelayed({
    noisy: api,
    noisyNamespace: 'noisy',
    count: 1500,
    made: syncSecretsPath(tenant.namespace),
    api,
    quiet,
    find: () => scene.findCopy(tenant, quiet),
  });
});
