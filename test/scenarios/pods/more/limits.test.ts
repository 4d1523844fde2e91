/** Tests memory limits and the NetworkPolicy of the chart: the cluster kills a container that uses too much memory. */
import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';

import type { RealCluster } from '../../../servers/real-cluster/cluster.ts';
import type { Json } from '../../../support/api.ts';
import { waitFor } from '../../../support/wait-for.ts';
import {
  HOME,
  install,
  leaderOf,
  podsOf,
  RELEASE,
  replicated,
  rolledOut,
  skip,
  startCluster,
  story,
  uidsOf,
} from '../support.ts';

const SYSTEMS = { 'replicator.enabled': true };
/** A memory limit below what Node needs at its start. */
const TOO_LITTLE = '16Mi';

describe('limits of the chart', { skip }, () => {
  const step = story();
  let cluster: RealCluster;

  before(async () => {
    cluster = await startCluster();
    await cluster.api.createNamespaces(['from', 'to']);
    await install(cluster, SYSTEMS);
    await rolledOut(cluster);
  });
  after(async () => await cluster?.stop());

  const copies = async (name: string): Promise<void> => {
    await cluster.api.create(replicated(name, 'from', 'to'));
    await waitFor(() => cluster.api.find(`/api/v1/namespaces/to/secrets/${name}`), { message: `the copy of ${name}` });
  };
  const endings = (pods: readonly Json[]): string[] =>
    pods.map(({ status }) => status.containerStatuses?.[0].lastState.terminated?.reason ?? '');

  step(
    'while the new Pods of an upgrade are killed because they have too little memory, the old Pods keep working',
    async () => {
      const old = uidsOf(await podsOf(cluster));
      await install(cluster, {
        ...SYSTEMS,
        'resources.limits.memory': TOO_LITTLE,
        'resources.requests.memory': TOO_LITTLE,
      });
      await waitFor(async () => endings(await podsOf(cluster)).includes('OOMKilled'), {
        message: 'a container to be killed',
      });
      await copies('while-a-pod-is-killed');
      await install(cluster, SYSTEMS);
      assert.deepEqual(uidsOf(await rolledOut(cluster)), old);
    },
  );

  step(
    "if a process takes all memory of Keyferry's container, the kernel kills it; afterwards copies are made again",
    async () => {
      const leader = await leaderOf(cluster);
      // The kernel kills the process that uses the most memory; with cgroup v2 it kills the whole container, which is
      // then started again.
      const program = `const held = []; for (;;) held.push(Buffer.alloc(1 << 20, 1));`;
      const exec = [
        'exec',
        `--namespace=${HOME}`,
        leader.metadata.name,
        '--',
        '/usr/local/bin/node',
        '--eval',
        program,
      ];
      await assert.rejects(cluster.kubectl(...exec), /exit code 137/);
      await copies('after-a-process-was-killed');
      await rolledOut(cluster);
    },
  );

  step("the chart's NetworkPolicy selects the Pods and their port", async () => {
    const from = [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } }];
    await install(cluster, { ...SYSTEMS, 'networkPolicy.enabled': true, 'networkPolicy.metricsFrom': from });
    const { spec } = await cluster.api.get(`/apis/networking.k8s.io/v1/namespaces/${HOME}/networkpolicies/${RELEASE}`);
    const labelSelector = Object.entries(spec.podSelector.matchLabels)
      .map(([key, value]) => `${key}=${String(value)}`)
      .join(',');
    const selected = await cluster.api.list(`/api/v1/namespaces/${HOME}/pods`, { labelSelector });
    assert.deepEqual(uidsOf(selected), uidsOf(await rolledOut(cluster)));
    const [{ ports, from: peers }] = spec.ingress;
    assert.deepEqual(peers, from);
    for (const pod of selected) {
      const named: Json[] = pod.spec.containers.flatMap((container: Json) => container.ports);
      assert.ok(ports.every(({ port }: Json) => named.some(({ name }) => name === port)));
    }
  });
});
