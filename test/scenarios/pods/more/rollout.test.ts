/** Tests rollouts of the Deployment: a version that cannot start, the rollback, and the drain of a node. */
import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';

import type { RealCluster } from '../../../servers/real-cluster/cluster.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { helm } from '../../chart/helm.ts';
import {
  HOME,
  holderOf,
  install,
  isReady,
  podsOf,
  RELEASE,
  replicated,
  rolledOut,
  skip,
  startCluster,
  story,
  uidsOf,
} from '../support.ts';

/** An image in a registry at which no server listens. */
const ABSENT = 'localhost:1/keyferry';

describe('the Deployment', { skip }, () => {
  const step = story();
  let cluster: RealCluster;

  before(async () => {
    cluster = await startCluster();
    await cluster.api.createNamespaces(['from', 'to']);
    await install(cluster, { 'replicator.enabled': true });
    await rolledOut(cluster);
  });
  after(async () => await cluster?.stop());

  const copies = async (name: string): Promise<void> => {
    await cluster.api.create(replicated(name, 'from', 'to'));
    await waitFor(() => cluster.api.find(`/api/v1/namespaces/to/secrets/${name}`), { message: `the copy of ${name}` });
  };

  step(
    'the Deployment keeps its Pods and leader while a new image cannot be pulled, and after helm rollback',
    async () => {
      const old = uidsOf(await podsOf(cluster));
      const holder = await holderOf(cluster);
      await install(cluster, { 'replicator.enabled': true, 'image.repository': ABSENT });
      await waitFor(
        async () =>
          (await podsOf(cluster)).some(({ status }) =>
            ['ErrImagePull', 'ImagePullBackOff'].includes(status.containerStatuses?.[0].state.waiting?.reason),
          ),
        { message: 'a Pod whose image cannot be pulled' },
      );
      await copies('while-it-cannot-be-pulled');
      const ready = (await podsOf(cluster)).filter((pod) => isReady(pod));
      assert.deepEqual(uidsOf(ready), old);
      const args = ['rollback', RELEASE, '1', `--namespace=${HOME}`];
      const { code, stderr } = await helm(args, cluster.kubeconfigPath);
      assert.equal(code, 0, stderr);
      assert.deepEqual(uidsOf(await rolledOut(cluster)), old);
      assert.equal(await holderOf(cluster), holder);
      await copies('after-the-rollback');
    },
  );

  step('the Deployment keeps one Pod when the only node is drained', async () => {
    const drain = ['drain', 'node1', '--ignore-daemonsets', '--delete-emptydir-data', '--timeout=15s'];
    await assert.rejects(cluster.kubectl(...drain), /disruption budget/);
    await copies('while-it-is-drained');
    assert.equal((await podsOf(cluster)).filter((pod) => isReady(pod)).length, 1);
    await cluster.kubectl('uncordon', 'node1');
    await rolledOut(cluster);
    await copies('after-the-drain');
  });
});
