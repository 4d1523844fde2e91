/**
 * A Kubernetes cluster with one node and real Pods. It runs etcd, kube-apiserver, kube-controller-manager,
 * kube-scheduler, containerd and kubelet in its own Linux namespaces. There is no kube-proxy, so the name of a Service
 * resolves to the addresses of its Pods (see `ClusterDns`). NetworkPolicies have no effect.
 *
 * States: running → stopped. When `startRealCluster` resolves, the node is ready.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { promisify } from 'node:util';

import { TestApi } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
import { CertificateAuthority } from '../certificates.ts';
import { ensureServer } from '../ensure.ts';
import { Reaper } from '../reaper.ts';
import type { ServerProcess } from '../server-process.ts';
import { peakMemory } from './cgroups.ts';
import { ClusterDns } from './dns.ts';
import { apiUrl, CONTAINERD_SOCKET, writeClusterFiles } from './files.ts';
import { Namespace } from './namespace.ts';
import { PAUSE_IMAGE, writeProgramImage } from './program-image.ts';
import {
  API_PORT,
  API_SERVICE,
  clusterFile,
  containerdArgs,
  DNS_SERVICE,
  kubeletArgs,
  type Layout,
  NODE,
  realApiServerArgs,
  realControllerManagerArgs,
  realEtcdArgs,
  schedulerArgs,
} from './server-args.ts';

/** Time limit of the start, ms. The start needs much CPU time, and other tests run at the same time. */
const READY_TIMEOUT_MS = 180_000;
const COMMAND_TIMEOUT_MS = 120_000;
const LIMIT_BYTES = 32 * 1024 * 1024;
const LOG_LINES = 15;

export class RealCluster {
  readonly url: string;
  readonly caPem: string;
  /** Path of a kubeconfig for the administrator. */
  readonly kubeconfigPath: string;
  /** A client for the test, as administrator. */
  readonly api: TestApi;
  /** The folder with all files of this cluster. `stop` deletes it. */
  readonly folder: string;
  readonly namespace: Namespace;
  readonly #servers: ServerProcess[] = [];
  readonly #layout: Layout;
  readonly #adminToken: string;
  #dns: ClusterDns | undefined;

  /** Called only by `startRealCluster`. */
  constructor(namespace: Namespace, layout: Layout, caPem: string, adminToken: string) {
    this.namespace = namespace;
    this.folder = layout.folder;
    this.url = apiUrl(layout);
    this.caPem = caPem;
    this.kubeconfigPath = clusterFile(layout, 'admin.yaml');
    this.#adminToken = adminToken;
    this.#layout = layout;
    this.api = this.client();
  }

  /** Starts all servers. @param images - paths of archives that containerd imports */
  async start(images: readonly string[]): Promise<void> {
    await Promise.all([this.#startControlPlane(), this.#startContainerd(images)]);
    await this.#spawn('kubelet', kubeletArgs(this.#layout));
    await this.#until('the node to be ready', async () => {
      const node = await this.api.find(`/api/v1/nodes/${NODE}`);
      const conditions: { type: string; status: string }[] = node?.status?.conditions ?? [];
      return conditions.some(({ type, status }) => type === 'Ready' && status === 'True');
    });
  }

  /** Makes containerd import an archive of images, so that Pods can use them. */
  async importImage(archive: string): Promise<void> {
    await this.ctr('image', 'import', archive);
  }

  /** Runs `ctr`, containerd's client, for the images and containers of Pods. @returns its stdout */
  ctr(...args: readonly string[]): Promise<string> {
    return this.namespace.run('ctr', `--address=${CONTAINERD_SOCKET}`, '--namespace=k8s.io', ...args);
  }

  /** Runs kubectl as administrator. @throws Error with its output if it fails @returns its stdout */
  async kubectl(...args: readonly string[]): Promise<string> {
    const { command, env } = await this.kubectlCommand();
    const options = { env, timeout: COMMAND_TIMEOUT_MS, maxBuffer: LIMIT_BYTES };
    const { stdout } = await promisify(execFile)(command, args, options);
    return stdout;
  }

  /** Path and environment for a test that runs kubectl as a child process. */
  async kubectlCommand(): Promise<{ readonly command: string; readonly env: NodeJS.ProcessEnv }> {
    const env = { PATH: process.env['PATH'], HOME: this.folder, KUBECONFIG: this.kubeconfigPath };
    return { command: await ensureServer('kubectl'), env };
  }

