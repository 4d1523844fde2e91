/**
 * Tests Keyferry as two Pods of a real cluster, from `helm install` to `helm uninstall`. Each test continues where the
 * test before it ended.
 */
import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';

import type { RealCluster } from '../../servers/real-cluster/cluster.ts';
import { waitFor } from '../../support/wait-for.ts';
import { assertWithin, Yardstick } from '../../support/yardstick.ts';
import { helm } from '../chart/helm.ts';
import { withPortForward } from './port-forward.ts';
import {
  containerOf,
  DEPLOYMENT,
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
} from './support.ts';
import { takeover } from './takeover.ts';

/** The memory limit in the values of the chart (`resources.limits.memory`), bytes. */
const MEMORY_LIMIT = 256 * 2 ** 20;
const SYSTEMS = { 'mirrors.enabled': true, 'replicator.enabled': true };
const VALUE = 'never in a log';
/** Time limit for a new leader after the old leader ended cleanly and released the Lease, ms. */
const GRACEFUL_MS = 5_000;
/**
 * Time limit for a new leader after a kill, ms. Usually the next container of the Pod leads. If it starts late, another
 * Pod waits until the Lease expires (15 s), and looks every 2 s.
 */
const KILLED_MS = 18_000;

describe('Keyferry in Pods', { skip }, () => {
  const step = story();
  let cluster: RealCluster;
  let startedAt: number;
  const seconds = (): string => `${((performance.now() - startedAt) / 1000).toFixed(1)} s`;

  before(async () => {
    startedAt = performance.now();
    cluster = await startCluster();
  });
  after(async () => await cluster?.stop());

  step('after helm install, both Pods become ready', async (t) => {
    t.diagnostic(`the node was ready after ${seconds()}`);
    await install(cluster, SYSTEMS);
    await rolledOut(cluster);
    t.diagnostic(`both Pods were ready after ${seconds()}`);
  });

  step('Keyferry in Pods makes the copies of a SecretMirror and of an annotated Secret', async (t) => {
    const { api } = cluster;
    await api.createNamespaces(['source', 'project-a', 'project-b']);
    await api.create(replicated('annotated', 'source', 'project-a', VALUE));
    await api.create({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'mirrored', namespace: 'source' },
      stringData: { password: VALUE },
    });
    await api.create({
      apiVersion: 'mirrors.kts.studio/v1alpha2',
      kind: 'SecretMirror',
      metadata: { name: 'mirror', namespace: 'source' },
      spec: { source: { name: 'mirrored' }, destination: { namespaces: ['project-.+'] } },
    });
    await waitFor(() => api.find('/api/v1/namespaces/project-a/secrets/annotated'), { message: 'the first copy' });
    t.diagnostic(`the first copy was there after ${seconds()}`);
    for (const namespace of ['project-a', 'project-b']) {
      const copy = await waitFor(() => api.find(`/api/v1/namespaces/${namespace}/secrets/mirrored`));
      assert.equal(Buffer.from(copy.data.password, 'base64').toString(), VALUE);
    }
    await waitFor(async () => {
      const { status } = await api.get('/apis/mirrors.kts.studio/v1alpha2/namespaces/source/secretmirrors/mirror');
      return status?.mirrorStatus === 'Active';
    });
  });

  step('helm test of the installed chart passes', async () => {
    const { code, stdout, stderr } = await helm(['test', RELEASE, `--namespace=${HOME}`], cluster.kubeconfigPath);
    assert.equal(code, 0, stdout + stderr);
  });

  step('kubectl logs, exec and port-forward work with a Pod', async () => {
    const pods = await podsOf(cluster);
    for (const { metadata } of pods) {
      const log = await cluster.kubectl('logs', `--namespace=${HOME}`, metadata.name);
      assert.match(log, /"level":"info"/);
      assert.ok(!log.includes(VALUE) && !log.includes(Buffer.from(VALUE).toString('base64')));
    }
    const status = await cluster.kubectl('exec', `--namespace=${HOME}`, DEPLOYMENT, '--', 'keyferry', 'status');
    assert.match(status, /source\/mirror/);
    const leader = await leaderOf(cluster);
    await withPortForward(cluster, HOME, `pod/${leader.metadata.name}`, 8080, async (url) => {
      const answer = await fetch(`${url}/metrics`, { signal: AbortSignal.timeout(10_000) });
      assert.match(await answer.text(), /^keyferry_leader 1$/m);
    });
  });

  step(
    "when the leader's Pod is deleted, another Pod leads at once, and no write is missing or repeated",
    async (t) => {
      using yardstick = new Yardstick();
      const { metadata } = await leaderOf(cluster);
      const path = `/api/v1/namespaces/${HOME}/pods/${metadata.name}`;
      const { heldAfterMs, copiedAfterMs } = await takeover(cluster, 'deleted', () => cluster.api.delete(path));
      t.diagnostic(`taken over after ${heldAfterMs.toFixed(0)} ms, first copy after ${copiedAfterMs.toFixed(0)} ms`);
      assertWithin(heldAfterMs, GRACEFUL_MS, 'the takeover', yardstick.stretch);
      await rolledOut(cluster);
    },
  );

  step(
    "when the leader's process is killed, a container leads soon, and no write is missing or repeated",
    async (t) => {
      using yardstick = new Yardstick();
      const container = containerOf(await leaderOf(cluster));
      const kill = (): Promise<unknown> => cluster.ctr('task', 'kill', '--signal=SIGKILL', container);
      const { heldAfterMs, copiedAfterMs } = await takeover(cluster, 'killed', kill);
      t.diagnostic(`taken over after ${heldAfterMs.toFixed(0)} ms, first copy after ${copiedAfterMs.toFixed(0)} ms`);
      assertWithin(heldAfterMs, KILLED_MS, 'the takeover', yardstick.stretch);
      await rolledOut(cluster);
    },
  );

  step('a Pod uses less memory than the limit of the chart', async (t) => {
    const used = cluster.peakMemory(containerOf(await leaderOf(cluster)));
    t.diagnostic(`the leader has used ${(used / 2 ** 20).toFixed(0)} MiB`);
    assert.ok(used < MEMORY_LIMIT, `${used} bytes`);
  });

  step('helm upgrade changes values in a namespace with the Pod Security level restricted', async () => {
    const labels = {
      'pod-security.kubernetes.io/enforce': 'restricted',
      'pod-security.kubernetes.io/warn': 'restricted',
    };
    await cluster.api.patch(`/api/v1/namespaces/${HOME}`, { metadata: { labels } });
    const before = await podsOf(cluster);
    const stderr = await install(cluster, { 'metrics.port': 9090 });
    assert.doesNotMatch(stderr, /PodSecurity/);
    const pods = await rolledOut(cluster);
    const names = new Set(before.map(({ metadata }) => metadata.name));
    assert.ok(pods.every(({ metadata }) => !names.has(metadata.name)));
    await cluster.api.createNamespaces(['project-c']);
    await waitFor(() => cluster.api.find('/api/v1/namespaces/project-c/secrets/mirrored'));
    await withPortForward(cluster, HOME, DEPLOYMENT, 9090, async (url) => {
      assert.equal((await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(10_000) })).status, 200);
    });
  });

  step('helm uninstall leaves the CRDs, the mirrors and the copies', async () => {
    const { api } = cluster;
    const { code, stderr } = await helm(['uninstall', RELEASE, `--namespace=${HOME}`], cluster.kubeconfigPath);
    assert.equal(code, 0, stderr);
    await waitFor(async () => (await podsOf(cluster)).length === 0, { message: 'the Pods to end' });
    assert.ok(await api.find('/apis/mirrors.kts.studio/v1alpha2/namespaces/source/secretmirrors/mirror'));
    for (const copy of ['project-a/secrets/annotated', 'project-a/secrets/mirrored', 'project-c/secrets/mirrored']) {
      assert.ok(await api.find(`/api/v1/namespaces/${copy}`), copy);
    }
    assert.equal((await api.list('/api/v1/namespaces/killed-to/secrets')).length, 60);
  });
});
