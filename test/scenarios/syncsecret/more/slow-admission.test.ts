/**
 * Tests a webhook that takes 9 s for the Secrets of one namespace. Because of it, no controller may delay the Secrets
 * of other namespaces.
 */
import { after, before, it } from 'node:test';

import type { Json, TestApi } from '../../../support/api.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { assertWithin, Yardstick } from '../../../support/yardstick.ts';
import { secretPath, SyncSecretScene } from '../support.ts';
import { startWebhook } from '../webhook.ts';

/** The time that the webhook takes, ms. The API server waits for 10 s at most. */
const WEBHOOK_MS = 9000;
/** The most time that a Secret of another namespace may take, ms on an idle machine. */
const LIMIT_MS = 300;
/** The number of Secrets in the slow namespace: more than can be written at once, in both rounds. */
const SLOW = 30;
/** The number of Secrets of the other namespace in each round, which are created one after the other. */
const QUICK = 4;

let scene: SyncSecretScene;
let api: TestApi;

before(async () => {
  scene = await SyncSecretScene.open();
  api = scene.managementApi;
  await scene.manager({
    inRun: true,
    args: ['--controllers=mirrors,replicator,syncsecret-manager'],
    kubeconfig: scene.clusters.managementPlane.kubeconfigPath,
  });
});
after(async () => await scene.close());

/** @param make creates a rule with this name for a Secret in this namespace, and returns the path of the Secret */
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
    // In the first round, all running writes are for the slow namespace when the first quick Secret is created.
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

it("a webhook that takes 9 s for one namespace's Secrets does not delay the Secrets of SyncSecrets in other namespaces", async () => {
  await assertNotDelayed(async (namespace, name) => {
    const { metadata }: Json = await scene.create(namespace, name, { a: '1' }, {}, api);
    return secretPath(namespace, metadata.uid);
  });
});