  /** Opens a client with this token; by default, the administrator's token. The caller must close it. */
  client({ token }: { readonly token?: string } = {}): TestApi {
    return new TestApi({ url: this.url, caPem: this.caPem, token: token ?? this.#adminToken });
  }

  /**
   * The largest memory that a container has used until now, bytes.
   * @param containerId - the id in the Pod's status, without `containerd://`
   */
  peakMemory(containerId: string): number {
    return peakMemory(this.namespace.cgroup, containerId);
  }

  /** The last lines in the log of each server. */
  logs(): string {
    return this.#servers.map((server) => `== ${server.name}\n${server.logTail(LOG_LINES)}`).join('\n');
  }

  /** Ends all servers and Pods, and deletes the folder. */
  async stop(): Promise<void> {
    this.api.close();
    await this.#dns?.stop();
    await this.namespace.close();
    await Promise.all(this.#servers.map((server) => server.kill()));
    await Reaper.shared().removeFolder(this.folder);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #startControlPlane(): Promise<void> {
    await this.#spawn('etcd', realEtcdArgs(this.#layout));
    // The API server waits for etcd by itself, so both may start at the same time.
    const apiServer = await this.#spawn('kube-apiserver', realApiServerArgs(this.#layout));
    const isReady = async (): Promise<boolean> => {
      const ready = await this.api.raw('GET', '/readyz', { timeoutMs: 5_000 });
      return ready.status === 200 && (await this.api.find('/api/v1/namespaces/default')) !== undefined;
    };
    await apiServer.ready(isReady, READY_TIMEOUT_MS);
    this.#dns = await ClusterDns.start(this.namespace.link.outside, this.api);
    await this.#forward('tcp', `${API_SERVICE}:443`, `${this.#layout.address}:${API_PORT}`);
    await this.#forward('udp', `${DNS_SERVICE}:53`, `${this.namespace.link.outside}:${this.#dns.port}`);
    await this.#spawn('kube-controller-manager', realControllerManagerArgs(this.#layout));
    await this.#spawn('kube-scheduler', schedulerArgs(this.#layout));
  }

  /** Redirects connections of Pods from a Service's address to its server. kube-proxy would do this. */
  async #forward(protocol: 'tcp' | 'udp', from: string, to: string): Promise<void> {
    const [address = '', port = ''] = from.split(':');
    const matching = ['-d', address, '-p', protocol, '--dport', port];
    await this.namespace.run('iptables', '-t', 'nat', '-A', 'PREROUTING', ...matching, '-j', 'DNAT', '--to', to);
  }

  async #startContainerd(images: readonly string[]): Promise<void> {
    const containerd = this.namespace.spawn('containerd', 'containerd', containerdArgs(this.#layout), this.folder);
    this.#servers.push(containerd);
    await containerd.ready(async () => (await this.ctr('version')) !== '', READY_TIMEOUT_MS);
    const pause = path.join(this.folder, 'pause');
    const archive = await writeProgramImage(PAUSE_IMAGE, await ensureServer('pause'), pause);
    for (const image of [archive, ...images]) await this.importImage(image);
  }

  async #spawn(
    name: 'etcd' | 'kube-apiserver' | 'kube-controller-manager' | 'kube-scheduler' | 'kubelet',
    args: readonly string[],
  ): Promise<ServerProcess> {
    const server = this.namespace.spawn(name, await ensureServer(name), args, this.folder);
    this.#servers.push(server);
    return server;
  }

  /** Waits for a condition. @throws Error with the logs, if a server has ended, or at the time limit */
  async #until(message: string, condition: () => Promise<boolean>): Promise<void> {
    const check = async (): Promise<boolean> => this.#servers.some(({ running }) => !running) || (await condition());
    await waitFor(check, { timeoutMs: READY_TIMEOUT_MS, message: () => `${message}\n${this.logs()}` });
    const ended = this.#servers.find(({ running }) => !running);
    if (ended !== undefined)
      throw new Error(`${ended.name} ended while the test waited for ${message}\n${this.logs()}`);
  }
}

/**
 * Starts a cluster. Before, `missingForPods` must have said that this machine can run one.
 * @param images - paths of archives with the images that Pods will use
 * @throws Error with the ends of the logs, if a server does not start
 */
export async function startRealCluster(images: readonly string[] = []): Promise<RealCluster> {
  const folder = await Reaper.shared().temporaryFolder('keyferry-real-cluster-');
  const namespace = await Namespace.open(folder);
  let cluster: RealCluster | undefined;
  try {
    const layout: Layout = { folder, address: namespace.link.inside, cgroup: namespace.cgroup };
    const ca = await CertificateAuthority.create('keyferry-test-ca');
    const adminToken = randomBytes(16).toString('hex');
    await writeClusterFiles(layout, ca, adminToken);
    cluster = new RealCluster(namespace, layout, ca.certPem, adminToken);
    await cluster.start(images);
    return cluster;
  } catch (error) {
    await (cluster === undefined ? namespace.close() : cluster.stop());
    throw error;
  }
}
