/** A webhook that takes 9 s for the Secrets of one namespace delays no other namespace, whatever controller writes them. */
import { after, before, it } from 'node:test';

import { readCrd } from '../../../scripts/crd/read-crds.ts';
import type { Json, TestApi } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
import { assertWithin, Yardstick } from '../../support/yardstick.ts';
import { secretPath, SyncSecretScene } from './support.ts';
import { startWebhook } from './webhook.ts';

/** The API server gives a webhook 10 s. */
const WEBHOOK_MS = 9000;
/** How late a Secret of another namespace may be, ms on an idle machine. */
const LIMIT_MS = 300;
/** More than can be written at once, also in the second round. */
const SLOW = 30;
/** Secrets of the other namespace, one after the other, in each round. */
const QUICK = 4;

let scene: SyncSecretScene;
let api: TestApi;

before(async () => {
  scene = await SyncSecretScene.open({ controllerManager: false });
  api = scene.managementApi;
  await api.apply(readCrd('secretmirrors'));
  await scene.manager({
    inRun: true,
    args: ['--controllers=mirrors,replicator,syncsecret-manager'],
    kubeconfig: scene.clusters.managementPlane.kubeconfigPath,
  });
});
after(async () => await scene.close());

/** @param make creates the rule `name`, and returns the place of the Secret that it is for, in this namespace */
async function assertNotDelayed(make: (namespace: string, name: string) => Promise<string>): Promise<void> {
  const [slow, quick] = await Promise.all([scene.tenant(), scene.tenant()]);
  await using webhook = await startWebhook(api, slow.namespace, {
    group: '',
    resource: 'secrets',
    namespace: slow.namespace,
  });
  webhook.acceptAfter(WEBHOOK_MS);
  using yardstick = new Yardstick();
  await Promise.all(
    Array.from({ length: SLOW }, (_, index) => make(slow.namespace, `slow-${slow.namespace}-${index}`)),
  );
  for (const round of ['first', 'second']) {
    // In the first round all writes are for the slow namespace, until another one arrives.
    for (let index = 0; index < QUICK; index += 1) {
      await waitFor(() => webhook.waiting >= 3, { message: 'writes to wait for the webhook' });
      const from = performance.now();
      const place = await make(quick.namespace, `quick-${quick.namespace}-${round}-${index}`);
      await waitFor(() => api.find(place), { intervalMs: 10, message: () => `${place}\n${scene.tail()}` });
      assertWithin(performance.now() - from, LIMIT_MS, `Secret ${index} of the ${round} round`, yardstick.worst);
    }
    const first = await api.list(`/api/v1/namespaces/${slow.namespace}/secrets`);
    if (round === 'first') {
      await waitFor(
        async () => (await api.list(`/api/v1/namespaces/${slow.namespace}/secrets`)).length > first.length,
        {
          timeoutMs: 3 * WEBHOOK_MS,
          message: 'the webhook to accept the first writes',
        },
      );
    }
  }
}

it('a webhook of 9 s for the Secrets of one namespace does not delay SyncSecrets of other namespaces', async () => {
  await assertNotDelayed(async (namespace, name) => {
    const { metadata }: Json = await scene.create(namespace, name, { a: '1' }, {}, api);
    return secretPath(namespace, metadata.uid);
  });
});

/** A source for one copy. */
async function source(name: string, annotations: Record<string, string> = {}): Promise<void> {
  const metadata = { namespace: 'default', name, annotations };
  await api.create({ apiVersion: 'v1', kind: 'Secret', metadata, data: scene.data({ a: '1' }) });
}

it('a webhook of 9 s for the Secrets of one namespace does not delay the copies of SecretMirrors in other namespaces', async () => {
  await assertNotDelayed(async (namespace, name) => {
    await source(name);
    await api.create({
      apiVersion: 'mirrors.kts.studio/v1alpha2',
      kind: 'SecretMirror',
      metadata: { namespace: 'default', name },
      spec: { source: { name }, destination: { namespaces: [namespace] } },
    });
    return secretPath(namespace, name);
  });
});

it('a webhook of 9 s for the Secrets of one namespace does not delay the copies of annotated Secrets in other namespaces', async () => {
  await assertNotDelayed(async (namespace, name) => {
    await source(name, { 'k8s-replicator/replicate-to': `${namespace}/${name}` });
    return secretPath(namespace, name);
  });
});
