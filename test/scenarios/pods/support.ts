/**
 * Helpers for Keyferry as Pods of a real cluster: they install the chart, list its Pods, and find the Pod that leads.
 */
import assert from 'node:assert/strict';
import { it, type TestContext } from 'node:test';

import { missingForPods } from '../../servers/real-cluster/missing.ts';
import { type RealCluster, startRealCluster } from '../../servers/real-cluster/cluster.ts';
import type { Json } from '../../support/api.ts';
import { ensureImage } from '../../support/image.ts';
import { waitFor } from '../../support/wait-for.ts';
import { CHART, helm, valueFlags } from '../chart/helm.ts';

export const RELEASE = 'keyferry';
export const HOME = 'keyferry';
export const DEPLOYMENT = `deploy/${RELEASE}`;
/** Time limit for a rollout, ms: the kubelet probes every 10 s, and the Pods are replaced one after the other. */
export const ROLLOUT_TIMEOUT_MS = 180_000;

const image = missingForPods() === false ? await ensureImage() : undefined;

/** Why these tests cannot run on this machine; `false` if they can. */
export const skip = missingForPods() || (image !== undefined && 'missing' in image && image.missing);

/** The archive of Keyferry's image. @throws Error if there is no image (see `skip`) */
export function archiveOfImage(): string {
  if (image === undefined || 'missing' in image) throw new Error('there is no image');
  return image.archive;
}

/** Starts a cluster whose containerd has Keyferry's image. @param images - archives of more images */
export async function startCluster(images: readonly string[] = []): Promise<RealCluster> {
  return startRealCluster([archiveOfImage(), ...images]);
}

export type Values = Readonly<Record<string, unknown>>;

/**
 * Installs or upgrades the chart without waiting for the Pods.
 * @returns Helm's stderr, which has the API server's warnings
 */
export async function install(cluster: RealCluster, values: Values = {}, namespace = HOME): Promise<string> {
  const args = ['upgrade', '--install', RELEASE, CHART, `--namespace=${namespace}`, '--create-namespace'];
  const all = { 'image.repository': 'keyferry', ...values };
  const { code, stderr } = await helm([...args, ...valueFlags(all)], cluster.kubeconfigPath);
  assert.equal(code, 0, stderr);
  return stderr;
}

/** Waits until all Pods of the Deployment's last version are ready, and no older Pods are left. @returns the Pods */
export async function rolledOut(cluster: RealCluster, namespace = HOME): Promise<Json[]> {
  return waitFor(
    async () => {
      const path = `/apis/apps/v1/namespaces/${namespace}/deployments/${RELEASE}`;
      const { metadata, spec, status } = await cluster.api.get(path);
      if (status.observedGeneration !== metadata.generation || status.updatedReplicas !== spec.replicas) return false;
      const pods = await podsOf(cluster, namespace);
      return pods.length === spec.replicas && pods.every((pod) => isReady(pod)) && pods;
    },
    { timeoutMs: ROLLOUT_TIMEOUT_MS, message: `the Pods of ${namespace} to be ready` },
  ).catch(async (error: unknown) => {
    const pods = await cluster.kubectl('get', 'pods', `--namespace=${namespace}`);
    const events = await cluster.kubectl('get', 'events', `--namespace=${namespace}`, '--sort-by=.lastTimestamp');
    throw new Error(`${(error as Error).message}\n${pods}\n${events}`, { cause: error });
  });
}

export function podsOf(cluster: RealCluster, namespace = HOME): Promise<Json[]> {
  return cluster.api.list(`/api/v1/namespaces/${namespace}/pods`, {
    labelSelector: `app.kubernetes.io/instance=${RELEASE}`,
  });
}

export function isReady(pod: Json): boolean {
  const conditions: { type: string; status: string }[] = pod.status?.conditions ?? [];
  return conditions.some(({ type, status }) => type === 'Ready' && status === 'True');
}

/**
 * The holder in the Lease: the name of a Pod, and a suffix that changes with each start. `''` if there is no holder.
 */
export async function holderOf(cluster: RealCluster, namespace = HOME): Promise<string> {
  const lease = await cluster.api.find(`/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${RELEASE}`);
  return lease?.spec?.holderIdentity ?? '';
}

/** Waits until a Pod leads. @returns this Pod */
export async function leaderOf(cluster: RealCluster, namespace = HOME): Promise<Json> {
  return waitFor(
    async () => {
      const [name] = (await holderOf(cluster, namespace)).split('_');
      return (await podsOf(cluster, namespace)).find(({ metadata }) => metadata.name === name);
    },
    { message: 'a leader' },
  );
}

/** The id of a Pod's container, by which containerd and the cgroups name it. */
export function containerOf(pod: Json): string {
  return pod.status.containerStatuses[0].containerID.replace('containerd://', '');
}

/** A Secret that the replicator copies to another namespace. */
export function replicated(name: string, namespace: string, to: string, value = 'on'): Json {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace, annotations: { 'k8s-replicator/replicate-to': `${to}/${name}` } },
    stringData: { password: value },
  };
}

/** Returns a function for tests that build on each other: after one test has failed, each later test fails at once. */
export function story(): (name: string, work: (t: TestContext) => Promise<void>) => void {
  let failed: string | undefined;
  return (name, work) =>
    void it(name, async (t) => {
      assert.equal(failed, undefined, 'an earlier step failed');
      try {
        await work(t);
      } catch (error) {
        failed = name;
        throw error;
      }
    });
}

/** The uids of objects, sorted. */
export function uidsOf(objects: readonly Json[]): string[] {
  const uids: string[] = objects.map(({ metadata }) => metadata.uid);
  return uids.toSorted((a, b) => a.localeCompare(b));
}
