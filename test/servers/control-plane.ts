/**
 * A real Kubernetes control plane on loopback: etcd, kube-apiserver and optionally kube-controller-manager.
 *
 * States of each server: running ⇄ stopped, with the same port and (etcd) the same data. `stop` ends all servers for good and
 * removes their folder. The API server is usable when `startControlPlane` resolves: /readyz answers ok and the namespace
 * `default` exists.
 */
import { randomBytes } from 'node:crypto';
import path from 'node:path';

import { TestApi } from '../support/api.ts';
import { HttpClient } from '../support/http.ts';
import { withBootstrapObjects } from './bootstrap-objects.ts';
import { CertificateAuthority } from './certificates.ts';
import type { Certificate, Subject } from './certificates.ts';
import { apiServerArgs, controllerManagerArgs, etcdArgs } from './control-plane-args.ts';
import type { Layout } from './control-plane-args.ts';
import { writeControlPlaneFiles } from './control-plane-files.ts';
import type { UserOptions } from './control-plane-files.ts';
import { ensureServer } from './ensure.ts';
import { writeKubeconfigFile } from './kubeconfig.ts';
import type { KubeconfigOptions } from './kubeconfig.ts';
import { freePort } from './ports.ts';
import { Reaper } from './reaper.ts';
import { ServerProcess } from './server-process.ts';

export interface ControlPlaneOptions {
  /** Namespaces are emptied, garbage is collected and service accounts get their tokens. Default true. */
  readonly controllerManager?: boolean;
  /** Every request in `auditLogPath`, a JSON line each, without bodies. Default false. */
  readonly audit?: boolean;
  /** Users besides `admin`, each with a token; RBAC objects give them permissions. */
  readonly users?: readonly UserOptions[];
  /** More flags of kube-apiserver: `['--max-requests-inflight=10']`. They override the default ones. */
  readonly apiServerFlags?: readonly string[];
  /** More flags of kube-controller-manager. */
  readonly controllerManagerFlags?: readonly string[];
  /** Gets progress lines when a server must be built first. */
  readonly onProgress?: (line: string) => void;
  /** Aborts a running build. */
  readonly signal?: AbortSignal;
}

const READY_TIMEOUT_MS = 180_000;

export class ControlPlane {
  readonly url: string;
  readonly caPem: string;
  readonly adminToken: string;
  /** File for the admin, at `url`. */
  readonly kubeconfigPath: string;
  /** Exists only with the option `audit`. */
  readonly auditLogPath: string;
  /** Holds all files of this control plane; removed by `stop`. */
  readonly folder: string;
  /** An independent client as admin. */
  readonly api: TestApi;
  readonly #layout: Layout;
  readonly #options: ControlPlaneOptions;
  readonly #ca: CertificateAuthority;
  readonly #tokens: ReadonlyMap<string, string>;
  #etcd: ServerProcess | undefined;
  #apiServer: ServerProcess | undefined;
  #controllerManager: ServerProcess | undefined;

  /** Use `startControlPlane`. */
  constructor(
    layout: Layout,
    options: ControlPlaneOptions,
    ca: CertificateAuthority,
    tokens: ReadonlyMap<string, string>,
    kubeconfigPath: string,
  ) {
    this.url = `https://127.0.0.1:${layout.apiPort}`;
    this.caPem = ca.certPem;
    this.adminToken = tokens.get('admin') ?? '';
    this.kubeconfigPath = kubeconfigPath;
    this.auditLogPath = layout.auditLog;
    this.folder = layout.folder;
    this.#layout = layout;
    this.#options = options;
    this.#ca = ca;
    this.#tokens = tokens;
    this.api = this.client();
  }

  /** The token of a user named in the options, or of `admin`. @throws Error for any other. */
  tokenFor(user: string): string {
    const token = this.#tokens.get(user);
    if (token === undefined) throw new Error(`no user "${user}" in the options of this control plane`);
    return token;
  }

  /** A certificate that authenticates this user (CN) with these groups (O). */
  clientCertificate(subject: Subject): Promise<Certificate> {
    return this.#ca.client(subject);
  }

  /** A kubeconfig file in this control plane's folder; by default for the admin at `url`. */
  writeKubeconfig(options: Partial<KubeconfigOptions> = {}): Promise<string> {
    const identity = options.clientCertPem === undefined ? { token: this.adminToken } : {};
    return writeKubeconfigFile(this.folder, { server: this.url, caPem: this.caPem, ...identity, ...options });
  }

  /** An independent client, by default as admin at `url`. Close it. @param options.token instead of the user's */
  client(
    options: { readonly user?: string; readonly token?: string; readonly url?: string; readonly caPem?: string } = {},
  ): TestApi {
    return new TestApi({
      url: options.url ?? this.url,
      caPem: options.caPem ?? this.caPem,
      token: options.token ?? this.tokenFor(options.user ?? 'admin'),
    });
  }

  /** The log file of a server. */
  logFile(server: 'etcd' | 'kube-apiserver' | 'kube-controller-manager'): string {
    return path.join(this.folder, `${server}.log`);
  }

  async startEtcd(): Promise<void> {
    if (this.#etcd?.running === true) return;
    const command = await ensureServer('etcd', this.#options);
    this.#etcd = this.#spawn('etcd', command, etcdArgs(this.#layout));
    using http = new HttpClient(`http://127.0.0.1:${this.#layout.etcdPort}`);
    await this.#etcd.ready(async () => {
      const { text } = await http.send('/health');
      return (JSON.parse(text) as { health: string }).health === 'true';
    }, READY_TIMEOUT_MS);
  }

  /** SIGTERM, and SIGKILL after 2 s: etcd would wait 8 s for the API server to disconnect. The data stay. */
  async stopEtcd(): Promise<void> {
    await this.#etcd?.stop(2_000);
  }

  /** SIGKILL. The data stay: etcd runs without fsync, which is needed only for a power cut. */
  async killEtcd(): Promise<void> {
    await this.#etcd?.kill();
  }

  /** Starts the API server and waits until it is ready. Does nothing if it runs. */
  async startApiServer(): Promise<void> {
    if (this.#apiServer?.running === true) return;
    const command = await ensureServer('kube-apiserver', this.#options);
    const { apiServerFlags = [], audit = false } = this.#options;
    this.#apiServer = this.#spawn('kube-apiserver', command, [
      ...apiServerArgs(this.#layout, audit),
      ...apiServerFlags,
    ]);
    await this.apiServerReady();
  }

  /** Waits until /readyz answers ok and the namespace `default` exists. */
  async apiServerReady(timeoutMs = READY_TIMEOUT_MS): Promise<void> {
    const probe = async (): Promise<boolean> => {
      const ready = await this.api.raw('GET', '/readyz', { timeoutMs: 5_000 });
      return ready.status === 200 && (await this.api.find('/api/v1/namespaces/default')) !== undefined;
    };
    if (this.#apiServer === undefined) throw new Error('kube-apiserver was never started');
    await this.#apiServer.ready(probe, timeoutMs);
  }

  /** SIGTERM: the server ends its watches and waits for requests in flight. */
  async stopApiServer(): Promise<void> {
    await this.#apiServer?.stop();
  }

  /** SIGKILL. */
  async killApiServer(): Promise<void> {
    await this.#apiServer?.kill();
  }

  /** Kills (or with `graceful` stops) and starts it, on the same port; resolves when it is ready. */
  async restartApiServer(options: { readonly graceful?: boolean } = {}): Promise<void> {
    await (options.graceful === true ? this.stopApiServer() : this.killApiServer());
    await this.startApiServer();
  }

  /** SIGSTOP: connections stay open, and no request is answered until `resumeApiServer`. */
  async pauseApiServer(): Promise<void> {
    await this.#apiServer?.pause();
  }

  resumeApiServer(): void {
    this.#apiServer?.resume();
  }

  async startControllerManager(): Promise<void> {
    if (this.#controllerManager?.running === true) return;
    const command = await ensureServer('kube-controller-manager', this.#options);
    const args = [
      ...controllerManagerArgs(this.#layout, this.kubeconfigPath),
      ...(this.#options.controllerManagerFlags ?? []),
    ];
    this.#controllerManager = this.#spawn('kube-controller-manager', command, args);
  }

  async stopControllerManager(): Promise<void> {
    await this.#controllerManager?.kill();
  }

  /** Ends all servers and removes their folder. Safe to call more than once. */
  async stop(): Promise<void> {
    this.api.close();
    await Promise.all([this.#controllerManager?.kill(), this.#apiServer?.kill(), this.#etcd?.kill()]);
    await Reaper.shared().removeFolder(this.folder);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  #spawn(name: Parameters<ControlPlane['logFile']>[0], command: string, args: readonly string[]): ServerProcess {
    return new ServerProcess({ name, command, args, logFile: this.logFile(name), cwd: this.folder });
  }
}

/**
 * Starts a control plane; missing servers are built first.
 * @throws Error with the end of the log of a server that did not start, ServerUnavailableError if one cannot be built.
 */
export async function startControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  const folder = await Reaper.shared().temporaryFolder('keyferry-control-plane-');
  const layout: Layout = {
    folder,
    etcdPort: await freePort(),
    etcdPeerPort: await freePort(),
    apiPort: await freePort(),
    tokensFile: path.join(folder, 'tokens.csv'),
    auditPolicyFile: path.join(folder, 'audit-policy.yaml'),
    auditLog: path.join(folder, 'audit.log'),
    pki: path.join(folder, 'pki'),
  };
  const users = [{ name: 'admin', groups: ['system:masters'] }, ...(options.users ?? [])];
  const tokens = new Map(users.map(({ name }) => [name, randomBytes(16).toString('hex')]));
  const ca = await CertificateAuthority.create('keyferry-test-ca');
  await writeControlPlaneFiles(layout, users, tokens, ca);
  const kubeconfigPath = await writeKubeconfigFile(folder, {
    server: `https://127.0.0.1:${layout.apiPort}`,
    caPem: ca.certPem,
    token: tokens.get('admin') ?? '',
  });
  const plane = new ControlPlane(layout, options, ca, tokens, kubeconfigPath);
  try {
    await plane.startEtcd();
    await withBootstrapObjects(layout.etcdPort, options, () => plane.startApiServer());
    if (options.controllerManager ?? true) await plane.startControllerManager();
    return plane;
  } catch (error) {
    await plane.stop();
    throw error;
  }
}
